//! Keys, address handles and states that do not match: the status reports it, and no byte changes.

use std::sync::Arc;

use crate::common::{
    self, Side, first, init, outcome, pair, poll_until_counted, remote, up, wait_for,
};
use softefa::counters::Counter;
use softefa::{
    AHN_UNKNOWN, Access, CompletionOp, ModifyQp, Mr, Pd, PostError, Qp, QpKind, QpState, SendOp,
    Sge, Status,
};

const EVERYTHING: Access = Access {
    local_write: true,
    remote_read: true,
    remote_write: true,
    remote_atomic: false,
    remote_flush: false,
};
const GUARD: u8 = 0x5a;
const LEN: u32 = 20_000;

/// Registers the whole memory of `side` once more in `pd`.
fn again(side: &Side, pd: &Arc<Pd>, access: Access) -> Arc<Mr> {
    pd.reg_mr(side.mr.addr(), side.mr.len(), access).expect("the same memory again")
}

#[test]
fn a_remote_key_is_good_on_queue_pairs_of_its_own_domain_only() {
    let (mut a, mut b) = pair("");
    a.fill(0, &[1; LEN as usize]);
    b.fill(0, &[GUARD; LEN as usize]);
    let other = b.device.alloc_pd().unwrap();
    let foreign = again(&b, &other, EVERYTHING);
    let target = softefa::Remote { rkey: foreign.rkey(), ..remote(&b, 0) };
    let sges = [a.sge(0, LEN)];
    assert_eq!(outcome(&a, &b, SendOp::Write(target), &sges), Status::RemoteBadAddress);
    assert_eq!(outcome(&a, &b, SendOp::Read(target), &sges), Status::RemoteBadAddress);
    assert!(b.bytes(0, LEN as usize).iter().all(|byte| *byte == GUARD), "written all the same");
    assert!(a.bytes(0, LEN as usize).iter().all(|byte| *byte == 1), "read all the same");
    assert_eq!(outcome(&a, &b, SendOp::Write(remote(&b, 0)), &sges), Status::Ok);
}

#[test]
fn a_local_key_is_good_on_queue_pairs_of_its_own_domain_only() {
    let (mut a, b) = pair("");
    a.fill(0, &[GUARD; LEN as usize]);
    let foreign = again(&a, &a.device.alloc_pd().unwrap(), EVERYTHING);
    let sge = Sge { lkey: foreign.lkey(), ..a.sge(0, 64) };
    for op in [SendOp::Send, SendOp::Write(remote(&b, 0)), SendOp::Read(remote(&b, 0))] {
        assert_eq!(outcome(&a, &b, op, &[sge]), Status::LocalInvalidLkey, "{op:?}");
    }
    assert!(a.bytes(0, LEN as usize).iter().all(|byte| *byte == GUARD), "written all the same");
    assert!(b.bytes(0, LEN as usize).iter().all(|byte| *byte == 0), "sent all the same");
}

#[test]
fn rights_are_needed_on_either_side() {
    let (a, b) = pair("");
    let closed = again(&a, &a.pd, Access::default());
    let into_closed = Sge { lkey: closed.lkey(), ..a.sge(0, 64) };
    let read = SendOp::Read(remote(&b, 0));
    assert_eq!(outcome(&a, &b, read, &[into_closed]), Status::LocalInvalidLkey);
    // Reading local memory requires no right.
    let write = SendOp::Write(remote(&b, 0));
    assert_eq!(outcome(&a, &b, write, &[into_closed]), Status::Ok);
    let unreadable = again(&b, &b.pd, Access { remote_read: false, ..EVERYTHING });
    let target = softefa::Remote { rkey: unreadable.rkey(), ..remote(&b, 0) };
    let status = outcome(&a, &b, SendOp::Read(target), &[a.sge(0, 64)]);
    assert_eq!(status, Status::RemoteBadAddress);
    assert!(
        b.pd.reg_mr(b.mr.addr(), 64, Access { local_write: false, ..EVERYTHING }).is_err(),
        "peers may not write where the adapter may not"
    );
}

