//! The service thread: it drives queue pairs that the program does not poll.
//!
//! While a program polls, the thread checks its queue pairs once per tick and does not wait on
//! their sockets, so that two busy processes keep both cores. When the program has not polled for a
//! while, or has armed a completion queue to sleep on its channel, the thread waits on the sockets
//! and handles each datagram at once: acknowledgements, retransmissions and timers continue, and
//! completions wake the program. Destroyed queue pairs linger here, so that a lost last
//! acknowledgement does not turn a delivered message into an error.
//!
//! If the operating system refuses the thread, nothing lingers: no thread would drive such a queue
//! pair while the program does something else, and its peers would get neither an answer nor a
//! refusal. Its last acknowledgements are repeated at once and its socket is closed, as when a
//! device is closed.
//!
//! A panic in a turn is a bug of the adapter, not of the program. It fails the device
//! ([`Live::fail`]); the thread and the other devices continue. The same holds for a turn that the
//! program itself took, which reports the failure by an error.

mod fork;
mod retire;
mod shutdown;

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
use crate::progress::{Linger, Live, Served, Wakeup, Watch, live};
use crate::say::say;
use crate::scheduling::ask_for_precedence;
use crate::uncancelled::Uncancelled;

/// The interval at which polled queue pairs are checked.
const TICK_NS: u64 = 2_000_000;
/// The longest sleep. A program may close the poll set while the thread sleeps on it: then nothing
/// would wake the thread, and the failure of the devices would never be reported.
const SLEEP_MAX_NS: u64 = 5_000_000_000;
/// The time for which a destroyed queue pair answers for the last message that it accepted. It
/// covers several retransmission times.
const LINGER_NS: u64 = 250_000_000;
/// The most destroyed queue pairs of a process that linger at the same time. Each keeps a
/// descriptor.
const LINGERING_MAX: usize = 32;

use shutdown::{close_lingering, repeat_acks_at_exit, repeat_last_acks};

#[derive(Clone)]
struct Lingering {
    qp: Arc<dyn Linger>,
    device: DeviceId,
    until: Instant,
}

#[derive(Default)]
struct State {
    lingering: Vec<Lingering>,
    /// Devices that failed outside of the thread, and whose queue pairs the thread has not failed
    /// yet.
    broken: Vec<Broken>,
}

/// A device, and its name if the failure has not been reported yet.
type Broken = (DeviceId, Option<String>);

impl State {
    /// Removes all but the `max` queue pairs that linger longest.
    fn take_beyond(&mut self, max: usize) -> impl Iterator<Item = Arc<dyn Linger>> {
        self.lingering.sort_by_key(|lingering| lingering.until);
        let beyond = self.lingering.len().saturating_sub(max);
        self.lingering.drain(..beyond).map(|lingering| lingering.qp)
    }
}

#[derive(Default)]
struct Service {
    state: Mutex<State>,
    /// The pending request to wake the thread.
    wakeup: Wakeup,
    /// It is set once the thread runs.
    wait_point: OnceLock<Arc<WaitPoint>>,
    /// The lock is held while the thread is being started.
    starting: Mutex<()>,
    /// The thread has asked for precedence.
    has_precedence: AtomicBool,
}

/// The poll set and the event counter that the thread waits on.
struct WaitPoint {
    sockets: PollSet,
    doorbell: EventFd,
}

static SERVICE: PerProcess<Service> = PerProcess::new();

/// Starts to drive a new queue pair, and starts the thread unless it already runs.
pub(crate) fn adopt(qp: Arc<dyn Live>) {
    let service = service();
    service.start();
    live::add(qp);
    service.wake();
}

/// Stops driving a destroyed queue pair. It lingers for what it accepted at `last_accepted`, if
/// that was recent and the thread runs; otherwise its socket is closed when this returns. If too
/// many linger, the one that is closest to its end is closed.
pub(crate) fn release(qp: &dyn Live, last_accepted: Option<Instant>) {
    let service = service();
    let until = last_accepted.map(|at| at.plus_ns(LINGER_NS)).filter(|until| *until > host::now());
    let mut state = service.lock();
    let mut closing = Vec::new();
    let mut is_unanswered = false;
    match until {
        Some(until) if service.wait_point.get().is_some() => {
            let (qp, device) = (qp.lingering(), qp.device());
            live::on_retire_lingering(retire::retire_lingering);
            state.lingering.push(Lingering { qp, device, until });
            closing.extend(state.take_beyond(LINGERING_MAX));
        }
        _ => {
            is_unanswered = until.is_some();
            closing.push(qp.lingering());
        }
    }
    drop(state);
    live::remove(qp);
    if is_unanswered {
        // A panic of this queue pair must not fail the destruction of another one.
        let _ = catch_panic(|| repeat_last_acks(&closing));
    }
    close(&closing, service.sockets());
    service.wake();
}

