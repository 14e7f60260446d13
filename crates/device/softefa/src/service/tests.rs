//! Panics in turns of the service thread and of the program.

use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::*;
use crate::async_event::{AsyncEventKind, AsyncEvents, EventSource};
use crate::counters::Counter;
use crate::device::Device;
use crate::wire::{Batch, Run, Sent, Wire};
use crate::{
    Access, Ah, Completion, Config, Cq, CreateQpError, DeviceSpec, ModifyQp, Pd, PostError, Qp,
    QpInit, QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge, Status, Target,
};

const QKEY: u32 = 7;

/// A wire that panics on receive; its socket stays open.
struct Broken {
    _socket: Box<dyn Wire>,
}

pub(super) fn break_wire(qp: &Qp) {
    qp.inner().rewire(|wire| Box::new(Broken { _socket: wire }));
}

impl Wire for Broken {
    fn send(&mut self, _now: Instant, batch: &mut Batch) -> Sent {
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, _now: Instant) -> Option<Run<'_>> {
        panic!("on purpose: the adapter breaks in a turn")
    }

    fn release(&mut self, _now: Instant) -> Sent {
        Sent::default()
    }

    fn next_release(&self) -> Option<Instant> {
        None
    }
}

pub(super) fn device() -> (Arc<Device>, Arc<Pd>) {
    device_of(&Config::default())
}

fn device_of(config: &Config) -> (Arc<Device>, Arc<Pd>) {
    let spec = "rdmap0s6=127.0.0.1".parse::<DeviceSpec>().unwrap();
    let device = Device::open(&spec, config).unwrap();
    let pd = device.alloc_pd().unwrap();
    (device, pd)
}

fn init(cq: &Arc<Cq>) -> QpInit {
    QpInit {
        kind: QpKind::Srd,
        send_cq: Arc::clone(cq),
        recv_cq: Arc::clone(cq),
        sq_depth: 16,
        rq_depth: 16,
        sq_sge: 2,
        rq_sge: 2,
        inline_bytes: 32,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    }
}

/// A queue pair with a completion queue of its own, ready to send.
pub(super) fn queue_pair(pd: &Arc<Pd>) -> (Arc<Qp>, Arc<Cq>) {
    queue_pair_with(pd, None)
}

/// Makes a queue pair as [`queue_pair`] does, whose events go to this source.
fn queue_pair_with(pd: &Arc<Pd>, events: Option<Arc<EventSource>>) -> (Arc<Qp>, Arc<Cq>) {
    let cq = Cq::create(pd.device(), 64).unwrap();
    let qp = Qp::create(pd, QpInit { events, ..init(&cq) }).unwrap();
    let to = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    let init =
        ModifyQp { port: Some(1), pkey_index: Some(0), qkey: Some(QKEY), ..to(QpState::Init) };
    let ready = ModifyQp { sq_psn: Some(0), ..to(QpState::ReadyToSend) };
    for step in [init, to(QpState::ReadyToReceive), ready] {
        qp.modify(&step).unwrap();
    }
    (qp, cq)
}

pub(super) fn send(from: &Qp, ah: &Ah, to: &Qp) -> Result<(), PostError> {
    post(from, ah, to, SendOp::Send, SendData::Inline(&[]))
}

pub(super) fn post(
    from: &Qp,
    ah: &Ah,
    to: &Qp,
    op: SendOp,
    data: SendData<'_>,
) -> Result<(), PostError> {
    from.post_send(&SendWr {
        wr_id: 1,
        op,
        data,
        signaled: true,
        fenced: false,
        solicited: false,
        target: Some(Target { ah, qpn: to.qpn(), qkey: QKEY }),
        remote_srq: 0,
        more: false,
    })
}

