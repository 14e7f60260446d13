//! Measures what idle queue pairs cost a busy one: round trips of 64 bytes between two queue pairs
//! of one thread, one of which shares its completion queue with more and more idle neighbours.
//!
//! ```text
//! cargo run --release -p softefa --example crowd
//! ```
#![expect(clippy::unwrap_used, reason = "a measurement that cannot be set up has failed")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::time::Instant;

use common::{Side, init, side, up, wr};
use softefa::{CompletionOp, Cq, Qp, QpKind, SendOp};

const ROUNDS: u32 = 20_000;

fn main() {
    println!("queue pairs per completion queue, ns per round trip (median of 5), ns per idle poll");
    for crowd in [1, 4, 1, 5, 1, 16, 1, 64, 1, 255] {
        let (a, b) = (side(QpKind::Srd, ""), side(QpKind::Srd, ""));
        let cq = Cq::create(&a.device, 16_384).unwrap();
        let create = |_| Qp::create(&a.pd, init(QpKind::Srd, &cq)).unwrap();
        let qps: Vec<_> = (0..crowd).map(create).inspect(|qp| up(qp, 7)).collect();
        let mut rounds: Vec<_> = (0..5).map(|_| round_trip_ns(&a, &cq, &qps[0], &b)).collect();
        rounds.sort_unstable();
        println!("{crowd:4} {:8} {:8}", rounds[2], idle_poll_ns(&cq));
        qps.iter().for_each(|qp| qp.destroy());
    }
}

fn round_trip_ns(a: &Side, cq: &Cq, qp: &Qp, b: &Side) -> u128 {
    let (there, back) = (a.ah(b), b.ah(a));
    let start = Instant::now();
    for _ in 0..ROUNDS {
        b.post_recv(1, 0, 64);
        qp.post_recv(1, &[a.sge(0, 64)]).unwrap();
        qp.post_send(&wr(1, &there, b.qp.qpn(), SendOp::Send, &[a.sge(64, 64)])).unwrap();
        await_message(&b.cq);
        b.qp.post_send(&wr(1, &back, qp.qpn(), SendOp::Send, &[b.sge(64, 64)])).unwrap();
        await_message(cq);
    }
    start.elapsed().as_nanos() / u128::from(ROUNDS)
}

fn await_message(cq: &Cq) {
    while cq.poll_one().is_none_or(|done| done.op != CompletionOp::Recv) {}
}

fn idle_poll_ns(cq: &Cq) -> u128 {
    // Queue pairs that wait for an acknowledgement finish first.
    while cq.poll_one().is_some() {}
    let start = Instant::now();
    for _ in 0..ROUNDS {
        cq.poll_one();
    }
    start.elapsed().as_nanos() / u128::from(ROUNDS)
}