#[test]
fn a_handle_serves_its_own_domain_until_it_is_destroyed() {
    let (a, b) = pair("");
    let other = a.device.alloc_pd().unwrap();
    let foreign = other.create_ah(b.device.gid()).unwrap();
    let stale = a.ah(&b);
    stale.destroy();
    stale.destroy();
    for ah in [&foreign, &stale] {
        a.post(1, ah, b.qp.qpn(), SendOp::Send, &[a.sge(0, 8)]);
        let done = a.cq.pop().unwrap();
        assert_eq!((done.wr_id, done.status), (1, Status::LocalInvalidAh));
    }
    assert_eq!(a.device.counters().get(Counter::TxPkts), 0, "nothing left");
}

/// Programs look the number up in their own address vector, in which the handle of another domain
/// is another peer, or none.
#[test]
fn a_receive_names_its_sender_by_a_handle_of_its_own_domain() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let other = b.device.alloc_pd().unwrap();
    let _foreign = other.create_ah(a.device.gid()).unwrap();
    let ahn = || {
        b.post_recv(1, 0, 64);
        a.send(1, &b, &ah, 0, 8);
        wait_for(&[&a, &b], 1, CompletionOp::Recv).ahn
    };
    assert_eq!(ahn(), AHN_UNKNOWN);
    let own = b.ah(&a);
    assert_eq!(ahn(), own.ahn());
    own.destroy();
    assert_eq!(ahn(), AHN_UNKNOWN);
}

#[test]
fn the_last_handle_of_a_peer_takes_its_work_requests_along() {
    let (a, b) = pair("delay=20ms,seed=3");
    let (first, last) = (a.ah(&b), a.ah(&b));
    // Without a receive there, sends are tried for ever and WRITEs wait for their turn; the READ
    // has been accepted and waits for its data.
    a.post(0, &first, b.qp.qpn(), SendOp::Read(remote(&b, 0)), &[a.sge(0, 1_000_000)]);
    poll_until_counted(&[&a, &b], &b, Counter::RdmaReadRespBytes, 1);
    for id in 1..=20 {
        a.send(id, &b, &first, 0, 8);
    }
    for id in 21..=30 {
        a.post(id, &last, b.qp.qpn(), SendOp::Write(remote(&b, 0)), &[a.sge(0, 1_000_000)]);
    }
    first.destroy();
    assert!(a.cq.pop().is_none(), "a handle for the same peer is left");
    last.destroy();
    let mut flushed: Vec<_> = std::iter::from_fn(|| a.cq.pop()).collect();
    flushed.sort_by_key(|done| done.wr_id);
    assert!(flushed.iter().map(|done| done.wr_id).eq(0..=30), "{flushed:?}");
    assert!(flushed.iter().all(|done| done.status == Status::Flushed), "{flushed:?}");
    // Nothing is left over that would complete twice or disturb later work.
    assert_eq!(outcome(&a, &b, SendOp::Write(remote(&b, 0)), &[a.sge(0, 8)]), Status::Ok);
}

#[test]
fn a_handle_takes_nothing_of_other_peers_along() {
    let (a, b) = pair("");
    let elsewhere = a.pd.create_ah(softefa::Gid::of_efa([127, 0, 0, 77].into())).unwrap();
    let here = a.ah(&b);
    a.send(2, &b, &here, 0, 8);
    elsewhere.destroy();
    b.post_recv(1, 0, 64);
    let done = wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!((done.wr_id, done.status), (2, Status::Ok));
}

#[test]
fn deregistration_ends_a_write_that_has_to_be_repeated() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let source = again(&a, &a.pd, Access::default());
    let sge = Sge { lkey: source.lkey(), ..a.sge(0, 64) };
    // No receive is posted for its immediate data.
    a.post(1, &ah, b.qp.qpn(), SendOp::WriteImm(remote(&b, 0), 5), &[sge]);
    poll_until_counted(&[&a, &b], &b, Counter::RxRnr, 1);
    source.deregister();
    assert_eq!(first(&a, &b, CompletionOp::Write), Status::LocalInvalidLkey);
}

