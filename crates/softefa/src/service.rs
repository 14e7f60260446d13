//! The service thread: drives queue pairs that nobody polls.
//!
//! While a program polls, the thread only looks up once per tick and never waits on its sockets,
//! so that two busy processes keep both cores. When nobody polled for a while, or the program armed
//! a completion queue to sleep on its channel, it waits on the sockets and answers each datagram at
//! once: acknowledgements, retransmissions and timers go on, and completions wake the program.
//! Destroyed queue pairs linger here, so that a lost last acknowledgement does not turn a delivered
//! message into an error.
//!
//! The list of living queue pairs does not depend on the thread, which the operating system may refuse:
//! who takes memory or an address handle away finds them there and waits for their turns. Without the
//! thread nothing lingers, because nobody would drive it while its program does something else, and
//! peers would hear neither an answer nor a refusal: the last acknowledgements are repeated at once and
//! the socket is closed, as when a device is closed.
//!
//! A panic in a turn is a mistake of ours, and the program did nothing to deserve it: the device is
//! dead from then on ([`Qp::fail`]), its thread and its other devices go on. So it is when the turn
//! was the program's own, which hears of that one by an error.

mod farewell;

use std::io;
use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use srd::Instant;

use crate::device::Device;
use crate::generation::PerProcess;
use crate::host;
use crate::lifecycle;
use crate::mr::MrTable;
use crate::pd::PdId;
use crate::poll_set::{EventFd, PollSet, Ready};
use crate::qp::{Driven, Qp, Served};
use crate::say::say;
use crate::uncancelled::Uncancelled;

/// How often polled queue pairs are looked at.
const TICK_NS: u64 = 2_000_000;
/// How long a destroyed queue pair answers for the last message it accepted: several
/// retransmission times.
const LINGER_NS: u64 = 250_000_000;
/// Destroyed queue pairs of a process that answer at the same time. Each keeps a descriptor.
const LINGERING_MAX: usize = 32;

pub(crate) use farewell::{give_up_lingering, say_farewell, say_goodbye};

use farewell::repeat_last_acks;

#[derive(Clone)]
struct Lingering {
    driven: Arc<Driven>,
    device: Arc<Device>,
    until: Instant,
}

#[derive(Default)]
struct Ward {
    /// Replaced as a whole, so that a turn takes all of them with one reference.
    live: Arc<[Arc<Qp>]>,
    lingering: Vec<Lingering>,
    /// Devices that broke outside of the thread, which has not ended them yet.
    broken: Vec<Arc<Device>>,
}

impl Ward {
    /// Takes out all but the `max` that linger for longest.
    fn give_up_beyond(&mut self, max: usize) -> impl Iterator<Item = Arc<Driven>> {
        self.lingering.sort_by_key(|lingering| lingering.until);
        let beyond = self.lingering.len().saturating_sub(max);
        self.lingering.drain(..beyond).map(|lingering| lingering.driven)
    }
}

#[derive(Default)]
struct Service {
    ward: Mutex<Ward>,
    /// The doorbell rang and the thread has not looked yet.
    is_called: AtomicBool,
    /// There when the thread runs.
    station: OnceLock<Arc<Station>>,
    /// Held by whoever starts it.
    starting: Mutex<()>,
}

