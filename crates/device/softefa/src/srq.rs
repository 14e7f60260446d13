//! Shared receive queues: receives for many queue pairs, each of which takes one when it needs it.
//!
//! The queue has a lock of its own, held for a push or a pop, so that a queue pair takes a receive
//! under its own lock, and a program posts without the lock of a queue pair.

mod xrc;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::async_event::{AsyncEventKind, EventSource};
use crate::generation::Generation;
use crate::limits::RoceAttr;
use crate::mr::Sge;
use crate::pd::Pd;
use crate::rq::{self, NoReceive, RecvWqe};

use xrc::InDomain;

pub(crate) use xrc::{Outlet, XrcQueues};

/// Number of bits of the number of a shared receive queue, as on the wire.
const NUMBER_BITS: u32 = 24;

/// The attributes of a queue, requested or actual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SrqAttr {
    /// The number of receives that the queue holds.
    pub max_wr: u32,
    /// The number of scatter-gather entries of a receive.
    pub max_sge: u32,
    /// The number of receives below which there is one event, [`AsyncEventKind::SrqLimitReached`],
    /// after which the limit is 0 again; 0 = no limit.
    pub limit: u32,
}

/// A change of a queue; an attribute that is `None` stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ModifySrq {
    /// The number of receives that the queue holds.
    pub max_wr: Option<u32>,
    /// The number of receives below which there is an event.
    pub limit: Option<u32>,
}

/// The reason why a queue cannot be made or changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SrqError {
    /// An EFA has no shared receive queues.
    #[error("the device has no shared receive queues")]
    Unsupported,
    /// The queue would hold no receives, or more than the device permits.
    #[error("a shared receive queue of {max_wr} receives is not possible: 1 to {max}")]
    BadDepth {
        /// The value that was asked for.
        max_wr: u32,
        /// The device's limit.
        max: u32,
    },
    /// There are more entries than the device permits.
    #[error("{max_sge} scatter-gather entries are more than the {max} of a shared receive")]
    TooManySges {
        /// The value that was asked for.
        max_sge: u32,
        /// The device's limit.
        max: u32,
    },
    /// All queues of the device are in use.
    #[error("all {max} shared receive queues of the device are in use; destroy some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
    /// The limit is higher than the number of receives that the queue holds.
    #[error("limit {limit} of a shared receive queue of {max_wr} receives")]
    BadLimit {
        /// The requested limit, or the present one.
        limit: u32,
        /// The number of receives that the queue would hold.
        max_wr: u32,
    },
    /// Protection domain, XRC domain and completion queue are not of one device.
    #[error("the protection domain or completion queue is that of another device")]
    OtherDevice,
    /// The queue has more receives than it would hold.
    #[error("a shared receive queue of {max_wr} receives has no room for {posted}")]
    Occupied {
        /// The value that was asked for.
        max_wr: u32,
        /// The number of receives in it.
        posted: usize,
    },
    /// The queue is destroyed, or belongs to another process.
    #[error("the shared receive queue is destroyed")]
    Destroyed,
}

/// The reason why a receive cannot be posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PostSrqError {
    /// The queue holds as many receives as it can.
    #[error("the shared receive queue is full")]
    Full,
    /// There are more entries than the queue permits.
    #[error("{0} scatter-gather entries are more than the queue takes")]
    TooManySges(usize),
    /// The queue is destroyed, or belongs to another process.
    #[error("the shared receive queue is destroyed")]
    Destroyed,
}

/// A shared receive queue.
#[derive(Debug)]
pub struct Srq {
    pd: Arc<Pd>,
    number: u32,
    max_sge: u32,
    queue: Mutex<Queue>,
    events: Option<Arc<EventSource>>,
    /// The domain of a queue of XRC.
    domain: Option<InDomain>,
    destroyed: AtomicBool,
    made: Generation,
}

