//! A peer that consists of the engine alone, and sends answers and questions that the adapter never
//! would.

use std::sync::Arc;

use crate::common::scripted::{
    OP_PROBE, OP_READ, OP_READ_DATA, OP_READ_FAIL, OP_WRITE, Scripted, address, answer, block,
    outcome, until,
};
use crate::common::{Side, remote, side, side_of};
use softefa::{Ah, Config, QpKind, SendOp, Status};
use srd::Reject;

const LEN: u32 = 100;

fn start() -> (Side, Arc<Ah>, Scripted) {
    let a = side(QpKind::Srd, "");
    let ah = a.ah(&a);
    (a, ah, Scripted::new())
}

#[test]
fn every_refusal_has_its_status() {
    let (a, ah, mut peer) = start();
    let target = softefa::Remote { addr: 4096, rkey: 7 };
    for (why, status) in [
        (Reject::BadAddress, Status::RemoteBadAddress),
        (Reject::BadDestQpn, Status::RemoteBadDestQpn),
        (Reject::BadLength, Status::RemoteBadLength),
        (Reject::BadStatus, Status::RemoteBadStatus),
        (Reject::UnknownPeer, Status::RemoteUnknownPeer),
        (Reject::FeatureMismatch, Status::RemoteFeatureMismatch),
    ] {
        for op in [SendOp::Send, SendOp::Write(target), SendOp::Read(target)] {
            a.post(1, &ah, peer.qpn(), op, &[a.sge(0, LEN)]);
            assert_eq!(outcome(&a, &mut peer, |_| Err(why)), status, "{op:?} refused: {why:?}");
        }
    }
}

#[test]
fn a_peer_that_lost_its_state_aborts_what_is_on_its_way() {
    let (a, ah, mut peer) = start();
    a.post(1, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, LEN)]);
    assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::Ok);
    for op in [SendOp::Send, SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 })] {
        // The request is for the previous incarnation.
        a.post(2, &ah, peer.qpn(), op, &[a.sge(0, LEN)]);
        peer.restart();
        assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::RemoteAbort, "{op:?}");
        a.post(3, &ah, peer.qpn(), SendOp::Send, &[a.sge(0, LEN)]);
        assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::Ok, "the new life is as good");
    }
}

#[test]
fn a_responder_that_lost_its_state_aborts_the_read_it_took() {
    let (a, ah, mut peer) = start();
    let read = SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 });
    a.post(1, &ah, peer.qpn(), read, &[a.sge(0, LEN)]);
    until(&mut peer, |peer| {
        assert!(a.cq.poll_one().is_none());
        peer.turn(|_| Ok(())).iter().any(|(_, op, _)| *op == OP_READ)
    });
    peer.restart();
    assert_eq!(outcome(&a, &mut peer, |_| Ok(())), Status::RemoteAbort);
}

#[test]
fn answers_that_do_not_fit_fail_the_read_and_touch_nothing_else() {
    let byte = [9; LEN as usize];
    let cases: [(u32, u32, u32, &[u8], Status); 4] = [
        (0, LEN, 0, &byte, Status::Ok),
        (0, LEN + 1, 0, &byte, Status::RemoteBadStatus),
        (0, LEN - 1, 0, &byte[1..], Status::RemoteBadStatus),
        (7, LEN, 0, &byte, Status::RemoteBadAddress),
    ];
    for (key, total, offset, bytes, status) in cases {
        let (mut a, ah, mut peer) = start();
        a.fill(0, &[1; 3 * LEN as usize]);
        let read = SendOp::Read(softefa::Remote { addr: 4096, rkey: 7 });
        a.post(1, &ah, peer.qpn(), read, &[a.sge(LEN as usize, LEN)]);
        let mut found = None;
        until(&mut peer, |peer| {
            for (from, op, request) in peer.turn(|_| Ok(())) {
                assert_eq!(op, OP_READ);
                // The first one reaches beyond its end, which is refused and changes nothing.
                peer.send(from, OP_READ_DATA, &answer(&request, 0, LEN, 1, &byte));
                peer.send(from, OP_READ_DATA, &answer(&request, key, total, offset, bytes));
            }
            found = a.cq.poll_one();
            found.is_some()
        });
        assert_eq!(found.expect("until it is there").status, status);
        let placed = if status == Status::Ok { 9 } else { 1 };
        assert!(a.bytes(LEN as usize, LEN as usize).iter().all(|byte| *byte == placed));
        let around = [a.bytes(0, LEN as usize), a.bytes(2 * LEN as usize, LEN as usize)].concat();
        assert!(around.iter().all(|byte| *byte == 1), "written beside the entry");
    }
}

