//! Shared receive queues of XRC. They belong to a domain, whose targets take receives from the
//! queue that the peer names, and have a completion queue of their own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Srq, SrqAttr, SrqError, limits};
use crate::async_event::EventSource;
use crate::completion::Completion;
use crate::pd::Pd;

/// The completion queue in which the receives of a queue complete.
pub(crate) trait Outlet: Debug + Send + Sync {
    /// Returns the mark of the queue's completions there.
    fn owner(&self) -> u16;

    /// Appends the completions in `done` and empties it; returns true if the program sleeps and
    /// must be woken.
    fn complete(&self, done: &mut Vec<Completion>) -> bool;

    /// Wakes the program if it sleeps.
    fn notify_channel(&self);

    /// Forgets the completions of a queue that ends.
    fn leave(&self);
}

/// The queues of a domain, by number.
#[derive(Debug, Default)]
pub(crate) struct XrcQueues(Mutex<BTreeMap<u32, Weak<Srq>>>);

impl XrcQueues {
    /// Returns the queue with this number; the reference is dead if there is none.
    pub(crate) fn find(&self, number: u32) -> Weak<Srq> {
        self.lock().get(&number).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<Srq>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The state that only a queue of XRC has.
#[derive(Debug)]
pub(super) struct InDomain {
    queues: Arc<XrcQueues>,
    outlet: Arc<dyn Outlet>,
}

impl InDomain {
    /// Removes the queue with this number.
    pub(super) fn leave(&self, number: u32) {
        self.queues.lock().remove(&number);
        self.outlet.leave();
    }
}

impl Srq {
    /// Makes a queue of XRC for the targets that know `queues`; its receives complete in `outlet`.
    pub(crate) fn create_in(
        queues: &Arc<XrcQueues>,
        pd: &Arc<Pd>,
        attr: &SrqAttr,
        outlet: Arc<dyn Outlet>,
        events: Option<Arc<EventSource>>,
    ) -> Result<Arc<Self>, SrqError> {
        let domain = InDomain { queues: Arc::clone(queues), outlet };
        let srq = Self::try_create(pd, &limits(pd)?, attr, events, Some(domain))?;
        queues.lock().insert(srq.number, Arc::downgrade(&srq));
        Ok(srq)
    }

    /// Returns true if the queue is one of XRC: peers can name it, and no queue pair is made with
    /// it.
    #[must_use]
    pub fn is_xrc(&self) -> bool {
        self.domain.is_some()
    }

    /// Returns the mark of the queue's completions, which only a queue of XRC has.
    pub(crate) fn owner(&self) -> u16 {
        self.domain.as_ref().map_or(u16::MAX, |domain| domain.outlet.owner())
    }

    /// Completes receives of the queue, and empties `done`; returns true if the program sleeps and
    /// must be woken.
    pub(crate) fn complete(&self, done: &mut Vec<Completion>) -> bool {
        // The lock is held so that a thread that destroys the queue leaves no completions behind.
        let usable = self.usable();
        let is_awaited = match (&usable, &self.domain) {
            (Some(_), Some(domain)) => domain.outlet.complete(done),
            _ => false,
        };
        drop(usable);
        done.clear();
        is_awaited
    }

    /// Wakes the program if it sleeps.
    pub(crate) fn notify_sleepers(&self) {
        if let Some(domain) = &self.domain {
            domain.outlet.notify_channel();
        }
    }
}
