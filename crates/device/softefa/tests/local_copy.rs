//! RDMA between queue pairs that may copy each other's memory (SRD-10.7 to 10.10).

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Page, Side, poll_until, poll_until_counted, side_of, wait_for};
use softefa::counters::Counter;
use softefa::local_copy::UserKey;
use softefa::{Access, CompletionOp, Config, QpKind, Remote, SendOp, Sge, Status};

const KEY: UserKey = *b"key of this user";
const LEN: u32 = 300_000;

fn local(key: Option<UserKey>) -> Side {
    side_of(QpKind::Srd, &Config { local_key: key, ..Config::default() })
}

fn remote(of: &Side, at: usize) -> Remote {
    Remote { addr: of.mr.addr() + at as u64, rkey: of.mr.rkey() }
}

fn pattern(seed: u8) -> Vec<u8> {
    (0..LEN).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

/// Returns the status of the work request that `a` has posted.
fn finish(a: &Side, b: &Side) -> Status {
    let mut status = None;
    poll_until(&[a, b], |index, done| {
        status = Some(done.status);
        index == 0
    });
    status.expect("poll_until returned")
}

/// Writes to `b` and reads back; returns the number of bytes that were copied from memory to
/// memory.
fn write_and_read(a: &mut Side, b: &Side) -> u64 {
    let ah = a.ah(b);
    a.fill(0, &pattern(1));
    a.post(1, &ah, b.qp.qpn(), SendOp::Write(remote(b, 1000)), &[a.sge(0, LEN)]);
    assert_eq!(finish(a, b), Status::Ok);
    assert!(b.bytes(1000, LEN as usize) == pattern(1), "what was written is there");
    assert_eq!((b.bytes(999, 1), b.bytes(1000 + LEN as usize, 1)), (&[0u8][..], &[0u8][..]));
    a.post(2, &ah, b.qp.qpn(), SendOp::Read(remote(b, 1000)), &[a.sge(500_000, LEN)]);
    assert_eq!(finish(a, b), Status::Ok);
    assert!(a.bytes(500_000, LEN as usize) == pattern(1), "what was read is there");
    [&*a, b].iter().map(|side| side.device.counters().get(Counter::RdmaLocalBytes)).sum()
}

#[test]
fn bytes_are_copied_and_not_sent() {
    let (mut a, b) = (local(Some(KEY)), local(Some(KEY)));
    assert_eq!(write_and_read(&mut a, &b), 2 * u64::from(LEN));
    let sent =
        a.device.counters().get(Counter::TxBytes) + b.device.counters().get(Counter::TxBytes);
    assert!(sent < 10_000, "{sent} bytes went over the wire");
}

#[test]
fn who_does_not_share_the_key_is_served_over_the_wire() {
    for other in [None, Some(*b"another user key")] {
        let (mut a, b) = (local(Some(KEY)), local(other));
        assert_eq!(write_and_read(&mut a, &b), 0, "{other:?}");
    }
}

#[test]
fn faults_are_not_evaded() {
    let faults = "loss=1%,seed=3".parse().unwrap();
    let config = Config { local_key: Some(KEY), faults, ..Config::default() };
    let (mut a, b) = (side_of(QpKind::Srd, &config), local(Some(KEY)));
    assert_eq!(write_and_read(&mut a, &b), 0);
}

#[test]
fn what_is_not_allowed_changes_no_byte() {
    let (mut a, b) = (local(Some(KEY)), local(Some(KEY)));
    let ah = a.ah(&b);
    a.fill(0, &pattern(7));
    let end = b.mr.len() as usize;
    let deaf = b.pd.reg_mr(b.mr.addr(), b.mr.len(), Access::default()).unwrap();
    let overlapping = remote(&b, end - LEN as usize + 1);
    let stranger = Remote { rkey: b.mr.rkey() ^ 1, ..remote(&b, 0) };
    let no_right = Remote { addr: b.mr.addr(), rkey: deaf.rkey() };
    for target in [overlapping, stranger, no_right] {
        a.post(1, &ah, b.qp.qpn(), SendOp::Write(target), &[a.sge(0, LEN)]);
        assert_eq!(finish(&a, &b), Status::RemoteBadAddress, "{target:?}");
        a.post(2, &ah, b.qp.qpn(), SendOp::Read(target), &[a.sge(0, LEN)]);
        assert_eq!(finish(&a, &b), Status::RemoteBadAddress, "{target:?}");
    }
    assert!(b.bytes(0, end).iter().all(|byte| *byte == 0), "a refused WRITE changed a byte");
    assert!(a.bytes(0, LEN as usize) == pattern(7), "a refused READ changed a byte");
}

#[test]
fn an_immediate_comes_after_the_last_byte_and_waits_for_a_receive() {
    let (mut a, b) = (local(Some(KEY)), local(Some(KEY)));
    let (ah, _back) = (a.ah(&b), b.ah(&a));
    for (round, len) in [40_000, LEN].into_iter().enumerate() {
        a.fill(0, &pattern(round as u8));
        let write = SendOp::WriteImm(remote(&b, 0), 33);
        a.post(1, &ah, b.qp.qpn(), write, &[a.sge(0, len)]);
        // The message is turned away at least once before the receive is there.
        poll_until_counted(&[&a, &b], &b, Counter::RxRnr, round as u64 + 1);
        b.post_recv(70, 900_000, 16);
        let told = wait_for(&[&a, &b], 1, CompletionOp::RecvWrite);
        assert_eq!((told.wr_id, told.byte_len, told.imm), (70, len, Some(33)));
        assert!(b.bytes(0, len as usize) == &pattern(round as u8)[..len as usize]);
        wait_for(&[&a, &b], 0, CompletionOp::Write);
    }
}

#[test]
fn many_operations_share_the_queue_pair() {
    let (mut a, b) = (local(Some(KEY)), local(Some(KEY)));
    let ah = a.ah(&b);
    a.fill(0, &pattern(3));
    for id in 0..200 {
        let op = if id % 2 == 0 { SendOp::Write } else { SendOp::Read };
        a.post(id, &ah, b.qp.qpn(), op(remote(&b, 0)), &[a.sge(0, LEN)]);
    }
    let mut seen = [false; 200];
    poll_until(&[&a, &b], |_, done| {
        assert_eq!(done.status, Status::Ok, "{done:?}");
        assert!(!std::mem::replace(&mut seen[done.wr_id as usize], true), "{done:?} twice");
        seen.iter().all(|seen| *seen)
    });
    assert!(b.bytes(0, LEN as usize) == pattern(3));
}

#[test]
fn a_long_write_that_cannot_be_copied_is_sent_once() {
    let (a, b) = (local(Some(KEY)), local(None));
    let from = Page::new(&a, Access::default());
    let all = Access { local_write: true, remote_write: true, ..Access::default() };
    let into = Page::new(&b, all);
    into.words.iter().for_each(|word| word.store(2, Ordering::Relaxed));
    let target = Remote { addr: into.mr.addr(), rkey: into.mr.rkey() };
    let sge = Sge { addr: from.mr.addr(), len: Page::LEN, lkey: from.mr.lkey() };
    let ah = a.ah(&b);
    a.post(1, &ah, b.qp.qpn(), SendOp::Write(target), &[sge]);
    assert_eq!(finish(&a, &b), Status::Ok);
    assert!(into.words.iter().all(|word| word.load(Ordering::Relaxed) == 1));
    let counted = |counter| b.device.counters().get(counter);
    assert_eq!(counted(Counter::RdmaWriteRecvBytes), u64::from(Page::LEN));
    assert_eq!(counted(Counter::RxDrops), 0);
}

/// Sets the flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the status of an operation while `page`, which `copier` copies, is deregistered and used
/// for something else as soon as the copy has begun.
fn taken_back(copier: &Side, page: &Page, finish: impl FnOnce() -> Status) -> Status {
    let copied = || copier.device.counters().get(Counter::RdmaLocalBytes);
    let before = copied();
    let is_over = AtomicBool::new(false);
    let status = std::thread::scope(|scope| {
        scope.spawn(|| {
            while copied() == before && !is_over.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            page.reuse();
        });
        // The flag must be set on a panic as well, or the other thread would wait for ever.
        let _over = Over(&is_over);
        finish()
    });
    assert!(copied() > before, "it took the wire: {status:?}");
    status
}

#[test]
fn no_operation_succeeds_with_bytes_of_after_the_registration() {
    let (a, b) = (local(Some(KEY)), local(Some(KEY)));
    let (ah, all) = (
        a.ah(&b),
        Access { local_write: true, remote_write: true, remote_read: true, ..Access::default() },
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    for (op, refusal) in [
        (CompletionOp::Send, Status::RemoteBadAddress),
        (CompletionOp::Write, Status::LocalInvalidLkey),
    ] {
        let is_read = op == CompletionOp::Send;
        let (owner, copier) = if is_read { (&b, &a) } else { (&a, &b) };
        let into = Page::new(copier, all);
        let mut is_refused = false;
        // Once is enough to show that the end can come in the middle.
        while !is_refused {
            assert!(Instant::now() < deadline, "{op:?}: the end never came in the middle");
            let page = Page::new(owner, all);
            let (near, far) = if is_read { (&into, &page) } else { (&page, &into) };
            let target = Remote { addr: far.mr.addr(), rkey: far.mr.rkey() };
            let sge = Sge { addr: near.mr.addr(), len: Page::LEN, lkey: near.mr.lkey() };
            let op = if is_read { SendOp::Read(target) } else { SendOp::Write(target) };
            a.post(1, &ah, b.qp.qpn(), op, &[sge]);
            let status = taken_back(copier, &page, || finish(&a, &b));
            is_refused = status == refusal;
            assert!(is_refused || status == Status::Ok, "{op:?}: {status:?}");
            let is_torn = into.words.iter().any(|word| word.load(Ordering::Relaxed) != 1);
            assert!(is_refused || !is_torn, "{op:?}: bytes of after the registration");
        }
    }
}

/// WRITEs that wait for a receive do not use up what a peer may have in progress.
#[test]
fn writes_that_find_no_receive_hold_up_no_others() {
    let (a, b) = (local(Some(KEY)), local(Some(KEY)));
    let ah = a.ah(&b);
    let post = |id, op| a.post(id, &ah, b.qp.qpn(), op, &[a.sge(0, 40_000)]);
    (0..8).for_each(|id| post(id, SendOp::WriteImm(remote(&b, 0), 1)));
    post(100, SendOp::Write(remote(&b, 50_000)));
    let done = wait_for(&[&a, &b], 0, CompletionOp::Write);
    assert_eq!((done.wr_id, done.status), (100, Status::Ok));
    (0..8).for_each(|id| b.post_recv(id, 900_000, 16));
    let mut ended = 0;
    poll_until(&[&a, &b], |index, done| {
        assert_eq!(done.status, Status::Ok);
        ended += usize::from(index == 0);
        ended == 8
    });
}