/// Closes the sockets of queue pairs that are not driven any more.
fn close(closing: &[Arc<dyn Linger>], sockets: Option<&PollSet>) {
    for qp in closing {
        // A panic of this queue pair must not fail the destruction of another one.
        let _ = catch_panic(|| qp.close(sockets));
    }
}

/// Fails a device after a turn outside of the thread has panicked. The thread fails its queue
/// pairs, or the caller does if the thread does not run; the caller must not hold any of them.
/// `name` is the device's name if the failure has not been reported yet.
#[cold]
pub(crate) fn fail_device(device: DeviceId, name: Option<String>) {
    let _uncancelled = Uncancelled::begin();
    let service = service();
    if service.wait_point.get().is_some() {
        service.lock().broken.push((device, name));
        service.wake();
    } else {
        service.fail(device, name);
    }
}

/// Wakes the thread after a change that it cannot notice by itself.
pub(crate) fn wake() {
    if let Some(service) = SERVICE.get() {
        service.wake();
    }
}

/// Starts the thread unless it runs; returns whether it runs. It drives queue pairs while their
/// program sleeps.
pub(crate) fn ensure_started() -> bool {
    service().start()
}

/// Adds the socket of a multicast group from which a queue pair receives.
pub(crate) fn add_group(watch: &Watch, fd: RawFd) {
    watch.add_group(fd, service().sockets());
}

/// Removes the socket of a multicast group, which is about to be closed.
pub(crate) fn remove_group(watch: &Watch, fd: RawFd) {
    watch.remove_group(fd, service().sockets());
}

/// Returns the service of this process.
fn service() -> &'static Service {
    SERVICE.get_or_init(|| {
        lifecycle::at_exit(repeat_acks_at_exit);
        descriptor::on_shortage(close_lingering);
        generation::around_fork(fork::AROUND_FORK);
        Service::default()
    })
}

impl WaitPoint {
    fn new() -> io::Result<Self> {
        let (sockets, doorbell) = (PollSet::new()?, EventFd::doorbell()?);
        sockets.add(doorbell.fd());
        Ok(Self { sockets, doorbell })
    }
}

/// The cause of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Adapter,
    Program,
}

impl Service {
    /// Starts the thread; returns false if the operating system refuses a descriptor or the thread.
    /// Queue pairs then progress only while they are polled, and creating the next one tries again.
    fn start(&'static self) -> bool {
        if self.wait_point.get().is_some() {
            return true;
        }
        let _first = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.wait_point.get().is_some() {
            return true;
        }
        let Ok(wait_point) = WaitPoint::new().map(Arc::new) else { return false };
        let of_thread = Arc::clone(&wait_point);
        let is_started = lifecycle::spawn("softefa", 256 << 10, move || self.run(of_thread));
        if is_started {
            self.wait_point.get_or_init(|| wait_point);
        }
        is_started
    }

    /// Returns the poll set of the thread, if it runs.
    fn sockets(&self) -> Option<&PollSet> {
        self.wait_point.get().map(|wait_point| &wait_point.sockets)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        let Some(wait_point) = self.wait_point.get() else { return };
        if self.wakeup.request() {
            wait_point.doorbell.raise();
        }
    }

    fn run(&self, wait_point: Arc<WaitPoint>) {
        let WaitPoint { sockets, doorbell } = &**self.wait_point.get_or_init(|| wait_point);
        let mut ready = Ready::NONE;
        loop {
            let timeout_ns = catch_panic(|| self.tick(sockets, &ready));
            let timeout_ns = timeout_ns.unwrap_or_else(|| {
                self.fail_all(Cause::Adapter);
                Some(TICK_NS)
            });
            let timeout_ns = timeout_ns.map_or(SLEEP_MAX_NS, |ns| ns.min(SLEEP_MAX_NS));
            if let Err(error) = sockets.wait(Some(timeout_ns), &mut ready) {
                say(&format!(
                    "softefa: the program has closed descriptors that are not its own ({error}): \
                     its devices are at their end"
                ));
                // The doorbell's number may now belong to a file of the program, so it must not be
                // written.
                self.wakeup.request();
                self.fail_all(Cause::Program);
                return;
            }
            if ready.contains(doorbell.fd()) {
                let _ = doorbell.take();
                self.wakeup.acknowledge();
            }
        }
    }

