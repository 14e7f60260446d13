//! What a queue pair has behind its lock: the part that outlives the handle.

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

    /// A turn panicked, the program's or the service thread's: what it left half done is only good
    /// to be ended ([`crate::service::fail_device`]).
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

    /// Called under the lock after the program changed something: whether the service thread must
    /// be woken because it would look too late. Says so once.
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
