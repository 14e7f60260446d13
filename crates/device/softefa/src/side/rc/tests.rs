//! Connections whose adapter breaks, or whose network does, or that end.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::progress::Live;
use crate::wire::{Batch, Run, Sent, Sleep, Via, Wire};
use crate::{
    Access, Completion, Config, Cq, Device, DeviceSpec, ModifyQp, MwKind, Path, Pd, Qp, QpInit,
    QpKind, QpState, Remote, SendData, SendOp, SendWr, Sge, Status, WireChoice, service,
};

const ACCESS: Access = Access {
    local_write: true,
    remote_read: true,
    remote_write: true,
    remote_atomic: true,
    remote_flush: true,
};

fn queue_pair(pd: &Arc<Pd>) -> (Arc<Qp>, Arc<Cq>) {
    let cq = Cq::create(pd.device(), 64).unwrap();
    let init = QpInit {
        kind: QpKind::Rc,
        send_cq: Arc::clone(&cq),
        recv_cq: Arc::clone(&cq),
        sq_depth: 16,
        rq_depth: 16,
        sq_sge: 1,
        rq_sge: 1,
        inline_bytes: 0,
        sq_sig_all: true,
        unsolicited_write_recv: false,
        srq: None,
        events: None,
    };
    (Qp::create(pd, init).unwrap(), cq)
}

fn connect(qp: &Qp, to: &Qp) {
    let step = |state| ModifyQp { state: Some(state), ..ModifyQp::default() };
    let init = ModifyQp { port: Some(1), pkey_index: Some(0), ..step(QpState::Init) };
    qp.modify(&ModifyQp { access: Some(ACCESS), ..init }).unwrap();
    let path = Path { dgid: to.pd().device().gid(), is_global: true, ..Path::default() };
    let receive = ModifyQp {
        path: Some(path),
        path_mtu_bytes: Some(1024),
        dest_qpn: Some(to.qpn()),
        rq_psn: Some(0),
        max_dest_rd_atomic: Some(1),
        min_rnr_timer: Some(1),
        ..step(QpState::ReadyToReceive)
    };
    qp.modify(&receive).unwrap();
    let send = ModifyQp {
        sq_psn: Some(0),
        timeout: Some(14),
        retry_cnt: Some(7),
        rnr_retry: Some(7),
        max_rd_atomic: Some(1),
        ..step(QpState::ReadyToSend)
    };
    qp.modify(&send).unwrap();
}

fn next(cq: &Cq) -> Completion {
    let begin = Instant::now();
    loop {
        if let Some(done) = cq.poll_one() {
            return done;
        }
        assert!(begin.elapsed() < Duration::from_secs(10), "nothing completes");
    }
}

fn device(name: &str) -> Arc<Pd> {
    device_of(name, &Config::default())
}

fn device_of(name: &str, config: &Config) -> Arc<Pd> {
    let spec = format!("{name}=127.0.0.1,profile=roce").parse::<DeviceSpec>().unwrap();
    Device::open(&spec, config).unwrap().alloc_pd().unwrap()
}

fn send(qp: &Qp, sges: &[Sge]) {
    post(qp, SendOp::Send, sges);
}

fn post(qp: &Qp, op: SendOp, sges: &[Sge]) {
    let (signaled, fenced, solicited, more) = (true, false, false, false);
    let (wr_id, data, target) = (9, SendData::Sges(sges), None);
    let wr = SendWr { wr_id, op, data, signaled, fenced, solicited, target, remote_srq: 0, more };
    qp.post_send(&wr).unwrap();
}

/// Loses what is sent first, and writes down which way the rest takes.
struct LosesTheFirst {
    wire: Box<dyn Wire>,
    ways: Arc<Mutex<Vec<Via>>>,
    has_lost: bool,
}

impl Wire for LosesTheFirst {
    fn send(&mut self, now: srd::Instant, batch: &mut Batch) -> Sent {
        if !std::mem::replace(&mut self.has_lost, true) {
            batch.clear();
            return Sent::default();
        }
        self.ways.lock().unwrap().extend(batch.packets().iter().map(|packet| packet.via));
        self.wire.send(now, batch)
    }

    fn receive(&mut self, now: srd::Instant) -> Option<Run<'_>> {
        self.wire.receive(now)
    }

    fn release(&mut self, now: srd::Instant) -> Sent {
        self.wire.release(now)
    }

    fn next_release(&self) -> Option<srd::Instant> {
        self.wire.next_release()
    }
}

