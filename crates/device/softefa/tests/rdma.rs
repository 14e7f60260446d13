//! RDMA between two queue pairs over real sockets.

use std::sync::Arc;

use crate::common::roce::EVERYTHING;
use crate::common::{
    self, Side, init, pair, poll_until, poll_until_counted, remote, side, side_of, up, wait_for,
};
use softefa::counters::Counter;
use softefa::{
    Access, CompletionOp, Config, Cq, Device, ModifyQp, MrOptions, Profile, Qp, QpKind, QpState,
    Remote, SendOp, Sge, Status,
};

const LEN: u32 = 300_000;
const FAULTS: &str = "loss=2%,reorder=20%,dup=2%,seed=5";

fn pattern(seed: u8) -> Vec<u8> {
    (0..LEN).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Returns the completion of the one work request that `a` has posted.
fn finish(a: &Side, b: &Side) -> (CompletionOp, Status) {
    let mut found = None;
    poll_until(&[a, b], |index, done| {
        found = Some((done.op, done.status));
        index == 0
    });
    found.expect("poll_until returned")
}

fn write_then_read(fault: &str) {
    let (mut a, b) = pair(fault);
    let ah = a.ah(&b);
    a.fill(0, &pattern(1));
    let write = SendOp::Write(remote(&b, 1000));
    a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, LEN)]);
    assert_eq!(finish(&a, &b), (CompletionOp::Write, Status::Ok));
    assert!(b.bytes(1000, LEN as usize) == pattern(1), "what was written is there");
    assert_eq!((b.bytes(999, 1), b.bytes(1000 + LEN as usize, 1)), (&[0u8][..], &[0u8][..]));
    let read = SendOp::Read(remote(&b, 1000));
    a.post(2, &ah, b.qp.qpn(), read, &[a.sge(500_000, LEN)]);
    assert_eq!(finish(&a, &b), (CompletionOp::Send, Status::Ok), "a READ completes as a send");
    assert!(a.bytes(500_000, LEN as usize) == pattern(1), "what was read is there");
    assert!(b.device.counters().get(Counter::RdmaWriteRecvBytes) >= u64::from(LEN));
}

#[test]
fn what_is_written_can_be_read_back() {
    write_then_read("");
}

#[test]
fn faults_do_not_show() {
    write_then_read(FAULTS);
}

/// The driver hands the name of the first byte to the device (`efa_reg_mr`, `efa_alloc_mr`).
#[test]
fn regions_may_have_other_names_for_their_bytes() {
    const IOVA: u64 = 0x10_0000;
    for key in [None, Some(*b"key of this user")] {
        let config = Config { local_key: key, ..Config::default() };
        let (mut a, b) = (side_of(QpKind::Srd, &config), side_of(QpKind::Srd, &config));
        let ah = a.ah(&b);
        let options = MrOptions { iova: Some(IOVA), ..MrOptions::default() };
        let [near, far] = [&a, &b].map(|side| {
            side.pd
                .reg_mr_with(side.sge(0, 1).addr, 1 << 20, EVERYTHING, options)
                .expect("a region")
        });
        let remote = |at: u64| Remote { addr: IOVA + at, rkey: far.rkey() };
        let sge = |at: u64| Sge { addr: IOVA + at, len: LEN, lkey: near.lkey() };
        a.fill(0, &pattern(1));
        a.post(1, &ah, b.qp.qpn(), SendOp::Write(remote(1000)), &[sge(0)]);
        assert_eq!(finish(&a, &b), (CompletionOp::Write, Status::Ok));
        assert!(b.bytes(1000, LEN as usize) == pattern(1), "what was written is there");
        a.post(2, &ah, b.qp.qpn(), SendOp::Read(remote(1000)), &[sge(500_000)]);
        assert_eq!(finish(&a, &b), (CompletionOp::Send, Status::Ok));
        assert!(a.bytes(500_000, LEN as usize) == pattern(1), "what was read is there");
        let by_address = Remote { addr: far.addr(), rkey: far.rkey() };
        a.post(3, &ah, b.qp.qpn(), SendOp::Write(by_address), &[sge(0)]);
        assert_eq!(finish(&a, &b), (CompletionOp::Write, Status::RemoteBadAddress));
    }
}

