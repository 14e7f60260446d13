//! The service thread: drives queue pairs that nobody polls.
//!
//! While a program polls, the thread only looks up once per tick and never waits on its sockets,
//! so that two busy processes keep both cores. When nobody polled for a while it arms the sockets
//! and answers each datagram at once: acknowledgements, retransmissions and timers go on while the
//! program computes. Destroyed queue pairs linger here, so that a lost last acknowledgement does
//! not turn a delivered message into an error.

use std::collections::HashSet;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use srd::Instant;

use crate::host;
use crate::lifecycle;
use crate::pd::PdId;
use crate::qp::{Driven, Qp, Served};

/// How often polled queue pairs are looked at.
const TICK_NS: u64 = 2_000_000;
/// How long a destroyed queue pair answers: several retransmission times.
const LINGER_NS: u64 = 250_000_000;
/// How often the last acknowledgements are repeated at exit.
const GOODBYES: usize = 3;

struct Lingering {
    driven: Arc<Driven>,
    until: Instant,
}

#[derive(Default)]
struct Ward {
    live: Vec<Arc<Qp>>,
    lingering: Vec<Lingering>,
}

struct Service {
    ward: Mutex<Ward>,
    epoll: OwnedFd,
    wake: OwnedFd,
}

static SERVICE: OnceLock<Option<Service>> = OnceLock::new();

/// Takes a new queue pair into care; the first one starts the thread.
pub(crate) fn adopt(qp: &Arc<Qp>) {
    let Some(service) = service() else { return };
    service.lock().live.push(Arc::clone(qp));
    service.wake();
}

/// Keeps a destroyed queue pair answering for a while.
pub(crate) fn linger(qp: &Arc<Qp>, driven: &Arc<Driven>, now: Instant) {
    let Some(service) = service() else { return };
    let mut ward = service.lock();
    ward.live.retain(|other| !Arc::ptr_eq(other, qp));
    ward.lingering.push(Lingering { driven: Arc::clone(driven), until: now.plus_ns(LINGER_NS) });
    drop(ward);
    service.wake();
}

/// Waits until every turn that is under way has ended; turns that begin later see what the caller
/// changed before.
pub(crate) fn synchronize() {
    live().iter().for_each(|qp| qp.driven().wait_for_turn());
}

/// Ends the work requests of all queue pairs of domain `pd` that are on their way to `addr`.
pub(crate) fn flush_toward(pd: PdId, addr: Ipv4Addr) {
    let now = host::now();
    for qp in live().iter().filter(|qp| qp.pd().id() == pd) {
        qp.flush_toward(now, addr);
    }
}

/// Every queue pair of this process that is not destroyed.
fn live() -> Vec<Arc<Qp>> {
    match SERVICE.get() {
        Some(Some(service)) if !lifecycle::is_forked_child() => service.lock().live.clone(),
        _ => Vec::new(),
    }
}

/// Repeats the last acknowledgements of all queue pairs, living and lingering.
pub(crate) fn say_goodbye() {
    let Some(Some(service)) = SERVICE.get() else { return };
    // Not for ever: a thread that was ended inside a turn never gives the lock back.
    let Some(ward) = try_for_a_moment(|| service.ward.try_lock().ok()) else { return };
    for round in 0..GOODBYES {
        if round > 0 {
            // Apart, so that one full buffer does not eat all copies.
            std::thread::sleep(std::time::Duration::from_micros(100));
        }
        let lingering = ward.lingering.iter().map(|lingering| &*lingering.driven);
        for driven in ward.live.iter().map(|qp| qp.driven()).chain(lingering) {
            try_for_a_moment(|| driven.final_acks(host::now()).then_some(()));
        }
    }
}

/// Tries again for up to a millisecond.
fn try_for_a_moment<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
    let start = host::now();
    loop {
        let result = attempt();
        if result.is_some() || host::now().ns_since(start) > 1_000_000 {
            return result;
        }
        std::thread::yield_now();
    }
}

/// Something changed that the thread could not see.
pub(crate) fn wake() {
    if let Some(Some(service)) = SERVICE.get() {
        service.wake();
    }
}

/// The running service; `None` when the operating system refused a descriptor or a thread, in
/// which case queue pairs progress only while they are polled.
fn service() -> Option<&'static Service> {
    let service = SERVICE.get_or_init(|| Service::new().ok()).as_ref()?;
    static STARTED: OnceLock<bool> = OnceLock::new();
    let started = STARTED.get_or_init(|| {
        lifecycle::install();
        let thread = std::thread::Builder::new().name("softefa".into()).stack_size(256 << 10);
        thread.spawn(move || service.run()).is_ok()
    });
    started.then_some(service)
}

