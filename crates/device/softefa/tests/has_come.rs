//! Datagrams that came before a change of state are handled as an adapter would have done when they
//! came, though they have not been read yet: the program was stopped, or the machine is busy.

use std::time::{Duration, Instant};

use crate::common::roce::{Link, WIRES, config, connect, ends, gather, pair_of, post, side, to};
use crate::common::{Side, pair, wait_for};
use softefa::counters::Counter;
use softefa::{CompletionOp, QpKind, QpState, SendOp, Status};

/// The number of short messages, more than one turn receives.
const MESSAGES: u64 = 16;

/// Sends all messages, and returns when they have left, whether or not they have been read.
fn send_all(a: &Side, b: &Side) {
    (0..MESSAGES).for_each(|id| b.post_recv(id, id as usize * 64, 64));
    (0..MESSAGES).for_each(|id| post(a, id, SendOp::Send, &[a.sge(0, 64)]));
    while a.device.counters().get(Counter::TxPkts) < MESSAGES {
        std::thread::yield_now();
    }
}

fn all(status: Status) -> Vec<(u64, Status)> {
    (0..MESSAGES).map(|id| (id, status)).collect()
}

/// A message that has arrived counts as received, so its sender ends with success.
#[test]
fn what_has_come_before_destruction_is_received() {
    for wire in WIRES {
        for round in 0..20 {
            let (a, b) = pair_of(&config(wire, ""), QpKind::Rc, 8192, &Link::default());
            send_all(&a, &b);
            b.qp.destroy();
            let found = ends(&gather(&[&a], MESSAGES as usize)[0], true);
            assert_eq!(found, all(Status::Ok), "round {round} of {wire:?}");
        }
    }
}

/// A message that has arrived uses its receive before the error flushes the others.
#[test]
fn what_has_come_before_an_error_is_received() {
    for wire in WIRES {
        for round in 0..20 {
            let (a, b) = pair_of(&config(wire, ""), QpKind::Rc, 8192, &Link::default());
            send_all(&a, &b);
            b.qp.modify(&to(QpState::Error)).expect("error");
            let found = gather(&[&b, &a], 2 * MESSAGES as usize);
            assert_eq!(ends(&found[0], false), all(Status::Ok), "round {round} of {wire:?}");
            assert_eq!(ends(&found[1], true), all(Status::Ok), "round {round} of {wire:?}");
        }
    }
}

/// The same holds for an EFA device.
#[test]
fn what_has_come_over_srd_before_destruction_is_received() {
    for round in 0..20 {
        let (mut a, b) = pair("");
        let ah = a.ah(&b);
        // The connection is open, so that the next message is not refused.
        b.post_recv(9, 0, 8);
        a.send(9, &b, &ah, 0, 8);
        assert_eq!(wait_for(&[&a, &b], 0, CompletionOp::Send).status, Status::Ok);
        b.post_recv(1, 64, 8);
        a.fill(0, &[7; 8]);
        a.send(1, &b, &ah, 0, 8);
        b.qp.destroy();
        assert_eq!(wait_for(&[&a], 0, CompletionOp::Send).status, Status::Ok, "round {round}");
        assert_eq!(b.bytes(64, 8), [7; 8], "round {round}");
    }
}

/// Many programs use the same first packet numbers. Even so, requests of the old connection use no
/// receives of the new one, and its acknowledgements complete no sends of the new one.
#[test]
fn what_was_for_the_last_connection_is_not_for_the_next() {
    let link = Link { psn: [0, 0], ..Link::default() };
    for wire in WIRES {
        for kind in [QpKind::Rc, QpKind::Uc] {
            let config = config(wire, "");
            let (a, b) = (side(&config, kind, 8192), side(&config, kind, 8192));
            for round in 0..50 {
                connect(&a, &b, &link);
                // Nor does the last message find a receive in the new connection.
                (0..3).for_each(|id| b.post_recv(id, 0, 64));
                (0..4).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 64)]));
                // The messages are read by neither side, or by the side that is reset first.
                if round % 2 == 0 {
                    let _ = b.cq.poll_one();
                }
                for qp in [&a.qp, &b.qp] {
                    qp.modify(&to(QpState::Reset)).expect("reset");
                }
                connect(&a, &b, &link);
                (0..4).for_each(|id| b.post_recv(10 + id, 0, 64));
                let until = Instant::now() + Duration::from_millis(2);
                while Instant::now() < until {
                    let more = b.cq.poll_one().or_else(|| a.cq.poll_one());
                    assert!(more.is_none(), "{more:?} in round {round} of {kind:?}, {wire:?}");
                }
                for qp in [&a.qp, &b.qp] {
                    qp.modify(&to(QpState::Reset)).expect("reset");
                }
            }
        }
    }
}
