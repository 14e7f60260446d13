//! The end of RoCE queue pairs, and faults of one device only: accepted messages are acknowledged,
//! posted messages arrive, and nothing of an old connection disturbs a new one.

use crate::common::roce::{
    Link, WIRES, add, config, connect, ends, gather, pair_of, post, side, to, wr,
};
use crate::common::{self, Side, is_alone, poll_until, remote};
use softefa::counters::Counter;
use softefa::{QpKind, QpState, Remote, SendOp, SendWr, Sge, Status, WireChoice};

use Status::{Flushed, LocalQpInternalError, Ok, RetryExceeded};

const RC: QpKind = QpKind::Rc;

/// Most of the last acknowledgements are lost, and the program is gone.
#[test]
fn what_was_received_is_acknowledged_after_destruction() {
    for wire in WIRES {
        for seed in 0..10 {
            let lossy = config(wire, &format!("loss=60%,seed={seed}"));
            let (a, b) = (side(&config(wire, ""), RC, 8192), side(&lossy, RC, 8192));
            let link = Link { timeout: 10, ..Link::default() };
            connect(&a, &b, &link);
            (0..3).for_each(|id| b.post_recv(id, 0, 4096));
            (0..3).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 4096)]));
            let mut received = 0;
            poll_until(&[&b], |_, done| {
                assert_eq!(done.status, Ok);
                received += 1;
                received == 3
            });
            b.qp.destroy();
            let expected = [0, 1, 2].map(|id| (id, Ok));
            assert_eq!(ends(&gather(&[&a], 3)[0], true), expected, "seed {seed}");
        }
    }
}

/// Programs end right after their last message.
#[test]
fn what_was_posted_arrives_after_destruction() {
    if !is_alone(module_path!(), "what_was_posted_arrives_after_destruction") {
        return;
    }
    for wire in WIRES {
        for seed in 0..10 {
            let lossy = config(wire, &format!("loss=30%,seed={seed}"));
            let link = Link { timeout: 10, ..Link::default() };
            let (a, b) = pair_of(&lossy, RC, 8192, &link);
            (0..3).for_each(|id| b.post_recv(id, 0, 4096));
            (0..3).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 4096)]));
            a.qp.destroy();
            let expected = [0, 1, 2].map(|id| (id, Ok));
            assert_eq!(ends(&gather(&[&b], 3)[0], false), expected, "seed {seed}");
            assert!(a.cq.poll_one().is_none());
        }
    }
}

/// A program learns from elsewhere that its peer has everything, and ends the connection. An
/// acknowledgement that came before the end completes the work request, though it had not been
/// read.
#[test]
fn what_was_acknowledged_before_the_end_is_no_failure() {
    for wire in WIRES {
        for round in 0..20 {
            let (a, b) = pair_of(&config(wire, ""), RC, 8192, &Link::default());
            b.post_recv(1, 0, 4096);
            post(&a, 7, SendOp::Send, &[a.sge(0, 4096)]);
            poll_until(&[&b], |_, done| done.wr_id == 1);
            // The acknowledgement was delayed to be sent with others.
            assert!(b.cq.poll_one().is_none());
            a.qp.modify(&to(QpState::Error)).expect("error");
            assert_eq!(ends(&gather(&[&a], 1)[0], true), [(7, Ok)], "round {round} of {wire:?}");
        }
    }
}

/// An error that the kernel still reports about the old peer does not end the new connection.
#[test]
fn a_dead_peer_does_not_haunt_its_successor() {
    for wire in WIRES {
        let config = config(wire, "");
        let (a, b) = (side(&config, RC, 8192), side(&config, RC, 8192));
        for round in 0..30 {
            let dead = side(&config, RC, 64);
            connect(&a, &dead, &Link::default());
            dead.qp.destroy();
            (0..5).for_each(|id| post(&a, id, SendOp::Send, &[a.sge(0, 4096)]));
            if round % 3 == 0 {
                let expected = [RetryExceeded, Flushed, Flushed, Flushed, Flushed];
                let found = ends(&gather(&[&a], 5)[0], true);
                assert!(found.iter().map(|end| end.1).eq(expected), "{found:?}");
            }
            a.qp.modify(&to(QpState::Reset)).expect("reset");
            connect(&a, &b, &Link::default());
            b.post_recv(1, 0, 4096);
            post(&a, 7, SendOp::Send, &[a.sge(0, 4096)]);
            let found = gather(&[&a, &b], 2);
            assert_eq!(ends(&found[0], true), [(7, Ok)], "round {round}");
            b.qp.modify(&to(QpState::Reset)).expect("reset");
            a.qp.modify(&to(QpState::Reset)).expect("reset");
        }
    }
}

