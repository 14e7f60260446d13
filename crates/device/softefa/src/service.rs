//! The service thread: drives queue pairs that nobody polls.
//!
//! While a program polls, the thread only looks up once per tick and never waits on its sockets,
//! so that two busy processes keep both cores. When nobody polled for a while, or the program armed
//! a completion queue to sleep on its channel, it waits on the sockets and answers each datagram at
//! once: acknowledgements, retransmissions and timers go on, and completions wake the program.
//! Destroyed queue pairs linger here, so that a lost last acknowledgement does not turn a delivered
//! message into an error.
//!
//! The operating system may refuse the thread. Then nothing lingers, because nobody would drive it
//! while its program does something else, and peers would hear neither an answer nor a refusal: the
//! last acknowledgements are repeated at once and the socket is closed, as when a device is closed.
//!
//! A panic in a turn is a mistake of ours, and the program did nothing to deserve it: the device is
//! dead from then on ([`Live::fail`]), its thread and its other devices go on. So it is when the
//! turn was the program's own, which hears of that one by an error.

mod farewell;
mod fork;
mod retire;

use std::io;
use std::os::fd::RawFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use srd::Instant;

use crate::descriptor;
use crate::device::Device;
use crate::generation::{self, PerProcess};
use crate::host;
use crate::ids::DeviceId;
use crate::lifecycle;
use crate::poll_set::{EventFd, PollSet, Ready};
use crate::progress::{Call, Linger, Live, Served, Watch, live};
use crate::say::say;
use crate::scheduling::ask_for_precedence;
use crate::uncancelled::Uncancelled;

/// The interval at which polled queue pairs are looked at.
const TICK_NS: u64 = 2_000_000;
/// The longest sleep. A program may close the set while the thread sleeps on it: nothing would ever
/// wake it, and nobody would hear that the devices are at their end.
const SLEEP_MAX_NS: u64 = 5_000_000_000;
/// The time for which a destroyed queue pair answers for the last message it accepted: several
/// retransmission times.
const LINGER_NS: u64 = 250_000_000;
/// Destroyed queue pairs of a process that answer at the same time. Each keeps a descriptor.
const LINGERING_MAX: usize = 32;

use farewell::{give_up_lingering, repeat_last_acks, say_goodbye};

#[derive(Clone)]
struct Lingering {
    driven: Arc<dyn Linger>,
    device: DeviceId,
    until: Instant,
}

#[derive(Default)]
struct Ward {
    lingering: Vec<Lingering>,
    /// Devices that broke outside of the thread, which has not ended them yet.
    broken: Vec<Broken>,
}

/// A device, and its name if nobody was told of it.
type Broken = (DeviceId, Option<String>);

impl Ward {
    /// Takes out all but the `max` that linger for longest.
    fn give_up_beyond(&mut self, max: usize) -> impl Iterator<Item = Arc<dyn Linger>> {
        self.lingering.sort_by_key(|lingering| lingering.until);
        let beyond = self.lingering.len().saturating_sub(max);
        self.lingering.drain(..beyond).map(|lingering| lingering.driven)
    }
}

#[derive(Default)]
struct Service {
    ward: Mutex<Ward>,
    /// The doorbell rang and the thread has not looked yet.
    call: Call,
    /// There when the thread runs.
    station: OnceLock<Arc<Station>>,
    /// Held by whoever starts it.
    starting: Mutex<()>,
    /// The thread has asked for it.
    has_precedence: AtomicBool,
}

