//! The cost of the timed loops beyond the fabric's calls: each loop runs here without a fabric, so
//! that its instructions can be counted (`cargo xtask own-cost`, which runs this test under
//! callgrind).

use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use bench_record::spec::{Limit, PointSpec};

use super::{Outcome, bandwidth, echo, latency};
use crate::backend::null::{Null, Peer};
use crate::exchange::Signals;
use crate::lane::{Command, Part as LanePart, Port, Side};
use crate::link::Link;
use crate::stream_job::stream_job;

/// The environment variable that names the loop and the number of messages (for a receiver, the
/// time in ms): "latency-client 1000".
const ENV: &str = "EFA_BENCH_OWN_COST";
const SIZE_BYTES: usize = 64;
const DEPTH: usize = 256;

/// A function that runs one side of a benchmark.
type Loop = fn(LanePart<'_, Null>) -> Outcome;

/// A loop whose instructions are counted.
struct Part {
    name: &'static str,
    peer: fn(u64) -> Peer,
    side: Side,
    run: Loop,
    limit: fn(u64) -> Limit,
    /// Returns the number of messages that the loop handled.
    handled: fn(&Null) -> u64,
}

const PARTS: [Part; 4] = [
    Part {
        name: "latency-client",
        peer: |_| Peer::Echoes,
        side: Side::Client,
        run: latency::measure,
        limit: Limit::Iterations,
        handled: |null| null.taken,
    },
    Part {
        name: "latency-server",
        peer: Peer::Pings,
        side: Side::Server,
        run: echo::serve,
        limit: Limit::Iterations,
        handled: |null| null.taken,
    },
    Part {
        name: "stream-sender",
        peer: |_| Peer::Takes,
        side: Side::Client,
        run: bandwidth::send,
        limit: Limit::Iterations,
        handled: |null| null.taken,
    },
    Part {
        name: "stream-receiver",
        peer: |_| Peer::Streams,
        side: Side::Server,
        run: bandwidth::receive,
        limit: Limit::DurationMs,
        handled: |null| null.delivered,
    },
];

/// Runs a loop. Returns the number of messages that it handled.
fn run(part: &Part, amount: u64) -> u64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
    let ours = TcpStream::connect(listener.local_addr().expect("bound")).expect("connect");
    let (_theirs, _) = listener.accept().expect("accept");
    let signals = Signals::over(ours, Duration::from_secs(10));
    // A receiver is told at once that no more messages come.
    let port = Port::alone(signals, &stream_job(DEPTH), Command::Sent(0));
    let null = Null::new((part.peer)(amount), DEPTH, DEPTH, SIZE_BYTES);
    let mut links = [Link::new(null, &stream_job(DEPTH), part.side, 0).expect("a link")];
    let limit = (part.limit)(amount);
    let (size_bytes, depth) = (SIZE_BYTES, DEPTH);
    let point = PointSpec::new(size_bytes, depth, limit);
    (part.run)(LanePart { links: &mut links, port: &port, point }).expect("nothing can fail");
    (part.handled)(links[0].backend())
}

#[test]
fn every_loop_handles_what_it_is_given() {
    if let Ok(request) = std::env::var(ENV) {
        let (name, amount) = request.split_once(' ').expect("a loop and an amount");
        let part = PARTS.iter().find(|part| part.name == name).expect("a loop");
        println!("\nhandled {}", run(part, amount.parse().expect("a number")));
        return;
    }
    for part in &PARTS {
        let handled = run(part, 20);
        assert!(handled >= 20, "{}: {handled}", part.name);
    }
}
