//! Polling one completion queue also drives the other queues of its device.
//!
//! A program that polls a queue drives its queue pairs, so the service thread leaves them alone for
//! a tick. The program may then wait for something else: for a message to itself, for example, by
//! polling the sender's queue while the receiver must answer. A poll without a result therefore
//! sometimes drives the queues that are not polled.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use srd::Instant;

use super::Cq;
use crate::progress::{Live, Sibling};

/// The time after a poll for which a queue is left to its poller, and the interval at which other
/// queues are driven. It is as long as a few round trips, so that programs that poll several queues
/// in turn pay almost nothing.
const LEFT_NS: u64 = 20_000;

impl Cq {
    /// Drives other queues after a poll and a turn at `now` without a result.
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
        let own = self.attached();
        // Those of the service thread and of this queue are taken care of.
        let is_left = |qp: &dyn Live| !qp.watch().due.is_watched() && !own.contains(qp);
        for other in self.device.family.members().iter().filter_map(Weak::upgrade) {
            other.help(now, &is_left);
        }
    }
}

impl Sibling for Cq {
    fn help(&self, now: Instant, is_left: &dyn Fn(&dyn Live) -> bool) {
        let driven_ns = self.last_driven_ns.load(Ordering::Relaxed);
        if now.as_ns().saturating_sub(driven_ns) >= LEFT_NS {
            self.attached().turn_if_any(now, &self.device, is_left);
        }
    }
}