/// The status is 2 on purpose, also for work requests without local bytes.
#[test]
fn an_internal_error_on_purpose_ends_the_connection() {
    let all = |b: &Side| {
        let at = remote(b, 0);
        [(SendOp::Send, 8), (SendOp::Send, 0), (SendOp::Write(at), 3000), (SendOp::Write(at), 0)]
            .into_iter()
            .chain([(SendOp::Read(at), 3000), (SendOp::Read(at), 0), (add(at, 1), 8)])
            .collect::<Vec<_>>()
    };
    for kind in [RC, QpKind::Uc] {
        for index in 0..if kind == RC { 7 } else { 4 } {
            let faulty = config(WireChoice::Udp, "internal=100%");
            let (a, b) = pair_of(&faulty, kind, 8192, &Link::default());
            let (op, len) = all(&b)[index];
            b.post_recv(1, 0, 4096);
            post(&a, 1, op, &[a.sge(0, len)]);
            a.qp.post_send(&SendWr { signaled: false, ..wr(2, op, &[]) }).expect("taken");
            let expected = [(1, LocalQpInternalError), (2, Flushed)];
            assert_eq!(ends(&gather(&[&a], 2)[0], true), expected, "{kind:?} {op:?}");
            let state = if kind == RC { QpState::Error } else { QpState::SendQueueError };
            assert_eq!(a.qp.query().state, state);
            assert_eq!(a.device.counters().get(Counter::TxPkts), 0, "{op:?}");
            assert!(b.bytes(0, 8).iter().all(|byte| *byte == 0));
        }
    }
}

/// A queue pair that never came up can be destroyed, too.
#[test]
fn a_queue_pair_can_be_destroyed_in_every_state() {
    for kind in [RC, QpKind::Uc] {
        for steps in 0..4 {
            for is_failed in [false, true] {
                let a = side(&config(WireChoice::Udp, ""), kind, 64);
                let link = Link::default();
                let (gid, qpn) = (a.device.gid(), a.qp.qpn() ^ 1);
                let ways = [
                    common::roce::to_init(&link),
                    common::roce::to_receive(kind, &link, gid, qpn, 1),
                    common::roce::to_send(kind, &link, 1),
                ];
                ways[..steps].iter().for_each(|way| a.qp.modify(way).expect("a way"));
                if steps > 0 {
                    a.post_recv(1, 0, 8);
                }
                if is_failed && steps > 0 {
                    a.qp.modify(&to(QpState::Error)).expect("to the error state");
                }
                a.qp.destroy();
                assert!(a.cq.poll_one().is_none());
            }
        }
    }
}

/// A key is invalid once its region is gone, even if a successor has the same queue pair number.
#[test]
fn a_successor_does_not_inherit_a_key() {
    for wire in WIRES {
        let (a, b) = pair_of(&config(wire, ""), RC, 8192, &Link::default());
        let everything = common::roce::EVERYTHING;
        let old = b.pd.reg_mr(b.mr.addr(), 64, everything).expect("a region");
        let at = Remote { addr: old.addr(), rkey: old.rkey() };
        post(&a, 1, SendOp::Write(at), &[a.sge(0, 8)]);
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(1, Ok)]);
        old.deregister();
        let _new: Vec<_> =
            (0..50).map(|_| b.pd.reg_mr(b.mr.addr(), 64, everything).expect("a region")).collect();
        post(&a, 2, SendOp::Write(at), &[Sge { len: 8, ..a.sge(0, 8) }]);
        assert_eq!(ends(&gather(&[&a, &b], 1)[0], true), [(2, Status::RemoteBadAddress)]);
    }
}