/// What the thread waits at.
struct Station {
    sockets: PollSet,
    doorbell: EventFd,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

/// Takes a new queue pair into care and starts the thread, unless it runs or is refused.
pub(crate) fn adopt(qp: &Arc<Qp>) {
    let service = service();
    service.start();
    let mut ward = service.lock();
    ward.live = ward.live.iter().chain([qp]).cloned().collect();
    drop(ward);
    service.wake();
}

/// Takes a destroyed queue pair out of care. It goes on answering for what it accepted at
/// `last_accepted`, if that was lately and the thread runs; otherwise its socket is closed when this
/// returns. Of too many that linger the one closest to its end is given up.
pub(crate) fn release(qp: &Arc<Qp>, last_accepted: Option<Instant>) {
    let service = service();
    let until = last_accepted.map(|at| at.plus_ns(LINGER_NS)).filter(|until| *until > host::now());
    let mut ward = service.lock();
    ward.live = ward.live.iter().filter(|other| !Arc::ptr_eq(other, qp)).cloned().collect();
    let mut given_up = Vec::new();
    let mut is_unheard = false;
    match until {
        Some(until) if service.station.get().is_some() => {
            let (driven, device) = (Arc::clone(qp.driven()), Arc::clone(qp.pd().device()));
            ward.lingering.push(Lingering { driven, device, until });
            given_up.extend(ward.give_up_beyond(LINGERING_MAX));
        }
        _ => {
            is_unheard = until.is_some();
            given_up.push(Arc::clone(qp.driven()));
        }
    }
    drop(ward);
    if is_unheard {
        // A queue pair that broke must not break who destroys another.
        let _ = sound(|| repeat_last_acks(|| given_up.iter().map(|driven| &**driven)));
    }
    close(&given_up, service.sockets());
    service.wake();
}

/// Closes the sockets of queue pairs that are in nobody's care.
fn close(given_up: &[Arc<Driven>], sockets: Option<&PollSet>) {
    for driven in given_up {
        // A queue pair that broke must not break who destroys another.
        let _ = sound(|| driven.close(sockets));
    }
}

/// Region `key` of the device with these `mrs` is gone. When this returns, every turn has ended that
/// did not know it, and nobody copies its bytes any more. Other devices have the same keys.
pub(crate) fn retire(mrs: &Arc<MrTable>, key: u32) {
    let is_of_device = |qp: &&Arc<Qp>| Arc::ptr_eq(&qp.pd().device().mrs, mrs);
    live().iter().filter(is_of_device).for_each(|qp| qp.retire(key));
}

/// Ends the work requests of all queue pairs of domain `pd` that are on their way to `addr`.
pub(crate) fn flush_toward(pd: PdId, addr: Ipv4Addr) {
    let now = host::now();
    for qp in live().iter().filter(|qp| qp.pd().id() == pd) {
        qp.flush_toward(now, addr);
    }
}

/// A turn of `qp` broke outside of the thread, which ends the queue pairs of its device at once. Where
/// it does not run, the caller does, who holds none of them.
#[cold]
pub(crate) fn fail_broken(qp: &Qp) {
    let _uncancelled = Uncancelled::begin();
    let (service, device) = (service(), qp.pd().device());
    if service.station.get().is_some() {
        service.lock().broken.push(Arc::clone(device));
        service.wake();
    } else {
        service.fail(device);
    }
}

/// Every queue pair of this process that is not destroyed.
fn live() -> Arc<[Arc<Qp>]> {
    SERVICE.get().map_or_else(Arc::default, |service| Arc::clone(&service.lock().live))
}

/// Something changed that the thread could not see.
pub(crate) fn wake() {
    if let Some(service) = SERVICE.get() {
        service.wake();
    }
}

/// Somebody drives queue pairs while their program sleeps.
pub(crate) fn is_there() -> bool {
    service().start()
}

/// What this process has in care.
fn service() -> &'static Service {
    SERVICE.get_or_init(Service::default)
}

impl Station {
    fn new() -> io::Result<Self> {
        let (sockets, doorbell) = (PollSet::new()?, EventFd::doorbell()?);
        sockets.add(doorbell.fd());
        Ok(Self { sockets, doorbell })
    }
}

impl Service {
    /// Starts the thread; `false` when the operating system refuses a descriptor or the thread. Queue
    /// pairs then progress only while they are polled, and the next one tries again.
    fn start(&'static self) -> bool {
        if self.station.get().is_some() {
            return true;
        }
        let _first = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.station.get().is_some() {
            return true;
        }
        let Ok(station) = Station::new().map(Arc::new) else { return false };
        let of_thread = Arc::clone(&station);
        let is_started = lifecycle::spawn("softefa", 256 << 10, move || self.run(of_thread));
        if is_started {
            self.station.get_or_init(|| station);
        }
        is_started
    }