#[test]
fn requests_that_make_no_sense_are_refused_and_change_nothing() {
    let (mut a, _ah, mut peer) = start();
    a.fill(0, &[1; 1000]);
    let to = address(&a);
    let block = |total, offset| block(&a, total, offset);
    // Each claims more than the operation has; one that is shorter than its block would not pass
    // the check.
    let beyond = |total, offset| [block(total, offset), vec![2; 8]].concat();
    let requests: [(u8, Vec<u8>); 7] = [
        (99, block(8, 0)),
        (OP_WRITE, beyond(8, 1)),
        (OP_WRITE, beyond(8, u32::MAX)),
        (OP_WRITE, beyond(0, 0)),
        (OP_READ, beyond(8, 1)),
        (OP_READ_DATA, beyond(8, 1)),
        (OP_PROBE, beyond(8, 1)),
    ];
    for (op, body) in requests {
        let id = peer.send(to, op, &body);
        until(&mut peer, |peer| {
            assert!(a.cq.poll_one().is_none(), "operation {op} completed something");
            peer.turn(|_| Ok(()));
            peer.ended.contains_key(&id)
        });
        assert_eq!(peer.ended[&id], srd::Status::BadStatus, "operation {op} with {body:?}");
    }
    assert!(a.bytes(0, 1000).iter().all(|byte| *byte == 1), "something was written");
}

#[test]
fn more_bytes_than_were_asked_for_fail_the_read() {
    let (a, ah, mut peer) = start();
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[a.sge(0, LEN)]);
    let mut found = None;
    until(&mut peer, |peer| {
        for (from, _, request) in peer.turn(|_| Ok(())) {
            // The same one is sent twice, so that there are as many as expected, plus one.
            for _ in 0..2 {
                peer.send(
                    from,
                    OP_READ_DATA,
                    &answer(&request, 0, LEN, 0, &[9; LEN as usize / 2 + 1]),
                );
            }
        }
        found = a.cq.poll_one();
        found.is_some()
    });
    assert_eq!(found.expect("until it is there").status, Status::RemoteBadStatus);
}

/// A responder that has sent all bytes has forgotten the READ when a late question arrives, and
/// answers that it knows none. The requester, which has all bytes, completes the READ. This happens
/// when an end is stopped for seconds.
#[test]
fn a_read_that_is_whole_does_not_end_by_an_answer_to_its_question() {
    let (a, ah, mut peer) = start();
    a.post(1, &ah, peer.qpn(), SendOp::Read(remote(&a, 0)), &[a.sge(0, LEN)]);
    let (mut request, mut was_asked, mut found) = (None, false, None);
    until(&mut peer, |peer| {
        // The question is not acknowledged until the READ has been judged.
        let refuse = |op| if op == OP_PROBE && !was_asked { Err(Reject::Rnr) } else { Ok(()) };
        for (from, op, body) in peer.turn(refuse) {
            match op {
                OP_READ => request = Some(body),
                _ if was_asked => assert_eq!(op, OP_PROBE),
                _ => {
                    let request = request.as_ref().expect("it was asked before");
                    let data = answer(request, 0, LEN, 0, &[9; LEN as usize]);
                    peer.send(from, OP_READ_DATA, &data);
                    peer.send(from, OP_READ_FAIL, &answer(request, 0, LEN, 0, &[]));
                    was_asked = true;
                }
            }
        }
        found = a.cq.poll_one();
        found.is_some()
    });
    assert_eq!(found.expect("until it is there").status, Status::Ok);
    assert!(a.bytes(0, LEN as usize).iter().all(|byte| *byte == 9));
}

