//! The completion queues of a device, so that polling one can help the others.

use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use srd::Instant;

use super::Live;

/// A completion queue, to those who poll another one.
pub(crate) trait Sibling: Debug + Send + Sync {
    /// Gives a turn to the queue pairs that `is_left` says, if nobody polled this queue lately.
    fn help(&self, now: Instant, is_left: &dyn Fn(&dyn Live) -> bool);
}

/// Completion queues of a device; replaced as a whole, so that who looks through them holds no
/// lock.
#[derive(Debug, Default)]
pub(crate) struct Family(RwLock<Arc<[Weak<dyn Sibling>]>>);

impl Family {
    pub(crate) fn join(&self, cq: Weak<dyn Sibling>) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().cloned().chain([cq]).collect();
    }

    /// Forgets those that are gone.
    pub(crate) fn leave(&self) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().filter(|cq| cq.strong_count() > 0).cloned().collect();
    }

    /// Keeps others from it.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.0.write().unwrap()
    }

    pub(crate) fn members(&self) -> Arc<[Weak<dyn Sibling>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