    /// The set of the thread, if it runs.
    fn sockets(&self) -> Option<&PollSet> {
        self.station.get().map(|station| &station.sockets)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Ward> {
        self.ward.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let Some(station) = self.station.get() else { return };
        if !self.is_called.swap(true, Ordering::SeqCst) {
            station.doorbell.raise();
        }
    }

    fn run(&self, station: Arc<Station>) {
        let Station { sockets, doorbell } = &**self.station.get_or_init(|| station);
        let mut ready = Ready::NONE;
        loop {
            let timeout_ns = sound(|| self.tick(sockets, &ready));
            let timeout_ns = timeout_ns.unwrap_or_else(|| {
                self.fail_all();
                Some(TICK_NS)
            });
            sockets.wait(timeout_ns, &mut ready);
            if ready.contains(doorbell.fd()) {
                // A wake-up that comes in between rings again or is seen by the tick.
                let _ = doorbell.take();
                self.is_called.store(false, Ordering::SeqCst);
            }
        }
    }

    /// Drives what needs it; how long the thread may sleep.
    fn tick(&self, sockets: &PollSet, ready: &Ready) -> Option<u64> {
        let now = host::now();
        let broken = std::mem::take(&mut self.lock().broken);
        broken.iter().for_each(|device| self.fail(device));
        let (live, lingering) = self.look_after(now);
        let mut next = u64::MAX;
        let tick_ns = now.plus_ns(TICK_NS).as_ns();
        for Lingering { driven, until, .. } in &lingering {
            driven.join(sockets);
            let is_due = driven.due_ns() <= now.as_ns() || ready.contains(driven.receive_fd());
            let Some(is_done) = sound(|| !is_due || driven.linger_turn(now)) else {
                self.end_lingering(driven);
                continue;
            };
            next = next.min(if is_done { driven.due_ns() } else { tick_ns }).min(until.as_ns());
        }
        for qp in live.iter() {
            let driven = qp.driven();
            if driven.is_broken() && !qp.has_failed() {
                self.fail(qp.pd().device());
            }
            if qp.has_failed() {
                driven.leave(sockets);
                continue;
            }
            let is_ready = ready.contains(driven.receive_fd());
            if !is_ready && driven.watched_until_ns() > now.as_ns() {
                next = next.min(driven.watched_until_ns());
                continue;
            }
            match sound(|| qp.service_turn(now)) {
                None => self.fail(qp.pd().device()),
                Some(Served::Until(at)) => {
                    driven.join(sockets);
                    next = next.min(at.map_or(u64::MAX, Instant::as_ns));
                }
                // Not waiting for the socket matters here: it may stay readable for as long as
                // the program, which holds the lock, is scheduled away.
                Some(Served::Busy) => {
                    driven.leave(sockets);
                    next = next.min(tick_ns);
                }
            }
        }
        (next < u64::MAX).then(|| next.saturating_sub(now.as_ns()))
    }

    /// The queue pairs in care; ends the lingering of those whose time is over.
    fn look_after(&self, now: Instant) -> (Arc<[Arc<Qp>]>, Vec<Lingering>) {
        let mut ward = self.lock();
        for Lingering { driven, .. } in ward.lingering.extract_if(.., |l| l.until <= now) {
            // Somebody may hold the queue pair for longer; peers must not wait for that.
            driven.close(self.sockets());
        }
        (Arc::clone(&ward.live), ward.lingering.clone())
    }

    /// The device is dead to its program: nobody drives its queue pairs any more.
    fn fail(&self, device: &Arc<Device>) {
        let is_new = device.fail();
        let is_of_device = |qp: &&Arc<Qp>| Arc::ptr_eq(qp.pd().device(), device);
        let live = Arc::clone(&self.lock().live);
        for qp in live.iter().filter(is_of_device) {
            if let Some(sockets) = self.sockets() {
                qp.driven().leave(sockets);
            }
            // What was posted is as good as lost when even this fails.
            let _ = sound(|| qp.fail());
        }
        // Whoever asks for the living must find them until their last turn has ended.
        let mut ward = self.lock();
        ward.live = ward.live.iter().filter(|qp| !is_of_device(qp)).cloned().collect();
        drop(ward);
        if !is_new {
            return;
        }
        say(&format!(
            "softefa: device {} failed by a mistake of softefa's own (see above): its queue pairs are in \
             the error state; please report it",
            device.name()
        ));
    }

    /// As [`Service::fail`] for every device, when it cannot be told which one it was.
    fn fail_all(&self) {
        while let Some(device) = self.first_device() {
            self.fail(&device);
        }
        let lingering = std::mem::take(&mut self.lock().lingering);
        lingering.iter().for_each(|l| self.end_lingering(&l.driven));
    }

    fn first_device(&self) -> Option<Arc<Device>> {
        self.lock().live.first().map(|qp| Arc::clone(qp.pd().device()))
    }

    fn end_lingering(&self, driven: &Arc<Driven>) {
        self.lock().lingering.retain(|l| !Arc::ptr_eq(&l.driven, driven));
        close(std::slice::from_ref(driven), self.sockets());
    }
}

/// What `turn` returns; `None` when it panicked, which Rust has reported on standard error.
fn sound<T>(turn: impl FnOnce() -> T) -> Option<T> {
    // What it may have left half done is not used again.
    catch_unwind(AssertUnwindSafe(turn)).ok()
}

#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;