pub(super) fn within_a_while<T>(what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
    let deadline = std::time::Instant::now() + Duration::from_secs(20);
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        assert!(std::time::Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A panic neither aborts nor blocks the program, which sees a failed device.
#[test]
fn a_panic_ends_the_queue_pairs_of_the_device_and_nothing_else() {
    let ((device, pd), (_other, other_pd)) = (device(), device());
    let ah = pd.create_ah(device.gid()).unwrap();
    let (broken, cq) = queue_pair(&pd);
    let (sibling, sibling_cq) = queue_pair(&pd);
    let (sound, sound_cq) = queue_pair(&other_pd);
    broken.post_recv(2, &[]).unwrap();
    sibling.post_recv(3, &[]).unwrap();
    break_wire(&broken);
    send(&broken, &ah, &sibling).unwrap();

    // The program does not poll, so the service thread takes over.
    let failed = |qp: &Qp| (qp.query().state == QpState::Error).then_some(());
    within_a_while("the queue pair is not in error", || failed(&broken));
    within_a_while("its sibling is not in error", || failed(&sibling));
    let ends = |cq: &Cq| {
        let done: Vec<Completion> = std::iter::from_fn(|| cq.poll_one()).collect();
        done.iter().map(|done| (done.wr_id, done.status)).collect::<Vec<_>>()
    };
    assert_eq!(ends(&cq), [(1, Status::LocalQpInternalError), (2, Status::Flushed)]);
    assert_eq!(ends(&sibling_cq), [(3, Status::Flushed)]);
    assert_eq!(send(&sibling, &ah, &broken), Err(PostError::Gone));
    assert!(matches!(Qp::create(&pd, init(&cq)), Err(CreateQpError::DeviceFailed { .. })));
    assert!(sibling.modify(&ModifyQp::default()).is_err());

    // The thread is alive and answers for a queue pair that is not polled.
    let other_ah = other_pd.create_ah(device.gid()).unwrap();
    let (sender, sender_cq) = queue_pair(&other_pd);
    sound.post_recv(4, &[]).unwrap();
    within_a_while("the thread still counts as polled", || {
        (!sound_cq.is_polled(host::now())).then_some(())
    });
    send(&sender, &other_ah, &sound).unwrap();
    let done = within_a_while("nobody answers", || sender_cq.poll_one());
    assert_eq!(done.status, Status::Ok);

    for qp in [&broken, &sibling, &sound, &sender] {
        qp.destroy();
    }
    assert!(!cq.is_in_use() && !sibling_cq.is_in_use());
    // A destroyed queue pair releases its port, whether the device has failed or not.
    within_a_while("the port of the dead is still taken", || {
        UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), broken.port())).ok()
    });
}

/// A wire that panics on its first receive.
struct BreaksOnce {
    wire: Box<dyn Wire>,
    is_armed: bool,
}

impl Wire for BreaksOnce {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        self.wire.send(now, batch)
    }

    fn receive(&mut self, now: Instant) -> Option<Run<'_>> {
        assert!(!std::mem::take(&mut self.is_armed), "once, on purpose");
        self.wire.receive(now)
    }

    fn release(&mut self, now: Instant) -> Sent {
        self.wire.release(now)
    }

    fn next_release(&self) -> Option<Instant> {
        self.wire.next_release()
    }
}

