//! Programs that unmap memory while a message may have to be sent again from it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::common::pages::Pages;
use crate::common::scripted::{OP_GONE, Scripted, outcome};
use crate::common::{Side, poll_until, poll_until_counted, side, side_of, wr};
use softefa::counters::Counter;
use softefa::{
    Access, CompletionOp, Config, QpKind, Remote, SendOp, SendWr, Sge, Status, WireChoice,
};
use srd::Reject;

const LEN: usize = Pages::LEN;

/// Sends `messages` from pages that are registered and, after `before_unmap`, no longer mapped.
/// Returns the messages that succeeded at `a`; the others must have failed because of the memory.
fn send_and_unmap(
    a: &Side,
    b: &Side,
    messages: usize,
    before_unmap: impl FnOnce(),
) -> BTreeSet<u64> {
    let pages = Pages::new(messages * LEN);
    pages.number();
    let access = Access { local_write: true, ..Access::default() };
    let mr = a.pd.reg_mr(pages.addr(), (messages * LEN) as u64, access).expect("registers");
    let ah = a.ah(b);
    for number in 0..messages {
        b.post_recv(number as u64, number * LEN, LEN as u32);
    }
    for number in 0..messages {
        let addr = pages.addr() + (number * LEN) as u64;
        let sge = Sge { addr, len: LEN as u32, lkey: mr.lkey() };
        a.post(number as u64, &ah, b.qp.qpn(), SendOp::Send, &[sge]);
    }
    before_unmap();
    pages.unmap();
    let mut left = messages;
    let mut well = BTreeSet::new();
    poll_until(&[a], |_, done| {
        if done.status == Status::Ok {
            well.insert(done.wr_id);
        } else {
            assert_eq!(done.status, Status::LocalInvalidLkey, "{done:?}");
        }
        left -= 1;
        left == 0
    });
    well
}

/// The peer has the message and its acknowledgements are late. The program, which the peer has
/// answered, frees the memory, as MPICH 5 over libfabric 2.5 does.
fn acknowledged_late(sender_fault: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    // A side that does not run before the acknowledgements arrive, as on a busy machine, asks no
    // question.
    while !asks_what_arrived(sender_fault) {
        assert!(Instant::now() < deadline, "nobody asked");
    }
}

fn asks_what_arrived(sender_fault: &str) -> bool {
    let (a, b) = (side(QpKind::Srd, sender_fault), side(QpKind::Srd, "delay=200ms"));
    let well = send_and_unmap(&a, &b, 8, || {
        let mut arrived = 0;
        poll_until(&[&b], |_, done| {
            assert_eq!((done.op, done.status), (CompletionOp::Recv, Status::Ok));
            arrived += 1;
            arrived == 8
        });
    });
    assert_eq!(well.len(), 8);
    a.device.counters().get(Counter::RetransGonePkts) > 0
}

#[test]
fn what_arrived_is_complete_though_its_memory_is_gone() {
    acknowledged_late("");
}

#[test]
fn what_arrived_is_complete_though_its_memory_is_gone_and_faults_are_on() {
    acknowledged_late("delay=1us");
}

/// A message that did not arrive before its memory was unmapped fails and never arrives; the sender
/// knows which messages those are.
#[test]
fn what_did_not_arrive_fails_and_stays_away() {
    let (a, b) = (side(QpKind::Srd, "loss=50%,seed=4"), side(QpKind::Srd, ""));
    let well = send_and_unmap(&a, &b, 64, || ());
    let mut arrived = BTreeSet::new();
    poll_until(&[&b], |_, done| {
        assert_eq!(done.status, Status::Ok);
        let slot = done.wr_id as usize;
        let number = u64::from_ne_bytes(b.bytes(slot * LEN, 8).try_into().expect("8 bytes"));
        assert!(arrived.insert(number), "{number} came twice");
        arrived.len() == well.len()
    });
    assert_eq!(arrived, well);
    assert!(b.cq.poll_one().is_none(), "more than completed at the sender");
    assert!(!well.is_empty() && a.device.counters().get(Counter::RetransGonePkts) > 0);
}

