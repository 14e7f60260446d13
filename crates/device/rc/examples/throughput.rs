//! What the engine itself costs: two endpoints in memory, no sockets, nanoseconds per packet.
//!
//! `cargo run --release -p rc --example throughput [messages] [bytes]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use rc::{
    Access, Config, Endpoint, Event, HEADER_MAX, Instant, Mtu, Operation, Psn, ReceiveAttr, Remote,
    SendAttr, SendRequest, Service, Status, WrId,
};

/// Work requests posted ahead.
const DEPTH: u64 = 64;

fn endpoint(qpn: u32, dest_qpn: u32) -> Endpoint {
    let mut endpoint = Endpoint::new(Config::socket(), Service::Rc, qpn);
    endpoint.ready_to_receive(ReceiveAttr {
        dest_qpn,
        path_mtu: Mtu::B4096,
        rq_psn: Psn::new(7),
        max_dest_rd_atomic: 16,
        min_rnr_timer: 12,
        access: Access::ALL,
    });
    endpoint.ready_to_send(SendAttr {
        sq_psn: Psn::new(7),
        max_rd_atomic: 16,
        timeout: 14,
        retry_cnt: 7,
        rnr_retry: 7,
    });
    endpoint
}

/// Carries everything that `from` has to send; returns how many packets that were.
fn carry(now: Instant, from: &mut Endpoint, to: &mut Endpoint) -> u64 {
    let mut header = [0; HEADER_MAX];
    let mut packets = 0;
    while let Some(out) = from.poll_transmit(now, &mut header) {
        packets += 1;
        match to.handle_packet(now, &header[..out.header_len], out.packet_len()) {
            Ok(received) if received.arrival.is_some() => to.accept(now),
            Ok(_) => {}
            Err(reason) => panic!("dropped: {reason}"),
        }
    }
    packets
}

/// Sends `messages` and returns packets carried.
fn run(op: Operation, messages: u64, bytes: u32) -> u64 {
    let (mut here, mut there) = (endpoint(1, 2), endpoint(2, 1));
    let now = Instant::from_ns(1);
    let (mut posted, mut done, mut packets) = (0, 0, 0);
    while done < messages {
        while posted < messages && posted - done < DEPTH {
            let request = SendRequest::new(WrId(posted), op, bytes);
            if let Err(error) = here.post(now, request) {
                panic!("post: {error}");
            }
            posted += 1;
        }
        packets += carry(now, &mut here, &mut there);
        packets += carry(now, &mut there, &mut here);
        while let Some(event) = here.poll_event() {
            assert!(matches!(event, Event::Completed { status: Status::Ok, .. }), "{event:?}");
            done += 1;
        }
    }
    packets
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter_map(|text| text.parse().ok());
    let messages = arguments.next().unwrap_or(1_000_000);
    let bytes = arguments.next().map_or(64, |bytes| bytes as u32);
    let remote = Remote { va: 0, rkey: 1 };
    for (name, op) in [
        ("SEND", Operation::Send),
        ("WRITE", Operation::Write(remote)),
        ("READ", Operation::Read(remote)),
    ] {
        let start = std::time::Instant::now();
        let packets = run(op, messages, bytes);
        let ns = start.elapsed().as_nanos() as f64;
        println!(
            "{name:5} {messages} messages of {bytes} bytes, {packets} packets: {:.1} ns per message, {:.1} per packet",
            ns / messages as f64,
            ns / packets as f64
        );
    }
}
