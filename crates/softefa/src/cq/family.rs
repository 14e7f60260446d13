//! The completion queues of a device, and how polling one helps the others.
//!
//! A program that polls a queue drives its queue pairs, so the service thread leaves them alone for
//! a tick. It may then wait for something else: for a message to itself, say, by polling the queue of
//! the sender while the receiver must answer. Whoever polls in vain therefore looks now and then
//! after the queues that were left.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock, Weak};

use srd::Instant;

use super::Cq;
use crate::qp::Qp;
use crate::uncancelled::Uncancelled;

/// How long a queue is left to whoever polled it last, and how often others are looked after: as
/// long as a few round trips, so that it costs those who poll several queues in turn next to nothing.
const LEFT_NS: u64 = 20_000;

/// Completion queues of a device; replaced as a whole, so that who looks through them holds no lock.
#[derive(Debug, Default)]
pub(crate) struct Family(RwLock<Arc<[Weak<Cq>]>>);

impl Family {
    pub(super) fn join(&self, cq: &Arc<Cq>) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().cloned().chain([Arc::downgrade(cq)]).collect();
    }

    /// Forgets those that are gone.
    pub(super) fn leave(&self) {
        let mut members = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *members = members.iter().filter(|cq| cq.strong_count() > 0).cloned().collect();
    }

    /// Keeps others from it.
    #[cfg(test)]
    pub(crate) fn hold(&self) -> impl Drop + '_ {
        self.0.write().unwrap()
    }

    fn members(&self) -> Arc<[Weak<Cq>]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Cq {
    /// A poll at `now` found nothing, a turn included: others may need one.
    #[inline]
    pub(super) fn help_others(&self, now: Instant) {
        let is_alone = self.device.live.cqs.load(Ordering::Relaxed) <= 1;
        let helped_ns = self.last_helped_ns.load(Ordering::Relaxed);
        if !is_alone && now.as_ns().saturating_sub(helped_ns) >= LEFT_NS {
            self.last_helped_ns.store(now.as_ns(), Ordering::Relaxed);
            self.drive_others(now);
        }
    }

    #[cold]
    fn drive_others(&self, now: Instant) {
        let _uncancelled = Uncancelled::begin();
        let members = self.device.family.members();
        for other in members.iter().filter_map(Weak::upgrade) {
            let driven_ns = other.last_driven_ns.load(Ordering::Relaxed);
            if now.as_ns().saturating_sub(driven_ns) >= LEFT_NS {
                // Those of the service thread and of this queue are taken care of.
                let is_left = |qp: &Qp| !qp.driven().is_watched() && !qp.completes_into(self);
                other.attached().turn_if_any(now, is_left);
            }
        }
    }
}