/// A panic in the program's own turn fails the device as one in the service thread does.
#[test]
fn a_panic_in_the_programs_own_turn_ends_the_queue_pairs_of_the_device() {
    let (device, pd) = device();
    let ah = pd.create_ah(device.gid()).unwrap();
    let events = AsyncEvents::create().unwrap();
    let context = EventSource::new(&events);
    device.report_failure_to(&context);
    let pair = || queue_pair_with(&pd, Some(EventSource::new(&events)));
    let ((broken, cq), (sibling, sibling_cq)) = (pair(), pair());
    broken.post_recv(2, &[]).unwrap();
    sibling.post_recv(3, &[]).unwrap();
    // The service thread sleeps until something arrives, and no other thread wakes it.
    within_a_while("the thread does not take over", || {
        [&broken, &sibling].iter().all(|qp| qp.watch().due.is_watched()).then_some(())
    });
    broken.inner().rewire(|wire| Box::new(BreaksOnce { wire, is_armed: true }));
    let _ = catch_unwind(AssertUnwindSafe(|| broken.app_turn(host::now())));
    within_a_while("nobody was told", || device.has_failed().then_some(()));

    assert_eq!(send(&broken, &ah, &sibling), Err(PostError::Gone));
    for (cq, wr_id) in [(&cq, 2), (&sibling_cq, 3)] {
        let done = within_a_while("its receive does not end", || cq.poll_one());
        assert_eq!((done.wr_id, done.status), (wr_id, Status::Flushed));
    }
    assert_eq!(send(&sibling, &ah, &broken), Err(PostError::Gone));
    let mut kinds = [(); 3].map(|()| {
        let event = events.take().unwrap().unwrap();
        event.source.acknowledge();
        event.kind as u8
    });
    kinds.sort_unstable();
    let expected = [AsyncEventKind::QpFatal, AsyncEventKind::QpFatal, AsyncEventKind::DeviceFatal];
    assert_eq!(kinds, expected.map(|kind| kind as u8));
    assert!(events.take().is_err(), "one event each");
    for qp in [&broken, &sibling] {
        assert_eq!(qp.query().state, QpState::Error);
        qp.destroy();
    }
    assert!(!cq.is_in_use() && !sibling_cq.is_in_use());
}

/// A queue pair releases its resources, however its last turn ended.
#[test]
fn a_panic_while_draining_gives_everything_back() {
    let (device, pd) = device();
    let ah = pd.create_ah(device.gid()).unwrap();
    let ((broken, cq), (deaf, deaf_cq)) = (queue_pair(&pd), queue_pair(&pd));
    // The peer has no receives, so the work request stays in flight.
    send(&broken, &ah, &deaf).unwrap();
    break_wire(&broken);
    let _ = catch_unwind(AssertUnwindSafe(|| broken.destroy()));
    assert!(!cq.is_in_use(), "still attached");
    within_a_while("the port of the dead is still taken", || {
        UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), broken.port())).ok()
    });
    within_a_while("the device is not dead", || {
        (deaf.query().state == QpState::Error).then_some(())
    });
    deaf.destroy();
    assert!(!deaf_cq.is_in_use());
}

/// A lingering queue pair may panic, too.
#[test]
fn a_panic_ends_lingering() {
    let (_device, pd) = device();
    let (qp, _cq) = queue_pair(&pd);
    qp.destroy();
    break_wire(&qp);
    let stranger = UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), 0)).unwrap();
    within_a_while("its port is still taken", || {
        // A datagram arrives, so a turn is due.
        let _ = stranger.send_to(b"?", (IpAddr::V4(Ipv4Addr::LOCALHOST), qp.port()));
        UdpSocket::bind((IpAddr::V4(Ipv4Addr::LOCALHOST), qp.port())).ok()
    });
}

/// A wire that drops datagrams until it is opened. With a trap, a receive blocks until then.
pub(super) struct Gate {
    pub(super) wire: Box<dyn Wire>,
    pub(super) is_open: Arc<AtomicBool>,
    pub(super) trap: Option<Arc<AtomicBool>>,
}

impl Gate {
    fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }
}

impl Wire for Gate {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        if self.is_open() {
            return self.wire.send(now, batch);
        }
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, now: Instant) -> Option<Run<'_>> {
        if let Some(has_caught) = &self.trap {
            has_caught.store(true, Ordering::Release);
            within_a_while("the gate stays closed", || self.is_open().then_some(()));
        }
        self.wire.receive(now)
    }

    fn release(&mut self, now: Instant) -> Sent {
        self.wire.release(now)
    }

    fn next_release(&self) -> Option<Instant> {
        self.wire.next_release()
    }
}

