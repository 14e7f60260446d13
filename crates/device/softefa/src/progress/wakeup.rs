//! The request to wake the service thread: any number of threads request it, and it is woken once.

use crate::sync::atomic::{AtomicBool, Ordering};

/// A pending request to wake the service thread.
#[derive(Debug)]
pub(crate) struct Wakeup(AtomicBool);

impl Wakeup {
    /// Makes the state without a request.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Requests a wake-up; returns true if the caller must ring the doorbell, because no request is
    /// pending.
    pub(crate) fn request(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// Takes the request, before the thread checks its queue pairs. The read-modify-write orders
    /// both: a change whose request was still pending is seen by this check, and a later request
    /// wakes the thread again.
    pub(crate) fn acknowledge(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

impl Default for Wakeup {
    fn default() -> Self {
        Self::new()
    }
}
