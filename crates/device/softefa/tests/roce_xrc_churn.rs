//! Queues, targets and openings of a domain that are made and destroyed while other threads send
//! through it.
//!
//! `SOFTEFA_ROUNDS=10000 cargo test -p softefa --test all roce_xrc_churn` does it longer. A wrong
//! order of locks shows as a hang.
#![allow(clippy::unwrap_used, reason = "what cannot be set up has failed")]

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::common::roce::{Link, config, connect_qps, side, wr};
use crate::common::traffic::number;
use crate::common::xrc::{Target, post_to, srq_in};
use crate::common::{self, Side};
use softefa::{Completion, Cq, Qp, QpKind, SendOp, SendWr, Status, WireChoice};

/// The most messages that may be under way through the queue that stays.
const DEPTH: u64 = 64;

/// Sends through the queue that stays, and takes the messages that arrive there, each of which
/// takes one receive.
fn stream(a: &Side, b: &Target, stop: &AtomicBool) -> u64 {
    let (mut sent, mut done, mut got) = (0, 0, 0);
    (0..DEPTH).for_each(|id| b.post_recv(id, 0, 64));
    let mut in_use = BTreeSet::new();
    while !stop.load(Ordering::Relaxed) || got < sent || done < sent {
        if sent < done + DEPTH && !stop.load(Ordering::Relaxed) {
            post_to(&a.qp, b.srq.number(), sent, SendOp::SendImm(sent as u32), &[a.sge(0, 64)]);
            sent += 1;
        }
        if let Some(Completion { wr_id, status, .. }) = a.cq.poll_one() {
            assert_eq!((wr_id, status), (done, Status::Ok));
            done += 1;
        }
        if let Some(Completion { wr_id, status, imm, .. }) = b.side.cq.poll_one() {
            assert_eq!((imm, status), (Some(got as u32), Status::Ok), "in order, and once");
            assert!(in_use.insert((got / DEPTH, wr_id)), "a receive was used twice");
            in_use.retain(|(round, _)| round + 2 > got / DEPTH);
            got += 1;
            b.post_recv(wr_id, 0, 64);
        }
    }
    sent
}

/// Makes a queue with a completion queue of its own, another target, and an initiator that sends
/// there until all of them are destroyed, in an order that depends on the round.
fn come_and_go(b: &Target, from: &Side, round: u64) {
    let cq = Cq::create(&b.side.device, 64).unwrap();
    let srq = srq_in(&b.xrcd, &b.side.pd, &cq);
    let target = b.sibling();
    let again = Qp::open_target(&b.xrcd, target.qpn(), None).unwrap();
    let initiator =
        Qp::create(&from.pd, common::roce::wide(QpKind::XrcInitiator, &from.cq)).unwrap();
    connect_qps(&initiator, &target, &Link::default());
    (0..8).for_each(|id| srq.post_recv(id, &[b.side.sge(0, 64)]).unwrap());
    for id in 0..8 {
        let sges = [from.sge(0, 64)];
        let request = SendWr { remote_srq: srq.number(), ..wr(id, SendOp::Send, &sges) };
        initiator.post_send(&request).unwrap();
    }
    for _ in 0..round % 7 {
        let _ = cq.poll_one();
    }
    match round % 3 {
        0 => {
            srq.destroy();
            target.destroy();
            again.destroy();
        }
        1 => {
            target.destroy();
            srq.destroy();
            again.destroy();
        }
        _ => {
            target.destroy();
            again.destroy();
            srq.destroy();
        }
    }
    initiator.destroy();
    assert!(!cq.is_in_use() && cq.pop().is_none(), "something is left of what was destroyed");
}

#[test]
fn what_comes_and_goes_disturbs_nobody() {
    let rounds = number("SOFTEFA_ROUNDS", 60);
    for wire in [WireChoice::Auto, WireChoice::Udp] {
        // No completion is awaited of objects that are destroyed meanwhile.
        let config = softefa::Config { strict: true, ..config(wire, "") };
        let b = Target::new(&config, 4096, None);
        let a = side(&config, QpKind::XrcInitiator, 4096);
        connect_qps(&a.qp, &b.side.qp, &Link::default());
        let stop = AtomicBool::new(false);
        let sent = std::thread::scope(|scope| {
            let streaming = scope.spawn(|| stream(&a, &b, &stop));
            let churning: Vec<_> = (0..2)
                .map(|_| {
                    scope.spawn(|| {
                        let from = side(&config, QpKind::XrcInitiator, 4096);
                        (0..rounds).for_each(|round| come_and_go(&b, &from, round));
                    })
                })
                .collect();
            let ended: Vec<_> = churning.into_iter().map(|thread| thread.join()).collect();
            stop.store(true, Ordering::Relaxed);
            ended.into_iter().for_each(|ended| ended.unwrap());
            streaming.join().unwrap()
        });
        assert!(sent > DEPTH, "{sent} messages only");
    }
}