/// One thread destroys the last address handle for a peer while another makes a new one and posts.
#[test]
fn work_requests_of_a_new_handle_outlive_the_end_of_the_last_one() {
    let (device, pd) = device();
    let ((held, _held_cq), (poster, cq)) = (queue_pair(&pd), queue_pair(&pd));
    let (target, target_cq) = queue_pair(&pd);
    let flag = || Arc::new(AtomicBool::new(false));
    let (has_caught, held_is_open, poster_is_open) = (flag(), flag(), flag());
    let gates = [(&held, &held_is_open, Some(&has_caught)), (&poster, &poster_is_open, None)];
    for (qp, is_open, trap) in gates {
        let (is_open, trap) = (Arc::clone(is_open), trap.cloned());
        qp.inner().rewire(|wire| Box::new(Gate { wire, is_open, trap }));
    }
    let old = pd.create_ah(device.gid()).unwrap();
    std::thread::scope(|scope| {
        // This turn takes long, and the destruction must wait for it.
        scope.spawn(|| held.app_turn(host::now()));
        within_a_while("no turn", || has_caught.load(Ordering::Acquire).then_some(()));
        let end = scope.spawn(|| old.destroy());
        let peer = (pd.id(), IpAddr::V4(Ipv4Addr::LOCALHOST));
        let is_known = || device.ahns.find(peer) != crate::AHN_UNKNOWN;
        within_a_while("the last handle stays", || (!is_known()).then_some(()));

        let new = pd.create_ah(device.gid()).unwrap();
        send(&poster, &new, &target).unwrap();
        held_is_open.store(true, Ordering::Release);
        assert!(end.join().unwrap());
        poster_is_open.store(true, Ordering::Release);
        target.post_recv(2, &[]).unwrap();
        let done = within_a_while("it does not end", || {
            target_cq.poll_one();
            cq.poll_one()
        });
        assert_eq!(done.status, Status::Ok);
    });
    [held, poster, target].iter().for_each(|qp| qp.destroy());
}

/// When a READ completes, the copier has stopped writing, too.
#[test]
fn nobody_writes_to_the_memory_of_what_failed() {
    const LEN: u32 = 128 << 20;
    let (device, pd) = device_of(&Config { local_key: Some([3; 16]), ..Config::default() });
    let ah = pd.create_ah(device.gid()).unwrap();
    let ((reader, cq), (owner, owner_cq)) = (queue_pair(&pd), queue_pair(&pd));
    let bytes = vec![0u8; LEN as usize];
    let words: Vec<AtomicU64> = (0..LEN / 8).map(|_| AtomicU64::new(0)).collect();
    let access = Access { local_write: true, remote_read: true, ..Access::default() };
    let from = pd.reg_mr(bytes.as_ptr() as usize as u64, LEN.into(), access).unwrap();
    let to = pd.reg_mr(words.as_ptr() as usize as u64, LEN.into(), access).unwrap();
    let op = SendOp::Read(Remote { addr: from.addr(), rkey: from.rkey() });
    let sge = [Sge { addr: to.addr(), len: LEN, lkey: to.lkey() }];
    post(&reader, &ah, &owner, op, SendData::Sges(&sge)).unwrap();
    within_a_while("nothing is copied", || {
        assert!(cq.poll_one().is_none());
        owner_cq.poll_one();
        (device.counters().get(Counter::RdmaLocalBytes) > 0).then_some(())
    });
    reader.fail();
    let done = within_a_while("it does not end", || cq.poll_one());
    assert_eq!(done.status, Status::LocalQpInternalError);

    words.iter().for_each(|word| word.store(1, Ordering::Relaxed));
    let is_written = |word: &AtomicU64| word.load(Ordering::Relaxed) != 1;
    let until = std::time::Instant::now() + Duration::from_millis(50);
    while std::time::Instant::now() < until {
        assert!(!words.iter().any(is_written), "written to after the end");
    }
}
