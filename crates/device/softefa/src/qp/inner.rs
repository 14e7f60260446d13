//! The part of a queue pair behind its lock, which outlives the handle.

use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use srd::Instant;

use crate::poll_set::PollSet;
use crate::progress::{Linger, Watch};
use crate::shell::{AckTiming, Side};
use crate::wire::Sleep;
#[cfg(test)]
use crate::wire::Wire;

/// A destroyed queue pair lingers as this alone, so that its protection domain and completion
/// queues are free at once.
pub(crate) struct QpInner {
    side: Mutex<Box<dyn Side>>,
    pub(super) watch: Watch,
}

impl QpInner {
    pub(super) fn new(side: Box<dyn Side>, receive_fd: RawFd) -> Self {
        Self { side: Mutex::new(side), watch: Watch::new(receive_fd) }
    }

    /// A turn has panicked, so the state may be inconsistent and can only be failed
    /// ([`crate::service::fail_device`]).
    pub(crate) fn is_broken(&self) -> bool {
        self.side.is_poisoned()
    }

    /// Locks it even if it is broken, in order to end it; turns check before.
    pub(super) fn lock(&self) -> MutexGuard<'_, Box<dyn Side>> {
        self.side.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks it; `None` if another thread holds the lock, or it is broken.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Box<dyn Side>>> {
        self.side.try_lock().ok()
    }

    /// Returns true if the service thread must be woken, because it would take the next turn too
    /// late. It is called under the lock after a change by the program, and returns true once per
    /// change.
    #[inline]
    pub(super) fn settle(&self, side: &dyn Side) -> bool {
        self.watch.due.settle(side.shell().is_eager(), || side.next_turn())
    }

    /// See [`crate::shell::Shell::rewire`].
    #[cfg(test)]
    pub(crate) fn rewire(&self, other: impl FnOnce(Box<dyn Wire>) -> Box<dyn Wire>) {
        self.lock().shell_mut().rewire(other);
    }
}

impl Linger for QpInner {
    fn watch(&self) -> &Watch {
        &self.watch
    }

    fn linger_turn(&self, now: Instant) -> bool {
        let Some(mut side) = self.try_lock() else { return false };
        side.service_turn(now, AckTiming::AtOnce);
        side.shell_mut().fall_asleep(Sleep::Sound);
        self.watch.due.until(side.next_timeout());
        true
    }

    fn retire(&self, key: u32) {
        self.lock().retire(key);
    }

    fn final_acks(&self, now: Instant) -> bool {
        let Some(mut side) = self.try_lock() else { return false };
        side.final_acks(now);
        // Nobody is there later to let go what a fault holds back.
        side.shell_mut().release_all(now);
        true
    }

    fn close(&self, sockets: Option<&PollSet>) {
        self.watch.close(sockets);
        self.lock().shell_mut().unplug();
    }
}
