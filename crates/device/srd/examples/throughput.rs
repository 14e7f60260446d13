//! What the engine itself costs: two endpoints in memory, no sockets, nanoseconds per message.
//!
//! `cargo run --release -p srd --example throughput [messages] [burst]`
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use srd::{Address, Config, Endpoint, Event, HEADER_MAX, Instant, Message, MsgId, Seed, Status};
use std::time::Duration;

/// Time spent in each part of the path.
#[derive(Default)]
struct Spent {
    send: Duration,
    receive: Duration,
    acknowledge: Duration,
    complete: Duration,
}

struct Bench {
    sender: Endpoint,
    receiver: Endpoint,
    now: Instant,
    spent: Spent,
    wire: Vec<([u8; HEADER_MAX], usize, usize)>,
    on_wire: usize,
}

impl Bench {
    fn burst(&mut self, to: Address, first: u64, burst: u64) {
        let start = std::time::Instant::now();
        let peer = self.sender.peer(self.now, to);
        for id in first..first + burst {
            let msg = Message { id: MsgId(id), len: 64, rnr_retry: 7, ..Message::default() };
            if let Err(error) = self.sender.send(self.now, peer, msg) {
                panic!("send: {error}");
            }
        }
        self.transmit();
        self.spent.send += start.elapsed();
    }

    fn transmit(&mut self) {
        loop {
            if self.wire.len() == self.on_wire {
                self.wire.push(([0; HEADER_MAX], 0, 0));
            }
            let slot = &mut self.wire[self.on_wire];
            let Some(out) = self.sender.poll_transmit(self.now, &mut slot.0) else { return };
            (slot.1, slot.2) = (out.header_len, out.header_len + out.payload_len as usize);
            self.on_wire += 1;
        }
    }

    fn receive(&mut self) {
        let start = std::time::Instant::now();
        for (bytes, header_len, len) in &self.wire[..core::mem::take(&mut self.on_wire)] {
            let got = self.receiver.handle_datagram(self.now, 1, &bytes[..*header_len], *len);
            if let Ok(Some(new)) = got.map(|received| received.data) {
                self.receiver.accept(self.now, new.peer, new.psn);
            }
        }
        self.spent.receive += start.elapsed();
    }

    fn acknowledge(&mut self) -> u64 {
        let start = std::time::Instant::now();
        let mut header = [0; HEADER_MAX];
        self.receiver.flush_acks(self.now);
        while let Some(out) = self.receiver.poll_transmit(self.now, &mut header) {
            let bytes = &header[..out.header_len];
            let _ = self.sender.handle_datagram(self.now, 2, bytes, bytes.len());
        }
        let acked = std::time::Instant::now();
        let mut done = 0;
        while let Some(event) = self.sender.poll_event() {
            done += u64::from(matches!(event, Event::Completed { status: Status::Ok, .. }));
        }
        self.spent.acknowledge += acked - start;
        self.spent.complete += acked.elapsed();
        done
    }
}

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse().unwrap_or(0));
    let total: u64 = args.next().unwrap_or(20_000_000);
    let burst: u64 = args.next().unwrap_or(64).max(1);
    let mut bench = Bench {
        sender: Endpoint::new(Config::socket(), 7, Seed::from_u64(1)),
        receiver: Endpoint::new(Config::socket(), 8, Seed::from_u64(2)),
        now: Instant::from_ns(1_000_000_000),
        spent: Spent::default(),
        wire: Vec::with_capacity(burst as usize),
        on_wire: 0,
    };
    let (mut sent, mut done) = (0, 0);
    while done < total {
        bench.burst(Address { host: 2, qpn: 8 }, sent, burst);
        sent += burst;
        bench.now = bench.now.plus_ns(5000);
        bench.receive();
        done += bench.acknowledge();
        bench.sender.handle_timeout(bench.now);
        bench.receiver.handle_timeout(bench.now);
        bench.transmit();
    }
    let per = |spent: Duration| spent.as_nanos() as f64 / done as f64;
    let Spent { send, receive, acknowledge, complete } = bench.spent;
    println!("burst {burst}: ns per message of 64 B, {done} messages");
    println!("  send + transmit   {:7.1}", per(send));
    println!("  receive + accept  {:7.1}", per(receive));
    println!("  acknowledgements  {:7.1}", per(acknowledge));
    println!("  poll events       {:7.1}", per(complete));
    println!("  all               {:7.1}", per(send + receive + acknowledge + complete));
}