#[test]
fn many_operations_share_the_queue_pair() {
    let (mut a, b) = pair(FAULTS);
    let ah = a.ah(&b);
    a.fill(0, &pattern(3));
    for id in 0..40 {
        let at = id as usize * 10_000;
        let write = SendOp::Write(remote(&b, at));
        a.post(id, &ah, b.qp.qpn(), write, &[a.sge(0, 10_000)]);
        let read = SendOp::Read(Remote { addr: a.mr.addr(), rkey: a.mr.rkey() });
        // The same device's other queue pair serves the READ: `a` reads its own pattern from
        // itself.
        let own = a.ah(&a);
        a.post(100 + id, &own, a.qp.qpn(), read, &[a.sge(500_000 + at, 10_000)]);
    }
    let mut ended = 0;
    poll_until(&[&a, &b], |_, done| {
        assert_eq!(done.status, Status::Ok, "{done:?}");
        ended += 1;
        ended == 80
    });
    for id in 0..40 {
        assert!(b.bytes(id * 10_000, 10_000) == &pattern(3)[..10_000]);
        assert!(a.bytes(500_000 + id * 10_000, 10_000) == &pattern(3)[..10_000]);
    }
}

#[test]
fn empty_operations_complete() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let nowhere = Remote { addr: 0, rkey: 0 };
    a.post(1, &ah, b.qp.qpn(), SendOp::Read(nowhere), &[a.sge(0, 0)]);
    assert_eq!(finish(&a, &b), (CompletionOp::Send, Status::Ok));
    a.post(2, &ah, b.qp.qpn(), SendOp::Write(nowhere), &[]);
    assert_eq!(finish(&a, &b), (CompletionOp::Write, Status::Ok));
}

#[test]
fn what_is_not_allowed_changes_no_byte() {
    let (mut a, b) = pair("");
    let ah = a.ah(&b);
    a.fill(0, &pattern(7));
    let end = b.mr.len() as usize;
    let readonly = Access { local_write: true, remote_read: true, ..Access::default() };
    let guarded = b.pd.reg_mr(b.mr.addr(), b.mr.len(), readonly).unwrap();
    let overlapping = remote(&b, end - LEN as usize + 1);
    let stranger = Remote { rkey: b.mr.rkey() ^ 1, ..remote(&b, 0) };
    let no_right = Remote { addr: b.mr.addr(), rkey: guarded.rkey() };
    for target in [overlapping, stranger, no_right] {
        a.post(1, &ah, b.qp.qpn(), SendOp::Write(target), &[a.sge(0, LEN)]);
        assert_eq!(finish(&a, &b), (CompletionOp::Write, Status::RemoteBadAddress));
        assert!(b.bytes(0, end).iter().all(|byte| *byte == 0), "{target:?} changed a byte");
    }
    a.post(2, &ah, b.qp.qpn(), SendOp::Read(overlapping), &[a.sge(0, LEN)]);
    assert_eq!(finish(&a, &b), (CompletionOp::Send, Status::RemoteBadAddress));
    assert!(a.bytes(0, LEN as usize) == pattern(7));
}

#[test]
fn an_immediate_comes_after_the_last_byte() {
    let (mut a, b) = pair(FAULTS);
    let (ah, _back) = (a.ah(&b), b.ah(&a));
    for (round, len) in [8u32, LEN].into_iter().enumerate() {
        a.fill(0, &pattern(round as u8));
        b.post_recv(70, 900_000, 16);
        let write = SendOp::WriteImm(remote(&b, 0), 33);
        a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, len)]);
        let told = wait_for(&[&a, &b], 1, CompletionOp::RecvWrite);
        assert_eq!((told.wr_id, told.byte_len, told.imm), (70, len, Some(33)));
        assert!(b.bytes(0, len as usize) == &pattern(round as u8)[..len as usize]);
        wait_for(&[&a, &b], 0, CompletionOp::Write);
    }
}

#[test]
fn the_target_program_takes_no_part() {
    let (mut a, b) = pair("");
    let ah = a.ah(&b);
    a.fill(0, &pattern(9));
    let write = SendOp::Write(remote(&b, 0));
    a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, LEN)]);
    assert_eq!(wait_for(&[&a], 0, CompletionOp::Write).status, Status::Ok);
    let read = SendOp::Read(remote(&b, 0));
    a.post(2, &ah, b.qp.qpn(), read, &[a.sge(500_000, LEN)]);
    assert_eq!(wait_for(&[&a], 0, CompletionOp::Send).status, Status::Ok);
    assert!(a.bytes(500_000, LEN as usize) == pattern(9));
}