    /// Drives the queue pairs that need it, and returns how long the thread may sleep.
    fn tick(&self, sockets: &PollSet, ready: &Ready) -> Option<u64> {
        let now = host::now();
        let broken = std::mem::take(&mut self.lock().broken);
        broken.into_iter().for_each(|(device, name)| self.fail(device, name));
        let (live, lingering) = (live::all(), self.expire_lingering(now));
        let mut next = u64::MAX;
        let tick_ns = now.plus_ns(TICK_NS).as_ns();
        for Lingering { qp, until, .. } in &lingering {
            let watch = qp.watch();
            let is_watched = watch.join(sockets);
            let is_due = !is_watched
                || watch.due.at_ns() <= now.as_ns()
                || ready.contains(watch.receive_fd());
            let Some(is_done) = catch_panic(|| !is_due || qp.linger_turn(now)) else {
                self.end_lingering(qp);
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
                    if watch.unpolled_writes.watches_memory() {
                        self.take_precedence();
                    }
                    next = next.min(at.map_or(u64::MAX, Instant::as_ns));
                }
                // The thread must not wait for the socket here: it may stay readable for as long as
                // the program, which holds the lock, is not scheduled.
                Some(Served::Busy) => {
                    watch.leave(sockets);
                    next = next.min(tick_ns);
                }
            }
        }
        (next < u64::MAX).then(|| next.saturating_sub(now.as_ns()))
    }

    /// Asks for precedence if a program watches its memory. A program that polls needs the
    /// processor itself.
    #[inline]
    fn take_precedence(&self) {
        if !self.has_precedence.load(Ordering::Relaxed) {
            self.has_precedence.store(true, Ordering::Relaxed);
            ask_for_precedence();
        }
    }

    /// Returns the queue pairs that linger, and closes those whose time is over.
    fn expire_lingering(&self, now: Instant) -> Vec<Lingering> {
        let mut state = self.lock();
        for Lingering { qp, .. } in state.lingering.iter().filter(|l| l.until <= now) {
            // Another thread may hold the queue pair for longer, which must not delay its peers.
            qp.close(self.sockets());
        }
        state.lingering.retain(|l| l.until > now);
        state.lingering.clone()
    }

    /// Fails a device: its queue pairs fail and are not driven any more.
    fn fail(&self, device: DeviceId, name: Option<String>) {
        for qp in live::all().iter().filter(|qp| qp.device() == device) {
            if let Some(sockets) = self.sockets() {
                qp.watch().leave(sockets);
            }
            // If even this panics, the posted work requests are lost.
            let _ = catch_panic(|| qp.fail());
        }
        // Callers of `live::all` must find them until their last turn has ended.
        live::remove_all_of(device);
        if let Some(name) = name {
            say(&format!(
                "softefa: device {name} failed by a mistake of softefa's own (see above): its queue \
                 pairs are in the error state; please report it"
            ));
        }
    }

    /// Fails every device as [`Service::fail`] does, because the failed one is not known.
    fn fail_all(&self, cause: Cause) {
        while let Some(qp) = live::all().first() {
            // A fault of the program has already been reported.
            let name = qp.fail_device().filter(|_| cause == Cause::Adapter);
            self.fail(qp.device(), name);
        }
        let lingering = std::mem::take(&mut self.lock().lingering);
        lingering.iter().for_each(|l| self.end_lingering(&l.qp));
    }

    fn end_lingering(&self, qp: &Arc<dyn Linger>) {
        self.lock().lingering.retain(|l| !Arc::ptr_eq(&l.qp, qp));
        close(std::slice::from_ref(qp), self.sockets());
    }
}

/// Returns the result of `turn`; `None` if it panicked, which Rust has reported on standard error.
fn catch_panic<T>(turn: impl FnOnce() -> T) -> Option<T> {
    // A state that the panic left inconsistent is not used again.
    catch_unwind(AssertUnwindSafe(turn)).ok()
}

impl Device {
    /// Closes the device, after its program has destroyed its queue pairs: those that linger repeat
    /// their last acknowledgements and release their descriptors. Not so with faults on the wire,
    /// which would drop the repetitions.
    pub fn close(&self) {
        if !self.is_own() {
            return;
        }
        let (fault, _) = self.fault_control.poll(host::now(), &self.counters);
        if !fault.spec.is_on_the_wire() {
            shutdown::close_device(self.id());
        }
    }
}

#[cfg(test)]
mod refused;
#[cfg(test)]
mod tests;
