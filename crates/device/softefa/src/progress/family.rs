//! The completion queues of a device, so that polling one can drive the others' queue pairs.

use std::fmt::Debug;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use srd::Instant;

use super::Live;

/// A completion queue as the poll of another one sees it.
pub(crate) trait Sibling: Debug + Send + Sync {
    /// Drives the queue pairs for which `is_left` returns true, if this queue was not polled
    /// recently.
    fn help(&self, now: Instant, is_left: &dyn Fn(&dyn Live) -> bool);
}

/// The completion queues of a device. The list is replaced as a whole, so that readers hold no
/// lock.
#[derive(Debug, Default)]
pub(crate) struct Family(RwLock<Arc<[Weak<dyn Sibling>]>>);

impl Family {
    pub(crate) fn join(&self, cq: Weak<dyn Sibling>) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().cloned().chain([cq]).collect();
    }

    /// Removes the queues that are gone.
    pub(crate) fn leave(&self) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().filter(|cq| cq.strong_count() > 0).cloned().collect();
    }

    /// Locks the list.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.0.write().unwrap()
    }

    pub(crate) fn members(&self) -> Arc<[Weak<dyn Sibling>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