/// The set and the counter that the thread waits at.
struct Station {
    sockets: PollSet,
    doorbell: EventFd,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

/// Takes a new queue pair into care and starts the thread, unless it runs or is refused.
pub(crate) fn adopt(qp: Arc<dyn Live>) {
    let service = service();
    service.start();
    live::add(qp);
    service.wake();
}

/// Takes a destroyed queue pair out of care. It goes on answering for what it accepted at
/// `last_accepted`, if that was lately and the thread runs; otherwise its socket is closed when
/// this returns. Of too many that linger the one closest to its end is given up.
pub(crate) fn release(qp: &dyn Live, last_accepted: Option<Instant>) {
    let service = service();
    let until = last_accepted.map(|at| at.plus_ns(LINGER_NS)).filter(|until| *until > host::now());
    let mut ward = service.lock();
    let mut given_up = Vec::new();
    let mut is_unheard = false;
    match until {
        Some(until) if service.station.get().is_some() => {
            let (driven, device) = (qp.lingering(), qp.device());
            live::tell_lingering_by(retire::retire_lingering);
            ward.lingering.push(Lingering { driven, device, until });
            given_up.extend(ward.give_up_beyond(LINGERING_MAX));
        }
        _ => {
            is_unheard = until.is_some();
            given_up.push(qp.lingering());
        }
    }
    drop(ward);
    live::remove(qp);
    if is_unheard {
        // A queue pair that broke must not break who destroys another.
        let _ = catch_panic(|| repeat_last_acks(&given_up));
    }
    close(&given_up, service.sockets());
    service.wake();
}

/// Closes the sockets of queue pairs that are in nobody's care.
fn close(given_up: &[Arc<dyn Linger>], sockets: Option<&PollSet>) {
    for driven in given_up {
        // A queue pair that broke must not break who destroys another.
        let _ = catch_panic(|| driven.close(sockets));
    }
}

/// A device broke, by a turn outside of the thread, which ends its queue pairs at once. Where it
/// does not run, the caller does, who holds none of them. `name` when nobody was told of it.
#[cold]
pub(crate) fn fail_device(device: DeviceId, name: Option<String>) {
    let _uncancelled = Uncancelled::begin();
    let service = service();
    if service.station.get().is_some() {
        service.lock().broken.push((device, name));
        service.wake();
    } else {
        service.fail(device, name);
    }
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

/// A queue pair receives from the socket of a multicast group, too, from now on.
pub(crate) fn add_group(watch: &Watch, fd: RawFd) {
    watch.add_group(fd, service().sockets());
}

/// The socket of a multicast group is about to be closed.
pub(crate) fn remove_group(watch: &Watch, fd: RawFd) {
    watch.remove_group(fd, service().sockets());
}

/// Returns the service of this process.
fn service() -> &'static Service {
    SERVICE.get_or_init(|| {
        lifecycle::at_exit(say_goodbye);
        descriptor::on_shortage(give_up_lingering);
        generation::around_fork(fork::AROUND_FORK);
        Service::default()
    })
}

impl Station {
    fn new() -> io::Result<Self> {
        let (sockets, doorbell) = (PollSet::new()?, EventFd::doorbell()?);
        sockets.add(doorbell.fd());
        Ok(Self { sockets, doorbell })
    }
}

/// Whose mistake ends a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    Ours,
    Program,
}