#[allow(unsafe_code)]
impl Service {
    fn new() -> io::Result<Self> {
        // SAFETY: plain calls; results are checked before they are owned.
        let (epoll, wake) = unsafe {
            (
                libc::epoll_create1(libc::EPOLL_CLOEXEC),
                libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK),
            )
        };
        if epoll < 0 || wake < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: fresh descriptors that nobody else owns.
        let (epoll, wake) = unsafe { (OwnedFd::from_raw_fd(epoll), OwnedFd::from_raw_fd(wake)) };
        let service = Self { ward: Mutex::default(), epoll, wake };
        service.control(libc::EPOLL_CTL_ADD, service.wake.as_raw_fd());
        Ok(service)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ward> {
        self.ward.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let one = 1u64;
        // SAFETY: eight readable bytes, as an eventfd takes.
        unsafe { libc::write(self.wake.as_raw_fd(), (&raw const one).cast(), 8) };
    }

    fn control(&self, operation: libc::c_int, fd: RawFd) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: fd as u64 };
        // SAFETY: `event` is valid; a stale descriptor only makes the call fail.
        unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), operation, fd, &raw mut event) };
    }

    /// Sleeps until a datagram, a wake-up, or `timeout_ns`; `None` = as long as it takes.
    fn wait(&self, timeout_ns: Option<u64>) {
        let timeout_ms = match timeout_ns {
            None => -1,
            Some(ns) => libc::c_int::try_from(ns.div_ceil(1_000_000)).unwrap_or(libc::c_int::MAX),
        };
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 16];
        // SAFETY: the array has room for 16 events; the eventfd read has 8 bytes.
        unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), 16, timeout_ms);
            let mut count = 0u64;
            libc::read(self.wake.as_raw_fd(), (&raw mut count).cast(), 8);
        }
    }

    fn run(&self) {
        block_signals();
        let mut armed = HashSet::new();
        loop {
            let timeout_ns = self.tick(&mut armed);
            self.wait(timeout_ns);
        }
    }

    /// Drives what needs it; how long the thread may sleep.
    fn tick(&self, armed: &mut HashSet<RawFd>) -> Option<u64> {
        let now = host::now();
        let (live, lingering) = {
            let mut ward = self.lock();
            let (gone, stay) = ward.lingering.drain(..).partition(|l: &Lingering| l.until <= now);
            ward.lingering = stay;
            for Lingering { driven, .. } in gone {
                self.disarm(&driven, armed);
                // Somebody may hold the queue pair for longer; peers must not wait for that.
                driven.unplug();
            }
            let lingering: Vec<_> = ward.lingering.iter().map(|l| Arc::clone(&l.driven)).collect();
            (ward.live.clone(), lingering)
        };
        let mut next = None;
        let mut sooner = |at: Option<Instant>| {
            if let Some(at) = at {
                next = Some(next.map_or(at, |next: Instant| next.min(at)));
            }
        };
        for driven in &lingering {
            self.arm(driven, armed);
            sooner(driven.linger_turn(now));
            sooner(Some(now.plus_ns(TICK_NS)));
        }
        for qp in &live {
            let served = if qp.is_app_absent(now) { qp.service_turn(now) } else { Served::Busy };
            match served {
                Served::Until(at) => {
                    self.arm(qp.driven(), armed);
                    sooner(at);
                }
                // Not waiting for the socket matters here: it may stay readable for as long as
                // the program, which holds the lock, is scheduled away.
                Served::Busy => {
                    self.disarm(qp.driven(), armed);
                    sooner(Some(now.plus_ns(TICK_NS)));
                }
            }
        }
        next.map(|at| at.ns_since(now))
    }

    fn arm(&self, qp: &Driven, armed: &mut HashSet<RawFd>) {
        if armed.insert(qp.receive_fd()) {
            self.control(libc::EPOLL_CTL_ADD, qp.receive_fd());
        }
    }

    fn disarm(&self, qp: &Driven, armed: &mut HashSet<RawFd>) {
        if armed.remove(&qp.receive_fd()) {
            self.control(libc::EPOLL_CTL_DEL, qp.receive_fd());
        }
    }
}

/// Signals are the program's; its handlers must not run on our small stack.
#[allow(unsafe_code)]
fn block_signals() {
    // SAFETY: `all` is filled before use.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const all, std::ptr::null_mut());
    }
}
