//! How the service thread is called: many may call, and it is woken once.

use crate::sync::atomic::{AtomicBool, Ordering};

/// A call that has not been answered.
#[derive(Debug)]
pub(crate) struct Call(AtomicBool);

impl Call {
    /// Nobody calls.
    pub(crate) fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    /// Calls; whether the thread must be woken because nobody else has done so.
    pub(crate) fn make(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The thread has taken the wake-up and looks next. Read and written at once: whoever found the
    /// call made before has its change seen by that look, whoever comes later wakes the thread
    /// again.
    pub(crate) fn answer(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}

impl Default for Call {
    fn default() -> Self {
        Self::new()
    }
}
