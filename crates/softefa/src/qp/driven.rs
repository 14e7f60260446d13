//! What a queue pair shares with the service thread: the part that outlives the handle.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use srd::Instant;

use crate::core::Core;

/// The turn of a queue pair behind its lock. A destroyed queue pair lingers as this alone, so that
/// its protection domain and completion queues are free at once.
pub(crate) struct Driven {
    core: Mutex<Core>,
    receive_fd: RawFd,
    /// The service thread sleeps until something arrives or a timer is due: whoever changes when
    /// that is must wake it.
    parked: AtomicBool,
}

impl Driven {
    pub(super) fn new(core: Core, receive_fd: RawFd) -> Self {
        Self { core: Mutex::new(core), receive_fd, parked: AtomicBool::new(false) }
    }

    /// A panic under the lock was caught at the program's border; what is behind is still whole
    /// enough to be driven, and a queue pair that never moves again would be worse.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `None` while another thread is at it.
    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, Core>> {
        match self.core.try_lock() {
            Ok(core) => Some(core),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(crate) fn receive_fd(&self) -> RawFd {
        self.receive_fd
    }

    /// The service thread goes to sleep over this queue pair. Called under its lock, so that a
    /// post is either seen by the turn or sees the flag.
    pub(super) fn park(&self) {
        self.parked.store(true, Ordering::Release);
    }

    /// Whether the service thread must be woken; says so once.
    pub(super) fn unpark(&self) -> bool {
        self.parked.load(Ordering::Acquire) && self.parked.swap(false, Ordering::AcqRel)
    }

    /// A turn after destruction: acknowledges and refuses. When the next one is due.
    pub(crate) fn linger_turn(&self, now: Instant) -> Option<Instant> {
        let mut core = self.try_lock()?;
        core.service_turn(now);
        core.next_timeout()
    }

    /// The end of lingering.
    pub(crate) fn unplug(&self) {
        self.lock().unplug();
    }

    /// Repeats the last acknowledgements, for a process that is about to end; `false` while
    /// another thread is at it.
    pub(crate) fn final_acks(&self, now: Instant) -> bool {
        self.try_lock().map(|mut core| core.final_acks(now)).is_some()
    }

    /// Returns when no turn is under way.
    pub(crate) fn wait_for_turn(&self) {
        drop(self.lock());
    }
}
