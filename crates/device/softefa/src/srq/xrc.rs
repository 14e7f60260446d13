//! Shared receive queues of XRC: they belong to a domain, whose targets take their receives as
//! peers name them, and have a completion queue of their own.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use super::{Srq, SrqAttr, SrqError, limits};
use crate::async_event::EventSource;
use crate::completion::Completion;
use crate::pd::Pd;

/// The completion queue in which the receives of a queue complete.
pub(crate) trait Outlet: Debug + Send + Sync {
    /// Returns the mark of its completions there.
    fn owner(&self) -> u16;

    /// Appends and empties `done`; whether the program sleeps and must be told.
    fn complete(&self, done: &mut Vec<Completion>) -> bool;

    /// Wakes the program that sleeps.
    fn notify_channel(&self);

    /// The queue goes: its completions are forgotten.
    fn leave(&self);
}

/// The queues of a domain, by number.
#[derive(Debug, Default)]
pub(crate) struct XrcQueues(Mutex<BTreeMap<u32, Weak<Srq>>>);

impl XrcQueues {
    /// The queue with this number; dead when there is none.
    pub(crate) fn find(&self, number: u32) -> Weak<Srq> {
        self.lock().get(&number).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u32, Weak<Srq>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part that only a queue of XRC has.
#[derive(Debug)]
pub(super) struct InDomain {
    queues: Arc<XrcQueues>,
    outlet: Arc<dyn Outlet>,
}

impl InDomain {
    /// The queue with this number goes.
    pub(super) fn leave(&self, number: u32) {
        self.queues.lock().remove(&number);
        self.outlet.leave();
    }
}

impl Srq {
    /// A queue of XRC for the targets that know `queues`; its receives complete in `outlet`.
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

    /// It can be named by peers, and no queue pair is made with it.
    #[must_use]
    pub fn is_xrc(&self) -> bool {
        self.domain.is_some()
    }

    /// Returns the mark of its completions; only of a queue of XRC.
    pub(crate) fn owner(&self) -> u16 {
        self.domain.as_ref().map_or(u16::MAX, |domain| domain.outlet.owner())
    }

    /// Completes receives of it, and empties `done`; whether the program sleeps and must be told.
    pub(crate) fn complete(&self, done: &mut Vec<Completion>) -> bool {
        // Held, so that who destroys the queue leaves none behind.
        let usable = self.usable();
        let is_awaited = match (&usable, &self.domain) {
            (Some(_), Some(domain)) => domain.outlet.complete(done),
            _ => false,
        };
        drop(usable);
        done.clear();
        is_awaited
    }

    /// Wakes the program that sleeps.
    pub(crate) fn notify_sleepers(&self) {
        if let Some(domain) = &self.domain {
            domain.outlet.notify_channel();
        }
    }
}