#[derive(Debug)]
struct Queue {
    posted: VecDeque<RecvWqe>,
    max_wr: u32,
    limit: u32,
}

impl Queue {
    /// Returns true, once, if the queue has just fallen below its limit.
    fn is_low(&mut self) -> bool {
        let is_low = self.posted.len() < self.limit as usize;
        if is_low {
            self.limit = 0;
        }
        is_low
    }
}

impl Srq {
    /// Makes a queue for the queue pairs of `pd`; the limit in `attr` is ignored. Its events are
    /// reported to `events`.
    ///
    /// # Errors
    /// [`SrqError`].
    pub fn create(
        pd: &Arc<Pd>,
        attr: &SrqAttr,
        events: Option<Arc<EventSource>>,
    ) -> Result<Arc<Self>, SrqError> {
        // An EFA has no such command, and so does not count it.
        let roce = limits(pd)?;
        pd.device().counters().command(Self::try_create(pd, &roce, attr, events, None), None)
    }

    fn try_create(
        pd: &Arc<Pd>,
        roce: &RoceAttr,
        &SrqAttr { max_wr, max_sge, .. }: &SrqAttr,
        events: Option<Arc<EventSource>>,
        domain: Option<InDomain>,
    ) -> Result<Arc<Self>, SrqError> {
        check_depth(max_wr, roce)?;
        let max = u32::from(roce.max_srq_sge);
        if max_sge > max {
            return Err(SrqError::TooManySges { max_sge, max });
        }
        let live = &pd.device().live.srqs;
        if live.fetch_add(1, Ordering::Relaxed) >= roce.max_srq {
            live.fetch_sub(1, Ordering::Relaxed);
            return Err(SrqError::TooMany { max: roce.max_srq });
        }
        Ok(Arc::new(Self {
            pd: Arc::clone(pd),
            number: next_number(),
            max_sge: max_sge.max(1),
            queue: Mutex::new(Queue { posted: VecDeque::new(), max_wr, limit: 0 }),
            events,
            domain,
            destroyed: AtomicBool::new(false),
            made: Generation::current(),
        }))
    }

    /// Returns the number of the queue.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the protection domain of the queue.
    #[must_use]
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Changes size and limit, both or neither. A limit above the number of receives is reported at
    /// once.
    ///
    /// # Errors
    /// [`SrqError`].
    pub fn modify(&self, change: &ModifySrq) -> Result<(), SrqError> {
        let is_low = self.pd.device().counters().command(self.try_modify(change), None)?;
        self.report_limit(is_low);
        Ok(())
    }

    fn try_modify(&self, change: &ModifySrq) -> Result<bool, SrqError> {
        let roce = limits(&self.pd)?;
        let mut queue = self.usable().ok_or(SrqError::Destroyed)?;
        let max_wr = change.max_wr.unwrap_or(queue.max_wr);
        let limit = change.limit.unwrap_or(queue.limit);
        check_depth(max_wr, &roce)?;
        if limit > max_wr {
            return Err(SrqError::BadLimit { limit, max_wr });
        }
        let posted = queue.posted.len();
        if posted > max_wr as usize {
            return Err(SrqError::Occupied { max_wr, posted });
        }
        (queue.max_wr, queue.limit) = (max_wr, limit);
        Ok(queue.is_low())
    }

    /// Returns the attributes that the queue has now.
    #[must_use]
    pub fn query(&self) -> SrqAttr {
        let (max_wr, limit) = self.usable().map_or((0, 0), |queue| (queue.max_wr, queue.limit));
        SrqAttr { max_wr, max_sge: self.max_sge, limit }
    }