#[test]
fn deregistration_ends_a_read_on_either_side() {
    for is_target in [true, false] {
        let (a, mut b) = pair("delay=20ms,seed=1");
        b.fill(0, &[7; 1_000_000]);
        let ah = a.ah(&b);
        let local = again(&a, &a.pd, EVERYTHING);
        let distant = again(&b, &b.pd, EVERYTHING);
        let source = softefa::Remote { rkey: distant.rkey(), ..remote(&b, 0) };
        let sge = Sge { lkey: local.lkey(), ..a.sge(0, 1_000_000) };
        // The data exceed the first window, so that the rest comes after the deregistration.
        a.post(1, &ah, b.qp.qpn(), SendOp::Read(source), &[sge]);
        poll_until_counted(&[&a, &b], &b, Counter::RdmaReadRespBytes, 1);
        let (ends, expected) = if is_target {
            (&local, Status::LocalInvalidLkey)
        } else {
            (&distant, Status::RemoteBadAddress)
        };
        ends.deregister();
        let before = a.bytes(0, 1_000_000).to_vec();
        assert_eq!(first(&a, &b, CompletionOp::Send), expected);
        if is_target {
            assert!(a.bytes(0, 1_000_000) == before, "written after the deregistration");
        }
    }
}

#[test]
fn queue_pairs_on_one_completion_queue_end_apart() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let make = || {
        let qp = Qp::create(&a.pd, init(QpKind::Srd, &a.cq)).unwrap();
        up(&qp, 7);
        qp.post_recv(u64::from(qp.port()), &[a.sge(0, 8)]).unwrap();
        let sges = [a.sge(0, 8)];
        let wr = common::wr(u64::from(qp.port()), &ah, b.qp.qpn(), SendOp::Send, &sges);
        qp.post_send(&wr).unwrap();
        qp
    };
    let (reset, failed, destroyed, alive) = (make(), make(), make(), make());
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    reset.modify(&to(QpState::Reset)).unwrap();
    failed.modify(&to(QpState::Error)).unwrap();
    // The queue pair is purged although it has completions that were not polled.
    destroyed.modify(&to(QpState::Error)).unwrap();
    destroyed.destroy();
    for _ in 0..2 {
        let done = a.cq.pop().unwrap();
        assert_eq!((done.qpn, done.status), (failed.qpn(), Status::Flushed));
    }
    assert_eq!(failed.post_recv(1, &[]), Err(PostError::State(QpState::Error)));
    // Each of those that ended may have left a message in b's socket.
    (0..4).for_each(|id| b.post_recv(id, 0, 64));
    let done = wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!((done.qpn, done.status), (alive.qpn(), Status::Ok));
    [reset, failed, alive].iter().for_each(|qp| qp.destroy());
}

#[test]
fn a_send_needs_a_queue_pair_that_is_ready() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let qp = Qp::create(&a.pd, init(QpKind::Srd, &a.cq)).unwrap();
    let sges = [a.sge(0, 8)];
    let post = || qp.post_send(&common::wr(1, &ah, b.qp.qpn(), SendOp::Send, &sges));
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    assert_eq!(post(), Err(PostError::State(QpState::Reset)));
    let key = Some(common::QKEY);
    let up = ModifyQp { port: Some(1), pkey_index: Some(0), qkey: key, ..to(QpState::Init) };
    qp.modify(&up).unwrap();
    assert_eq!(post(), Err(PostError::State(QpState::Init)));
    qp.modify(&to(QpState::ReadyToReceive)).unwrap();
    assert_eq!(post(), Err(PostError::State(QpState::ReadyToReceive)));
    qp.modify(&to(QpState::Error)).unwrap();
    assert_eq!(post(), Err(PostError::State(QpState::Error)));
    assert!(a.cq.pop().is_none() && a.device.counters().get(Counter::TxPkts) == 0);
    qp.destroy();
}
