//! GONE, the question about a message whose bytes are lost (SRD-6.7), together with "not ready"
//! (SRD-6.1 to 6.5). One side is an adapter, the other the engine alone.

use std::cell::Cell;

use crate::common::pages::Pages;
use crate::common::scripted::{OP_GONE, OP_SEND, Scripted, address, outcome, until};
use crate::common::{Side, poll_until_counted, side, up};
use softefa::counters::Counter;
use softefa::{Access, ModifyQp, QpKind, QpState, SendOp, Sge, Status};
use srd::{MsgId, Reject};

const LEN: u32 = Pages::LEN as u32;

/// Returns true if `b` has a completion, because the adapter's receives end only when a test
/// expects it.
fn received(b: &Side) -> bool {
    b.cq.poll_one().inspect(|done| assert_eq!((done.status, done.wr_id), (Status::Ok, 1))).is_some()
}

/// Asks what became of message `id`, and returns the answer.
fn asked(b: &Side, peer: &mut Scripted, id: MsgId) -> srd::Status {
    (peer.is_mute, peer.is_forgetful) = (false, true);
    until(peer, |peer| {
        assert!(!received(b), "the question was delivered");
        peer.turn(|_| Ok(()));
        // An earlier answer may still be under way.
        peer.is_deaf &= peer.questions == 0;
        peer.ended.contains_key(&id)
    });
    assert!(peer.questions > 0, "nobody asked");
    peer.ended[&id]
}

/// Checks that the number of the question is used up and blocks nothing: the next message is
/// delivered.
fn next_is_delivered(b: &Side, peer: &mut Scripted) {
    peer.is_forgetful = false;
    let id = peer.send(address(b), OP_SEND, b"next");
    let mut is_received = false;
    until(peer, |peer| {
        is_received |= received(b);
        peer.turn(|_| Ok(()));
        is_received && peer.ended.contains_key(&id)
    });
    assert_eq!((peer.ended[&id], b.bytes(0, 4)), (srd::Status::Ok, &b"next"[..]));
}

/// Makes a peer that may try `rnr_retry` times, and loses the answers.
fn deaf(rnr_retry: u8) -> Scripted {
    let mut peer = Scripted::new();
    (peer.rnr_retry, peer.is_deaf) = (rnr_retry, true);
    peer
}

#[test]
fn a_question_after_not_ready_ends_the_message_though_a_receive_is_there() {
    let (b, mut peer) = (side(QpKind::Srd, ""), Scripted::new());
    let id = peer.send(address(&b), OP_SEND, b"lost");
    until(&mut peer, |peer| {
        assert!(!received(&b));
        peer.turn(|_| Ok(()));
        b.device.counters().get(Counter::RxRnr) > 0
    });
    b.post_recv(1, 0, 64);
    assert_eq!(asked(&b, &mut peer, id), srd::Status::BadStatus);
    next_is_delivered(&b, &mut peer);
}

/// The last try was refused, and the sender has not received that: the refusal remains the result
/// (SRD-6.3).
#[test]
fn a_question_after_the_last_try_is_told_how_that_ended() {
    let (b, mut peer) = (side(QpKind::Srd, ""), deaf(0));
    let id = peer.send(address(&b), OP_SEND, b"late");
    until(&mut peer, |peer| {
        assert!(!received(&b));
        peer.turn(|_| Ok(()));
        b.device.counters().get(Counter::RxRnr) > 0
    });
    b.post_recv(1, 0, 64);
    assert_eq!(asked(&b, &mut peer, id), srd::Status::Rnr);
    next_is_delivered(&b, &mut peer);
}

/// The last try was accepted: its question is a duplicate (SRD-6.5).
#[test]
fn a_question_after_an_accepted_last_try_succeeds() {
    let (b, mut peer) = (side(QpKind::Srd, ""), deaf(0));
    b.post_recv(1, 0, 64);
    let id = peer.send(address(&b), OP_SEND, b"here");
    until(&mut peer, |peer| {
        peer.turn(|_| Ok(()));
        received(&b)
    });
    b.post_recv(1, 0, 64);
    assert_eq!(asked(&b, &mut peer, id), srd::Status::Ok);
    next_is_delivered(&b, &mut peer);
}

/// The last try is lost, and there is no receive: the question is answered as a question, not as a
/// message that finds the receiver not ready.
#[test]
fn a_question_in_place_of_the_last_try_is_no_message() {
    let (b, mut peer) = (side(QpKind::Srd, ""), Scripted::new());
    (peer.rnr_retry, peer.is_mute) = (0, true);
    let id = peer.send(address(&b), OP_SEND, b"lost");
    peer.turn(|_| Ok(()));
    assert_eq!(asked(&b, &mut peer, id), srd::Status::BadStatus);
    assert_eq!(b.device.counters().get(Counter::RxRnr), 0);
    b.post_recv(1, 0, 64);
    next_is_delivered(&b, &mut peer);
}

/// Returns the status of a SEND that was "not ready" once, and whose memory was gone when it was
/// tried again; `how` is the answer to the question.
fn end_of_a_send(rnr_retry: u8, how: Reject) -> Status {
    let (a, mut peer) = (side(QpKind::Srd, ""), Scripted::new());
    a.qp.modify(&ModifyQp { state: Some(QpState::Reset), ..ModifyQp::default() })
        .expect("possible");
    up(&a.qp, rnr_retry);
    let pages = Pages::new(Pages::LEN);
    let access = Access { local_write: true, ..Access::default() };
    let mr = a.pd.reg_mr(pages.addr(), LEN.into(), access).expect("registers");
    let ah = a.pd.create_ah(a.device.gid()).expect("a handle");
    let sge = Sge { addr: pages.addr(), len: LEN, lkey: mr.lkey() };
    a.post(1, &ah, peer.qpn(), SendOp::Send, &[sge]);
    // A message that was never sent ends here, without a question.
    poll_until_counted(&[&a], &a, Counter::TxPkts, 1);
    pages.unmap();
    let (was_ready, was_asked) = (Cell::new(true), Cell::new(false));
    let status = outcome(&a, &mut peer, |op| {
        if op == OP_SEND {
            was_ready.set(false);
            return Err(Reject::Rnr);
        }
        assert_eq!(op, OP_GONE);
        was_asked.set(true);
        Err(how)
    });
    assert!(!was_ready.get() && was_asked.get(), "{status:?}");
    status
}

#[test]
fn a_send_that_was_not_ready_fails_when_its_memory_is_gone() {
    for rnr_retry in [1, 7] {
        assert_eq!(end_of_a_send(rnr_retry, Reject::BadStatus), Status::LocalInvalidLkey);
    }
}

/// A peer may give this answer; then that was the last try (SRD-6.3).
#[test]
fn a_last_question_that_is_not_ready_ends_as_such() {
    assert_eq!(end_of_a_send(1, Reject::Rnr), Status::RemoteRnr);
}