    /// Posts a receive for the next queue pair that needs one.
    ///
    /// # Errors
    /// [`PostSrqError`]; nothing was posted.
    pub fn post_recv(&self, wr_id: u64, sges: &[Sge]) -> Result<(), PostSrqError> {
        if sges.len() > self.max_sge as usize || sges.len() > rq::SGE_MAX {
            return Err(PostSrqError::TooManySges(sges.len()));
        }
        let mrs = &self.pd.device().mrs;
        let wqe = if mrs.has_other_names() {
            RecvWqe::new(wr_id, &mrs.placed(sges))
        } else {
            RecvWqe::new(wr_id, sges)
        };
        let mut queue = self.usable().ok_or(PostSrqError::Destroyed)?;
        if queue.posted.len() >= queue.max_wr as usize {
            return Err(PostSrqError::Full);
        }
        queue.posted.push_back(wqe);
        Ok(())
    }

    /// Takes the next receive for a queue pair; `None` if there is none, or the queue is destroyed.
    pub(crate) fn take(&self) -> Option<RecvWqe> {
        let mut queue = self.usable()?;
        let wqe = queue.posted.pop_front()?;
        let is_low = queue.is_low();
        drop(queue);
        self.report_limit(is_low);
        Some(wqe)
    }

    /// Takes a receive as [`Srq::take`] does, for a message of `len` bytes. A receive that is too
    /// short remains the next one, for another queue pair that can use it, and no limit is
    /// reported.
    pub(crate) fn take_for(&self, len: usize) -> Result<RecvWqe, NoReceive> {
        let mut queue = self.usable().ok_or(NoReceive::NotPosted)?;
        NoReceive::check(queue.posted.front(), len)?;
        let wqe = queue.posted.pop_front().ok_or(NoReceive::NotPosted)?;
        let is_low = queue.is_low();
        drop(queue);
        self.report_limit(is_low);
        Ok(wqe)
    }

    /// Returns true if the queue is not destroyed.
    pub(crate) fn is_live(&self) -> bool {
        !self.destroyed.load(Ordering::Acquire)
    }

    /// Returns the number of receives that a queue pair could take.
    pub(crate) fn len(&self) -> usize {
        self.usable().map_or(0, |queue| queue.posted.len())
    }

    /// Ends the queue: its receives are forgotten, and it has no more events. Waits until the
    /// events that the program took are acknowledged. Idempotent.
    pub fn destroy(&self) {
        if !self.made.is_current() || self.destroyed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.lock().posted.clear();
        self.pd.device().live.srqs.fetch_sub(1, Ordering::Relaxed);
        if let Some(domain) = &self.domain {
            domain.leave(self.number);
        }
        if let Some(events) = &self.events {
            events.retire();
        }
    }

    fn report_limit(&self, is_low: bool) {
        if let Some(events) = self.events.as_ref().filter(|_| is_low) {
            events.report(AsyncEventKind::SrqLimitReached);
        }
    }

    /// Locks the queue unless it is destroyed or belongs to a parent: in a child the lock may be
    /// taken for ever, and the queue behind it is the parent's.
    fn usable(&self) -> Option<MutexGuard<'_, Queue>> {
        let queue = self.made.is_usable().then(|| self.lock());
        // The flag is read under the lock, which `destroy` takes after setting it, so that nothing
        // is posted afterwards.
        queue.filter(|_| !self.destroyed.load(Ordering::Acquire))
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Srq {
    fn drop(&mut self) {
        self.destroy();
    }
}

fn limits(pd: &Pd) -> Result<RoceAttr, SrqError> {
    pd.device().attr().roce.ok_or(SrqError::Unsupported)
}

fn check_depth(max_wr: u32, roce: &RoceAttr) -> Result<(), SrqError> {
    let max = roce.max_srq_wr;
    if (1..=max).contains(&max_wr) { Ok(()) } else { Err(SrqError::BadDepth { max_wr, max }) }
}

/// Returns a number that no living queue has, unless 16 million were made since.
fn next_number() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    const MAX: u32 = (1 << NUMBER_BITS) - 1;
    LAST.fetch_add(1, Ordering::Relaxed) % MAX + 1
}

#[cfg(test)]
mod tests;