/// Returns the status of one work request with the first `len` bytes of pages whose memory is
/// unmapped before the peer has looked: the peer sees questions only, and answers `how`.
fn end_of_a_question(op: SendOp, len: u32, how: Reject) -> Status {
    let (a, mut peer) = (side(QpKind::Srd, ""), Scripted::new());
    let pages = Pages::new(LEN);
    let access = Access { local_write: true, ..Access::default() };
    let mr = a.pd.reg_mr(pages.addr(), LEN as u64, access).expect("registers");
    let ah = a.pd.create_ah(a.device.gid()).expect("a handle");
    a.post(1, &ah, peer.qpn(), op, &[Sge { addr: pages.addr(), len, lkey: mr.lkey() }]);
    // A message that was never sent ends here, without a question.
    poll_until_counted(&[&a], &a, Counter::TxPkts, 1);
    pages.unmap();
    poll_until_counted(&[&a], &a, Counter::RetransGonePkts, 1);
    // The datagrams that were sent before are lost.
    peer.forget_arrivals();
    outcome(&a, &mut peer, |op| {
        assert_eq!(op, OP_GONE);
        Err(how)
    })
}

/// A short WRITE, which the adapter copies, is not repeated from memory that is gone.
#[test]
fn a_write_that_did_not_arrive_fails() {
    let write = SendOp::Write(Remote { addr: 4096, rkey: 1 });
    assert_eq!(end_of_a_question(write, 256, Reject::BadStatus), Status::LocalInvalidLkey);
}

/// Other answers of the peer keep their status (SRD-6.7).
#[test]
fn other_ends_keep_their_status() {
    for (op, len) in [(SendOp::Send, LEN as u32), (SendOp::Send, 8)] {
        assert_eq!(end_of_a_question(op, len, Reject::BadDestQpn), Status::RemoteBadDestQpn);
    }
}

/// The kernel refuses a train as a whole. Only the message with the hole fails; the others are
/// sent.
#[test]
fn a_hole_in_a_train_fails_the_message_that_has_it() {
    let config = Config { wire: WireChoice::Udp, paths: 1, ..Config::default() };
    let (a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
    let ah = a.ah(&b);
    // The message opens the connection, so that those that follow leave together.
    b.post_recv(9, 0, 8);
    a.send(9, &b, &ah, 0, 8);
    let mut left = 2;
    poll_until(&[&a, &b], |_, done| {
        assert_eq!(done.status, Status::Ok);
        left -= 1;
        left == 0
    });

    let access = Access { local_write: true, ..Access::default() };
    let [(_before, first), (pages, middle), (_behind, last)] = [(); 3].map(|()| {
        let pages = Pages::new(LEN);
        pages.number();
        let mr = a.pd.reg_mr(pages.addr(), LEN as u64, access).expect("registers");
        (pages, mr)
    });
    pages.unmap();
    (0..3).for_each(|id| b.post_recv(id, id as usize * LEN, LEN as u32));
    let mrs = [first, middle, last];
    for (id, mr) in mrs.iter().enumerate() {
        let sge = [Sge { addr: mr.addr(), len: LEN as u32, lkey: mr.lkey() }];
        let wr = wr(id as u64, &ah, b.qp.qpn(), SendOp::Send, &sge);
        a.qp.post_send(&SendWr { more: id < 2, ..wr }).expect("it is taken");
    }
    let mut ended = Vec::new();
    poll_until(&[&a, &b], |side, done| {
        if side == 0 {
            ended.push((done.wr_id, done.status));
        }
        ended.len() == 3
    });
    ended.sort_unstable_by_key(|(id, _)| *id);
    assert_eq!(ended, [(0, Status::Ok), (1, Status::LocalInvalidLkey), (2, Status::Ok)]);
}