/// Runs until `a` has a success with this number, while `peer` accepts none of our requests.
fn succeeds(a: &Side, b: &Side, peer: &mut Scripted, wr_id: u64) {
    until(peer, |peer| {
        peer.turn(|_| Err(Reject::Rnr));
        assert!(b.cq.poll_one().is_none());
        let Some(done) = a.cq.poll_one() else { return false };
        assert_eq!((done.wr_id, done.status), (wr_id, Status::Ok));
        true
    });
}

#[test]
fn a_peer_that_takes_no_writes_holds_up_nobody_else() {
    let local_key = Some(*b"key of this user");
    let config = Config { local_key, ..Config::default() };
    // Bytes are named or sent.
    for len in [40_000, LEN] {
        let [a, b] = [(); 2].map(|()| side_of(QpKind::Srd, &config));
        let mut peer = Scripted::new();
        let ah = a.ah(&b);
        for _ in 0..300 {
            a.post(0, &ah, peer.qpn(), SendOp::Write(remote(&b, 0)), &[a.sge(0, len)]);
        }
        a.post(1, &ah, b.qp.qpn(), SendOp::Write(remote(&b, 0)), &[a.sge(0, len)]);
        succeeds(&a, &b, &mut peer, 1);
    }
}

#[test]
fn a_peer_that_takes_no_answers_holds_up_nobody_else() {
    let (a, b, mut peer) = (side(QpKind::Srd, ""), side(QpKind::Srd, ""), Scripted::new());
    for _ in 0..8 {
        let all = u32::try_from(b.mr.len()).expect("short");
        peer.send(address(&b), OP_READ, &block(&b, all, 0));
    }
    until(&mut peer, |peer| {
        peer.turn(|_| Err(Reject::Rnr));
        assert!(b.cq.poll_one().is_none());
        peer.ended.len() == 8
    });
    let ah = a.ah(&b);
    a.post(1, &ah, b.qp.qpn(), SendOp::Read(remote(&b, 0)), &[a.sge(0, LEN)]);
    succeeds(&a, &b, &mut peer, 1);
}

/// One peer requests more than the responder remembers, and accepts none of it.
#[test]
fn a_peer_that_reads_much_leaves_room_for_others() {
    let (a, b, mut greedy) = (side(QpKind::Srd, ""), side(QpKind::Srd, ""), Scripted::new());
    let to = address(&a);
    let ask = |peer: &mut Scripted| {
        while peer.bodies.len() < 1000 && peer.ended.len() < 9000 {
            peer.send(to, OP_READ, &block(&a, 1, 0));
        }
    };
    let (mut asked, mut since) = (0, 0);
    until(&mut greedy, |peer| {
        ask(peer);
        peer.turn(|_| Err(Reject::Rnr));
        a.cq.poll_one();
        since = if peer.ended.len() == asked { since + 1 } else { 0 };
        asked = peer.ended.len();
        // The peer makes no more progress.
        asked > 1000 && since > 3000
    });
    let ah = b.ah(&a);
    b.post(1, &ah, a.qp.qpn(), SendOp::Read(remote(&a, 0)), &[b.sge(0, 100)]);
    let mut done = None;
    until(&mut greedy, |peer| {
        peer.turn(|_| Err(Reject::Rnr));
        a.cq.poll_one();
        done = b.cq.poll_one();
        done.is_some()
    });
    assert_eq!(done.map(|done| done.status), Some(Status::Ok));
}
