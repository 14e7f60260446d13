//! Measures the instructions that the adapter executes for a message, at both ends together. `cargo
//! xtask device-cost` runs this under callgrind and counts [`ping`] and [`stream`] only.
//!
//! ```text
//! cargo run --release -p softefa --example message_cost -- ping-64 1000
//! cargo run --release -p softefa --example message_cost -- stream-8192 1000
//! ```
//! Messages go over UDP; with `-memory` behind the name they go through shared memory, with `rc-`
//! before it over a reliable connection.
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be set up has failed")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Side, roce, side_of, wr};
use softefa::counters::Counter;
use softefa::{Ah, CompletionOp, Config, QpKind, Remote, SendOp, Sge, WireChoice};

/// Number of messages of a stream between two polls of the receiver.
const BURST: u64 = 16;

/// The time that the clock of this program shows, in nanoseconds.
static NOW_NS: AtomicI64 = AtomicI64::new(1_000_000_000);

/// Replaces the function of the C library. Under callgrind a message takes as long as a thousand do
/// outside, and timers of the adapter would expire in each. This clock advances by 50 ns whenever
/// it is read.
#[unsafe(no_mangle)]
extern "C" fn clock_gettime(_clock: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
    let now_ns = NOW_NS.fetch_add(50, Ordering::Relaxed);
    // SAFETY: the caller passes a place for the time.
    unsafe {
        (*time).tv_sec = now_ns / 1_000_000_000;
        (*time).tv_nsec = now_ns % 1_000_000_000;
    }
    0
}

fn main() {
    let mut args = std::env::args().skip(1);
    let (name, count) = (args.next(), args.next().and_then(|count| count.parse().ok()));
    let name = name.unwrap_or_default();
    let through_memory = name.strip_suffix("-memory");
    let wire = if through_memory.is_some() { WireChoice::Auto } else { WireChoice::Udp };
    let kind = through_memory.unwrap_or(&name);
    let (pair, kind) = match kind.strip_prefix("rc-") {
        Some(kind) => (Pair::connected(wire), kind),
        None => (Pair::of_datagrams(wire), kind),
    };
    if through_memory.is_some() {
        pair.open_rings();
    }
    if count.is_some_and(|count| run(&pair, kind, count)) {
        println!("handled {}", count.unwrap());
    } else {
        println!(
            "usage: message_cost [rc-](ping-64|stream-64|stream-8192|write-64)[-memory] MESSAGES"
        );
    }
}

/// Runs the measurement `kind`; returns false if there is no such kind.
fn run(pair: &Pair, kind: &str, count: u64) -> bool {
    match kind {
        "ping-64" => ping(pair, count),
        "stream-64" => stream(pair, 64, count, SendOp::Send),
        "stream-8192" => stream(pair, 8192, count, SendOp::Send),
        "write-64" => {
            let remote = Remote { addr: pair.sides[1].mr.addr(), rkey: pair.sides[1].mr.rkey() };
            stream(pair, 64, count, SendOp::Write(remote));
        }
        _ => return false,
    }
    true
}

/// Two sides that can send to each other, over SRD with address handles of each other.
struct Pair {
    sides: [Side; 2],
    ahs: Option<[Arc<Ah>; 2]>,
}

impl Pair {
    fn of_datagrams(wire: WireChoice) -> Self {
        let config = Config { wire, ..Config::default() };
        let (a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
        let ahs = Some([a.ah(&b), b.ah(&a)]);
        Self { sides: [a, b], ahs }
    }

    fn connected(wire: WireChoice) -> Self {
        let config = roce::config(wire, "");
        let link = roce::Link { mtu: 4096, ..roce::Link::default() };
        let (a, b) = roce::pair_of(&config, QpKind::Rc, 1 << 16, &link);
        Self { sides: [a, b], ahs: None }
    }

    /// Sends until both sides have a ring to the other one, which takes time that this clock would
    /// not show.
    fn open_rings(&self) {
        let is_open = |side: &Side| side.device.counters().get(Counter::TxMemoryPkts) > 0;
        for _ in 0..1000 {
            exchange(self, 32);
            if self.sides.iter().all(is_open) {
                return;
            }
            NOW_NS.fetch_add(1_000_000, Ordering::Relaxed);
        }
        panic!("no ring opened");
    }

    fn post(&self, from: usize, op: SendOp, sges: &[Sge]) {
        let posted = match &self.ahs {
            Some(ahs) => wr(1, &ahs[from], self.sides[1 - from].qp.qpn(), op, sges),
            None => roce::wr(1, op, sges),
        };
        self.sides[from].qp.post_send(&posted).unwrap();
    }
}

/// Sends messages of 64 bytes back and forth, `count` in both directions together.
#[inline(never)]
fn ping(pair: &Pair, count: u64) {
    exchange(pair, count);
}

fn exchange(pair: &Pair, count: u64) {
    for round in 0..count {
        let from = round as usize % 2;
        let to = &pair.sides[1 - from];
        to.post_recv(1, 0, 64);
        pair.post(from, SendOp::Send, &[pair.sides[from].sge(64, 64)]);
        await_messages(to, 1);
    }
}

/// Sends messages of `len` bytes one way, in bursts.
#[inline(never)]
fn stream(pair: &Pair, len: u32, count: u64, op: SendOp) {
    let [a, b] = &pair.sides;
    for _ in 0..count.div_ceil(BURST) {
        for _ in 0..BURST {
            if matches!(op, SendOp::Send) {
                b.post_recv(1, 0, len);
            }
            pair.post(0, op, &[a.sge(0, len)]);
        }
        while a.qp.send_room() < a.qp.init().sq_depth {
            a.cq.poll_one();
            b.cq.poll_one();
        }
    }
}

fn await_messages(side: &Side, count: u64) {
    let mut seen = 0;
    while seen < count {
        let done = side.cq.poll_one();
        seen += u64::from(done.is_some_and(|done| done.op == CompletionOp::Recv));
    }
}