impl Service {
    /// Starts the thread; `false` when the operating system refuses a descriptor or the thread.
    /// Queue pairs then progress only while they are polled, and the next one tries again.
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
        if self.call.make() {
            station.doorbell.raise();
        }
    }

    fn run(&self, station: Arc<Station>) {
        let Station { sockets, doorbell } = &**self.station.get_or_init(|| station);
        let mut ready = Ready::NONE;
        loop {
            let timeout_ns = catch_panic(|| self.tick(sockets, &ready));
            let timeout_ns = timeout_ns.unwrap_or_else(|| {
                self.fail_all(Blame::Ours);
                Some(TICK_NS)
            });
            let timeout_ns = timeout_ns.map_or(SLEEP_MAX_NS, |ns| ns.min(SLEEP_MAX_NS));
            if let Err(error) = sockets.wait(Some(timeout_ns), &mut ready) {
                say(&format!(
                    "softefa: the program has closed descriptors that are not its own ({error}): \
                     its devices are at their end"
                ));
                // The doorbell's number may be that of a file of the program's: nobody rings.
                self.call.make();
                self.fail_all(Blame::Program);
                return;
            }
            if ready.contains(doorbell.fd()) {
                let _ = doorbell.take();
                self.call.answer();
            }
        }
    }

    /// Drives what needs it; how long the thread may sleep.
    fn tick(&self, sockets: &PollSet, ready: &Ready) -> Option<u64> {
        let now = host::now();
        let broken = std::mem::take(&mut self.lock().broken);
        broken.into_iter().for_each(|(device, name)| self.fail(device, name));
        let (live, lingering) = (live::all(), self.look_after(now));
        let mut next = u64::MAX;
        let tick_ns = now.plus_ns(TICK_NS).as_ns();
        for Lingering { driven, until, .. } in &lingering {
            let watch = driven.watch();
            let is_watched = watch.join(sockets);
            let is_due = !is_watched
                || watch.due.at_ns() <= now.as_ns()
                || ready.contains(watch.receive_fd());
            let Some(is_done) = catch_panic(|| !is_due || driven.linger_turn(now)) else {
                self.end_lingering(driven);
                continue;
            };
            let is_asleep = is_done && is_watched;
            next = next.min(if is_asleep { watch.due.at_ns() } else { tick_ns });
            next = next.min(until.as_ns());
        }
        for qp in live.iter() {
            let watch = qp.watch();
            if qp.is_broken() && !qp.has_failed() {
                self.fail(qp.device(), qp.fail_device());
            }
            if qp.has_failed() {
                watch.leave(sockets);
                continue;
            }
            let is_ready = ready.contains(watch.receive_fd());
            if !is_ready && watch.due.watched_until_ns() > now.as_ns() {
                next = next.min(watch.due.watched_until_ns());
                continue;
            }
            match catch_panic(|| qp.service_turn(now)) {
                None => self.fail(qp.device(), qp.fail_device()),
                Some(Served::Until(at)) => {
                    if !watch.join(sockets) {
                        next = next.min(tick_ns);
                    }
                    if watch.unseen.is_usual() {
                        self.take_precedence();
                    }
                    next = next.min(at.map_or(u64::MAX, Instant::as_ns));
                }
                // Not waiting for the socket matters here: it may stay readable for as long as
                // the program, which holds the lock, is scheduled away.
                Some(Served::Busy) => {
                    watch.leave(sockets);
                    next = next.min(tick_ns);
                }
            }
        }
        (next < u64::MAX).then(|| next.saturating_sub(now.as_ns()))
    }

    /// Takes precedence for a program that watches its memory. Others do without: they poll, and
    /// what needs their processor would have to wait.
    #[inline]
    fn take_precedence(&self) {
        if !self.has_precedence.load(Ordering::Relaxed) {
            self.has_precedence.store(true, Ordering::Relaxed);
            ask_for_precedence();
        }
    }

    /// Returns those that linger; ends the lingering of those whose time is over.
    fn look_after(&self, now: Instant) -> Vec<Lingering> {
        let mut ward = self.lock();
        for Lingering { driven, .. } in ward.lingering.iter().filter(|l| l.until <= now) {
            // Somebody may hold the queue pair for longer; peers must not wait for that.
            driven.close(self.sockets());
        }
        ward.lingering.retain(|l| l.until > now);
        ward.lingering.clone()
    }

    /// The device is dead to its program: nobody drives its queue pairs any more.
    fn fail(&self, device: DeviceId, name: Option<String>) {
        for qp in live::all().iter().filter(|qp| qp.device() == device) {
            if let Some(sockets) = self.sockets() {
                qp.watch().leave(sockets);
            }
            // What was posted is as good as lost when even this fails.
            let _ = catch_panic(|| qp.fail());
        }
        // Whoever asks for the living must find them until their last turn has ended.
        live::remove_all_of(device);
        if let Some(name) = name {
            say(&format!(
                "softefa: device {name} failed by a mistake of softefa's own (see above): its queue \
                 pairs are in the error state; please report it"
            ));
        }
    }

    /// Fails every device as [`Service::fail`] does, when it cannot be told which one it was.
    fn fail_all(&self, blame: Blame) {
        while let Some(qp) = live::all().first() {
            // What the program has done has been said.
            let name = qp.fail_device().filter(|_| blame == Blame::Ours);
            self.fail(qp.device(), name);
        }
        let lingering = std::mem::take(&mut self.lock().lingering);
        lingering.iter().for_each(|l| self.end_lingering(&l.driven));
    }

    fn end_lingering(&self, driven: &Arc<dyn Linger>) {
        self.lock().lingering.retain(|l| !Arc::ptr_eq(&l.driven, driven));
        close(std::slice::from_ref(driven), self.sockets());
    }
}

/// Returns what `turn` returns; `None` when it panicked, which Rust has reported on standard error.
fn catch_panic<T>(turn: impl FnOnce() -> T) -> Option<T> {
    // What it may have left half done is not used again.
    catch_unwind(AssertUnwindSafe(turn)).ok()
}

impl Device {
    /// Its program has closed it and destroyed its queue pairs: those that still answered for what
    /// they accepted say so once more and give their descriptors back. Not with faults on the wire,
    /// which would eat what is said.
    pub fn close(&self) {
        if !self.is_own() {
            return;
        }
        let (fault, _) = self.fault_control.look(host::now(), &self.counters);
        if !fault.spec.is_on_the_wire() {
            farewell::say_farewell(self.id());
        }
    }
}

#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;
