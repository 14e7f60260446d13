//! What a queue pair shares with the service thread: the part that outlives the handle.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use srd::Instant;

use crate::poll_set::PollSet;
use crate::shell::Side;
#[cfg(test)]
use crate::wire::Wire;

/// The program drives it; the service thread looks at it once per tick.
const UNWATCHED: u64 = 0;

/// Where the socket stands with the service thread's set. A closed socket's number may belong to
/// another file at once, so the number is used under this lock only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Registration {
    Out,
    In,
    Closed,
}

/// The turn of a queue pair behind its lock. A destroyed queue pair lingers as this alone, so that
/// its protection domain and completion queues are free at once.
pub(crate) struct Driven {
    side: Mutex<Box<dyn Side>>,
    receive_fd: RawFd,
    registration: Mutex<Registration>,
    /// Until when the service thread leaves it alone if nothing arrives; [`UNWATCHED`] when it
    /// does not wait on the socket. Whoever makes something due earlier must wake it.
    watched_until_ns: AtomicU64,
    /// One of many on a completion queue: a poll gives it a turn when something arrived or is due.
    is_in_crowd: AtomicBool,
    /// When a turn is needed even if nothing arrives; kept only in a crowd.
    due_ns: AtomicU64,
}

impl Driven {
    pub(super) fn new(side: Box<dyn Side>, receive_fd: RawFd) -> Self {
        Self {
            side: Mutex::new(side),
            receive_fd,
            registration: Mutex::new(Registration::Out),
            watched_until_ns: AtomicU64::new(UNWATCHED),
            is_in_crowd: AtomicBool::new(false),
            due_ns: AtomicU64::new(0),
        }
    }

    /// A turn panicked, the program's or the service thread's: what it left half done is only good
    /// to be ended ([`crate::service::fail_broken`]).
    pub(crate) fn is_broken(&self) -> bool {
        self.side.is_poisoned()
    }

    /// Also what is broken, for those who end it; turns look before.
    pub(super) fn lock(&self) -> MutexGuard<'_, Box<dyn Side>> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while another thread is at it, and of what is broken.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Box<dyn Side>>> {
        self.side.try_lock().ok()
    }

    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_fd
    }

    /// The service thread waits on the socket.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched_until_ns() != UNWATCHED
    }

    /// Until when the service thread need not look at it.
    pub(crate) fn watched_until_ns(&self) -> u64 {
        self.watched_until_ns.load(Ordering::SeqCst)
    }

    /// The service thread waits on the socket until then. Called under the lock, so that a post is
    /// either seen by the turn before or sees this.
    pub(super) fn watch(&self, until: Option<Instant>) {
        let until_ns = until.map_or(u64::MAX, |at| at.as_ns().max(UNWATCHED + 1));
        self.watched_until_ns.store(until_ns, Ordering::SeqCst);
        self.due_ns.store(until_ns, Ordering::Relaxed);
    }

    /// The service thread leaves it to the program.
    pub(super) fn unwatch(&self) {
        self.watched_until_ns.store(UNWATCHED, Ordering::SeqCst);
    }

    /// Called under the lock after the program changed something: whether the service thread must
    /// be woken because it would look too late. Says so once.
    #[inline]
    pub(super) fn settle(&self, side: &dyn Side) -> bool {
        if self.is_in_crowd.load(Ordering::Relaxed) {
            let next = side.next_turn().map_or(u64::MAX, Instant::as_ns);
            let due_ns = if side.shell().has_received() { 0 } else { next };
            self.due_ns.store(due_ns, Ordering::Relaxed);
        }
        let until_ns = self.watched_until_ns.load(Ordering::Relaxed);
        until_ns != UNWATCHED && self.is_late(side, until_ns)
    }

    #[cold]
    fn is_late(&self, side: &dyn Side, until_ns: u64) -> bool {
        let is_late = side.next_turn().is_some_and(|at| at.as_ns() < until_ns);
        if is_late {
            self.unwatch();
        }
        is_late
    }

    /// From now on [`Driven::due_ns`] is kept.
    pub(crate) fn join_crowd(&self) {
        self.is_in_crowd.store(true, Ordering::Relaxed);
    }

    /// When a turn is needed even if nothing arrives.
    pub(crate) fn due_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    /// A turn after destruction: acknowledges and refuses. The next is due at
    /// [`Driven::due_ns`]; `false` while another thread is at it.
    pub(crate) fn linger_turn(&self, now: Instant) -> bool {
        let Some(mut side) = self.try_lock() else { return false };
        side.service_turn(now, false);
        self.watch(side.next_timeout());
        true
    }

    /// Destroyed: the next turn is due at once.
    pub(super) fn begin_lingering(&self) {
        self.due_ns.store(0, Ordering::Relaxed);
    }

    /// The service thread's set has the socket from now on, unless it is closed.
    pub(crate) fn join(&self, sockets: &PollSet) {
        let mut registration = self.registration();
        if *registration == Registration::Out {
            sockets.add(self.receive_fd);
            *registration = Registration::In;
        }
    }

    /// The service thread's set has the socket no more.
    pub(crate) fn leave(&self, sockets: &PollSet) {
        let mut registration = self.registration();
        if *registration == Registration::In {
            sockets.remove(self.receive_fd);
            *registration = Registration::Out;
        }
    }

    /// Closes the socket: from now on the kernel answers for this number. Idempotent.
    pub(crate) fn close(&self, sockets: Option<&PollSet>) {
        let mut registration = self.registration();
        if let (Registration::In, Some(sockets)) = (*registration, sockets) {
            sockets.remove(self.receive_fd);
        }
        *registration = Registration::Closed;
        drop(registration);
        self.lock().shell_mut().unplug();
    }

    fn registration(&self) -> MutexGuard<'_, Registration> {
        self.registration.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Repeats the last acknowledgements, for a process that is about to end; `false` while
    /// another thread is at it.
    pub(crate) fn final_acks(&self, now: Instant) -> bool {
        self.try_lock().map(|mut side| side.final_acks(now)).is_some()
    }

    /// See [`crate::shell::Shell::rewire`].
    #[cfg(test)]
    pub(crate) fn rewire(&self, other: impl FnOnce(Box<dyn Wire>) -> Box<dyn Wire>) {
        self.lock().shell_mut().rewire(other);
    }
}