/// A repetition through memory could lie as unread as the packet that it repeats, because the
/// peer's service thread sleeps on its socket.
#[test]
fn what_is_repeated_goes_through_the_kernel_which_wakes_sleepers() {
    let (near, far) = (device("roce2"), device("roce3"));
    let ((sender, done), (receiver, cq)) = (queue_pair(&near), queue_pair(&far));
    connect(&sender, &receiver);
    connect(&receiver, &sender);
    let ways = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&ways);
    sender.inner().rewire(|wire| Box::new(LosesTheFirst { wire, ways: log, has_lost: false }));
    let bytes = [7u8; 64];
    let region = near.reg_mr(bytes.as_ptr() as u64, 64, ACCESS).unwrap();
    let into = [0u8; 64];
    let to = far.reg_mr(into.as_ptr() as u64, 64, ACCESS).unwrap();
    receiver.post_recv(1, &[Sge { addr: to.addr(), len: 64, lkey: to.lkey() }]).unwrap();
    send(&sender, &[Sge { addr: region.addr(), len: 64, lkey: region.lkey() }]);
    assert_eq!((next(&done).status, next(&cq).status), (Status::Ok, Status::Ok));
    let ways = ways.lock().unwrap();
    assert!(matches!(ways[0], Via::Kernel(_)), "{ways:?}");
    sender.destroy();
    receiver.destroy();
}

/// Also the receive whose message has begun and will not end.
#[test]
fn every_receive_ends_when_the_adapter_breaks() {
    const LEN: u32 = 64 << 20;
    let (near, far) = (device("roce0"), device("roce1"));
    let ((sender, _cq), (receiver, cq)) = (queue_pair(&near), queue_pair(&far));
    connect(&sender, &receiver);
    connect(&receiver, &sender);
    let bytes = vec![1u8; LEN as usize].into_boxed_slice();
    let into = vec![0u8; LEN as usize].into_boxed_slice();
    let register = |pd: &Pd, of: &[u8]| pd.reg_mr(of.as_ptr() as u64, LEN.into(), ACCESS).unwrap();
    let (from, to) = (register(&near, &bytes), register(&far, &into));
    let entry = |mr: &crate::Mr| [Sge { addr: mr.addr(), len: LEN, lkey: mr.lkey() }];
    (0..2).for_each(|id| receiver.post_recv(id, &entry(&to)).unwrap());
    send(&sender, &entry(&from));
    let has_begun = || {
        assert!(cq.poll_one().is_none(), "all of it came at once");
        receiver.pd().device().counters().get(crate::counters::Counter::RxPkts) > 0
    };
    while !has_begun() {}
    receiver.fail();
    let ended = [next(&cq), next(&cq)].map(|done| (done.wr_id, done.status));
    assert_eq!(ended, [(0, Status::Flushed), (1, Status::Flushed)]);
    sender.destroy();
}

/// Loses everything, and writes down how whoever waits on it is called.
struct NotesSleep(Arc<Mutex<Option<Sleep>>>);

impl Wire for NotesSleep {
    fn send(&mut self, _now: srd::Instant, batch: &mut Batch) -> Sent {
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, _now: srd::Instant) -> Option<Run<'_>> {
        None
    }

    fn release(&mut self, _now: srd::Instant) -> Sent {
        Sent::default()
    }

    fn next_release(&self) -> Option<srd::Instant> {
        None
    }

    fn sleep(&mut self, sleep: Sleep) -> bool {
        *self.0.lock().unwrap() = Some(sleep);
        false
    }
}

/// SRD-12.5: a program that watches its memory would wait for a timer whenever a window is full.
#[test]
fn acknowledgements_are_urgent_while_something_waits_for_them() {
    const LEN: u32 = 16 << 20;
    let (near, far) = (device("roce4"), device("roce5"));
    let ((sender, _done), (receiver, _cq)) = (queue_pair(&near), queue_pair(&far));
    connect(&sender, &receiver);
    let bytes = vec![1u8; LEN as usize].into_boxed_slice();
    let region = near.reg_mr(bytes.as_ptr() as u64, LEN.into(), ACCESS).unwrap();
    let entry = |len| [Sge { addr: region.addr(), len, lkey: region.lkey() }];
    let sleep = Arc::new(Mutex::new(None));
    let noted = Arc::clone(&sleep);
    sender.inner().rewire(|_| Box::new(NotesSleep(noted)));
    sender.watch().unpolled_writes.note_unpolled_write();
    let turn = || _ = sender.service_turn(crate::host::now());
    turn();
    assert_eq!(*sleep.lock().unwrap(), Some(Sleep::Light));
    send(&sender, &entry(64));
    turn();
    assert_eq!(*sleep.lock().unwrap(), Some(Sleep::Light), "all of it has left");
    send(&sender, &entry(LEN));
    assert_eq!(*sleep.lock().unwrap(), Some(Sleep::Sound));
    turn();
    assert_eq!(*sleep.lock().unwrap(), Some(Sleep::Sound));
    sender.destroy();
    receiver.destroy();
}