#[test]
fn a_responder_that_goes_away_ends_the_read() {
    let (a, b) = pair("delay=20ms,seed=1");
    let ah = a.ah(&b);
    let read = SendOp::Read(remote(&b, 0));
    // The data exceed the first window, so that the rest is never sent.
    a.post(1, &ah, b.qp.qpn(), read, &[a.sge(0, 1_000_000)]);
    poll_until_counted(&[&a, &b], &b, Counter::RdmaReadRespBytes, 1);
    b.qp.destroy();
    let done = wait_for_any(&a);
    assert!(
        matches!(done, Status::RemoteBadDestQpn | Status::RemoteAbort),
        "{done:?} after the responder went away"
    );
}

#[test]
fn a_responder_that_is_reset_aborts_the_read() {
    let (a, b) = pair("delay=20ms,seed=1");
    let ah = a.ah(&b);
    let read = SendOp::Read(remote(&b, 0));
    a.post(1, &ah, b.qp.qpn(), read, &[a.sge(0, 1_000_000)]);
    poll_until_counted(&[&a, &b], &b, Counter::RdmaReadRespBytes, 1);
    let reset = ModifyQp { state: Some(QpState::Reset), ..ModifyQp::default() };
    b.qp.modify(&reset).unwrap();
    up(&b.qp, 7);
    assert_eq!(finish(&a, &b), (CompletionOp::Send, Status::RemoteAbort));
}

fn wait_for_any(a: &Side) -> Status {
    let mut status = None;
    poll_until(&[a], |_, done| {
        status = Some(done.status);
        true
    });
    status.expect("poll_until returned")
}

#[test]
fn the_first_generation_has_no_rdma() {
    let config = Config { profile: Profile::Efa0, ..Config::default() };
    let device = Device::open(&config.devices[0], &config).unwrap();
    assert!(!device.attr().caps.rdma_read && device.attr().max_rdma_bytes == 0);
    let b = side(QpKind::Srd, "");
    let pd = device.alloc_pd().unwrap();
    let cq: Arc<Cq> = Cq::create(&device, 16).unwrap();
    let qp = Qp::create(&pd, init(QpKind::Srd, &cq)).unwrap();
    up(&qp, 7);
    let ah = pd.create_ah(b.device.gid()).unwrap();
    let read = SendOp::Read(remote(&b, 0));
    qp.post_send(&common::wr(1, &ah, b.qp.qpn(), read, &[])).unwrap();
    assert_eq!(cq.pop().unwrap().status, Status::LocalUnsupportedOp);
    qp.destroy();
}

/// WRITEs that wait for a receive do not use up what a peer may have in progress.
#[test]
fn writes_that_find_no_receive_hold_up_no_others() {
    let (a, b) = pair("");
    let ah = a.ah(&b);
    let post = |id, op| a.post(id, &ah, b.qp.qpn(), op, &[a.sge(0, 64)]);
    (0..256).for_each(|id| post(id, SendOp::WriteImm(remote(&b, 0), 1)));
    post(1000, SendOp::Write(remote(&b, 100)));
    // The WRITEs wait for a receive, and end when there is one.
    let mut ended = Vec::new();
    poll_until(&[&a, &b], |index, done| {
        assert_eq!((index, done.status), (0, Status::Ok));
        ended.push(done.wr_id);
        true
    });
    assert_eq!(ended, [1000]);
    (0..256).for_each(|id| b.post_recv(id, 900_000, 16));
    poll_until(&[&a, &b], |index, done| {
        assert_eq!(done.status, Status::Ok);
        ended.extend((index == 0).then_some(done.wr_id));
        ended.len() == 257
    });
}

#[test]
fn a_peer_that_is_not_ready_does_not_keep_us_from_answering_it() {
    let (a, b) = pair("");
    let (to_b, to_a) = (a.ah(&b), b.ah(&a));
    for id in 0..200 {
        // Together they exceed the window of a connection.
        a.post(id, &to_b, b.qp.qpn(), SendOp::Send, &[a.sge(0, 8000)]);
        let write = SendOp::WriteImm(remote(&b, 0), 1);
        a.post(id + 200, &to_b, b.qp.qpn(), write, &[a.sge(0, 8000)]);
    }
    // `b` posts receives only after it has read from `a`.
    let read = SendOp::Read(remote(&a, 0));
    b.post(1000, &to_a, a.qp.qpn(), read, &[b.sge(500_000, LEN)]);
    let done = wait_for(&[&a, &b], 1, CompletionOp::Send);
    assert_eq!((done.wr_id, done.status), (1000, Status::Ok));
    (0..400).for_each(|id| b.post_recv(id, 900_000, 8000));
    let mut told = 0;
    poll_until(&[&a, &b], |index, done| {
        assert_eq!(done.status, Status::Ok);
        told += usize::from(index == 1);
        told == 400
    });
}