/// Whether `act` waits for a turn of `qp` that is under way.
fn waits_for_a_turn(qp: &Qp, act: impl FnOnce()) -> bool {
    let (has_begun, has_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        // The lock is held meanwhile, as in a turn.
        scope.spawn(|| {
            qp.inner().rewire(|wire| {
                has_begun.store(true, Ordering::Release);
                std::thread::sleep(Duration::from_millis(50));
                has_ended.store(true, Ordering::Release);
                wire
            });
        });
        while !has_begun.load(Ordering::Acquire) {
            std::thread::yield_now();
        }
        act();
        has_ended.load(Ordering::Acquire)
    })
}

/// A deregistration waits for the turns of lingering queue pairs, too.
#[test]
fn a_deregistration_waits_for_turns_of_what_lingers() {
    let pd = device("roce6");
    let ((qp, _cq), bytes) = (queue_pair(&pd), [0u8; 64]);
    let region = pd.reg_mr(bytes.as_ptr() as u64, 64, ACCESS).unwrap();
    // As if it had been destroyed, and had accepted something so late that it lingers for long.
    let last_accepted = crate::host::now().plus_ns(60_000_000_000);
    service::release(&*qp, Some(last_accepted));
    assert!(waits_for_a_turn(&qp, || region.deregister()), "a turn goes on with its memory");
    pd.device().close();
    qp.destroy();
}

/// What a turn has looked up before the end of a window it goes on using.
#[test]
fn the_end_of_a_window_waits_for_turns() {
    let pd = device("roce7");
    let (qp, _cq) = queue_pair(&pd);
    let window = pd.alloc_mw(MwKind::Type1).unwrap();
    assert!(waits_for_a_turn(&qp, || drop(window)), "a turn goes on with its memory");
    qp.destroy();
}

/// What [`LosesAll`] has seen.
#[derive(Default)]
struct Seen {
    sent_max_bytes: usize,
    received: usize,
}

/// Loses all that is sent, and writes down how long it was at most, and how much has come.
struct LosesAll {
    wire: Box<dyn Wire>,
    seen: Arc<Mutex<Seen>>,
}

impl Wire for LosesAll {
    fn send(&mut self, _now: srd::Instant, batch: &mut Batch) -> Sent {
        let longest = batch.packets().iter().map(|packet| packet.len).max();
        let mut seen = self.seen.lock().unwrap();
        seen.sent_max_bytes = seen.sent_max_bytes.max(longest.unwrap_or_default());
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, now: srd::Instant) -> Option<Run<'_>> {
        let run = self.wire.receive(now);
        self.seen.lock().unwrap().received += usize::from(run.is_some());
        run
    }

    fn release(&mut self, now: srd::Instant) -> Sent {
        self.wire.release(now)
    }

    fn next_release(&self) -> Option<srd::Instant> {
        self.wire.next_release()
    }
}

/// The answer to a READ is lost, and who has answered is destroyed; whether it was asked again
/// before nobody was there any more.
fn is_asked_after_the_end() -> bool {
    const LEN: usize = 1000;
    let udp = Config { wire: WireChoice::Udp, ..Config::default() };
    let (near, far) = (device_of("roce8", &udp), device_of("roce9", &udp));
    let ((reader, done), (owner, cq)) = (queue_pair(&near), queue_pair(&far));
    connect(&reader, &owner);
    connect(&owner, &reader);
    let seen = Arc::<Mutex<Seen>>::default();
    let log = Arc::clone(&seen);
    owner.inner().rewire(|wire| Box::new(LosesAll { wire, seen: log }));
    let (shown, into) = ([7u8; LEN], [0u8; LEN]);
    let from = far.reg_mr(shown.as_ptr() as u64, LEN as u64, ACCESS).unwrap();
    let to = near.reg_mr(into.as_ptr() as u64, LEN as u64, ACCESS).unwrap();
    let at = Remote { addr: from.addr(), rkey: from.rkey() };
    post(&reader, SendOp::Read(at), &[Sge { addr: to.addr(), len: LEN as u32, lkey: to.lkey() }]);
    let begin = Instant::now();
    while seen.lock().unwrap().sent_max_bytes < LEN {
        assert!(cq.poll_one().is_none() && done.poll_one().is_none(), "it ends too early");
        assert!(begin.elapsed() < Duration::from_secs(10), "it is not answered");
    }

    owner.destroy();
    *seen.lock().unwrap() = Seen::default();
    assert_eq!(next(&done).status, Status::RetryExceeded);
    let Seen { sent_max_bytes, received } = std::mem::take(&mut *seen.lock().unwrap());
    assert!(sent_max_bytes < LEN, "it shows its memory after its end");
    reader.destroy();
    received > 0
}

/// A destroyed queue pair sends nothing from memory that the program may have freed.
#[test]
fn a_destroyed_queue_pair_shows_no_memory() {
    let begin = Instant::now();
    // Who does not run while the other one lingers, which a busy machine brings about, asks
    // nothing.
    while !is_asked_after_the_end() {
        assert!(begin.elapsed() < Duration::from_secs(60), "nobody asked");
    }
}
