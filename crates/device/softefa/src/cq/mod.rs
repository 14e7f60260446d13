//! Completion queues. Polling an empty queue takes a turn for its queue pairs. A program that
//! sleeps instead arms the queue, and the service thread drives them.

mod attached;
mod channel;
mod help;
mod ring;
mod times;

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};

use srd::Instant;

use crate::completion::{Completion, Unpolled};
use crate::counters::Counter;
use crate::device::Device;
use crate::generation::Generation;
use crate::host;
use crate::progress::{Live, Sibling};
use crate::service;
use crate::status::Status;

use attached::Attached;

pub use channel::{Channel, ChannelClosed};

use channel::Events;
use ring::Ring;

/// The reason why a completion queue cannot be created.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateCqError {
    /// The depth is zero, or more than the device allows.
    #[error("a completion queue of {depth} entries is not possible: 1 to {max}")]
    BadDepth {
        /// The depth that was asked for.
        depth: u32,
        /// The device's limit.
        max: u32,
    },
    /// All completion queues of the device are in use.
    #[error("all {max} completion queues of the device are in use; destroy some")]
    TooMany {
        /// The device's limit.
        max: u32,
    },
}

/// The reason why a completion queue cannot be resized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeCqError {
    /// The depth is zero, or more than the device allows.
    #[error("a completion queue of {depth} entries is not possible: 1 to {max}")]
    BadDepth {
        /// The depth that was asked for.
        depth: u32,
        /// The device's limit.
        max: u32,
    },
    /// The queue holds more completions than that.
    #[error("a completion queue of {depth} entries has no room for {entries}; poll it first")]
    Occupied {
        /// The depth that was asked for.
        depth: u32,
        /// The number of entries in it.
        entries: usize,
    },
}

/// The reason why a completion queue cannot be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ArmError {
    /// The queue was created without a channel.
    #[error("a completion queue without a completion channel cannot be armed")]
    NoChannel,
    /// No thread would drive the queue while the program sleeps: the operating system refused it,
    /// or this process was forked off the one that created the queue.
    #[error("there is no service thread to drive the queue; poll it instead")]
    NoService,
}

/// A completion queue.
#[derive(Debug)]
pub struct Cq {
    device: Arc<Device>,
    depth: AtomicU32,
    ring: Ring,
    attached: RwLock<Arc<Attached>>,
    events: Events,
    tag: AtomicU64,
    /// The next completion becomes an event. It is changed under the lock of the ring.
    is_armed: AtomicBool,
    /// The queue is armed for solicited completions and errors only.
    is_solicited_only: AtomicBool,
    last_armed_ns: AtomicU64,
    last_driven_ns: AtomicU64,
    last_helped_ns: AtomicU64,
    last_extra_poll_ns: AtomicU64,
    made: Generation,
}

/// For this long after a poll or an arming, the absence of the next one means nothing.
const PATIENCE_NS: u64 = 1_000_000;
/// A program that polls does so at least this often.
const POLLING_NS: u64 = 50_000;

impl Cq {
    /// Creates a queue of at least `depth` entries.
    ///
    /// # Errors
    /// [`CreateCqError`].
    pub fn create(device: &Arc<Device>, depth: u32) -> Result<Arc<Self>, CreateCqError> {
        Self::create_on(device, depth, None)
    }

    /// Creates a queue as [`Cq::create`] does, with a channel that wakes a sleeping program. Call
    /// [`Cq::retire_events`] before the queue is destroyed.
    ///
    /// # Errors
    /// [`CreateCqError`].
    pub fn create_on(
        device: &Arc<Device>,
        depth: u32,
        channel: Option<&Arc<Channel>>,
    ) -> Result<Arc<Self>, CreateCqError> {
        let created = Self::try_create(device, depth, channel.cloned());
        device.counters.command(created, Some(Counter::CreateCqErr))
    }

    fn try_create(
        device: &Arc<Device>,
        depth: u32,
        channel: Option<Arc<Channel>>,
    ) -> Result<Arc<Self>, CreateCqError> {
        let attr = device.attr();
        if depth == 0 || depth > attr.max_cqe {
            return Err(CreateCqError::BadDepth { depth, max: attr.max_cqe });
        }
        if device.live.cqs.fetch_add(1, Ordering::Relaxed) >= attr.max_cq {
            device.live.cqs.fetch_sub(1, Ordering::Relaxed);
            return Err(CreateCqError::TooMany { max: attr.max_cq });
        }
        let depth = depth.next_power_of_two();
        let cq = Arc::new(Self {
            device: Arc::clone(device),
            depth: AtomicU32::new(depth),
            ring: Ring::default(),
            attached: RwLock::default(),
            events: Events::new(channel),
            tag: AtomicU64::new(0),
            is_armed: AtomicBool::new(false),
            is_solicited_only: AtomicBool::new(false),
            last_armed_ns: AtomicU64::new(0),
            last_driven_ns: AtomicU64::new(0),
            last_helped_ns: AtomicU64::new(0),
            last_extra_poll_ns: AtomicU64::new(0),
            made: Generation::current(),
        });
        device.family.join(Arc::downgrade(&cq) as Weak<dyn Sibling>);
        Ok(cq)
    }

    /// Returns the number of entries, rounded up to a power of two as on the device.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Returns the number of completions that have not been polled.
    pub(crate) fn held(&self) -> usize {
        self.ring.len()
    }

    /// Resizes the queue to at least `depth` entries. No completion is lost.
    ///
    /// # Errors
    /// [`ResizeCqError`].
    pub fn resize(&self, depth: u32) -> Result<(), ResizeCqError> {
        let max = self.device.attr().max_cqe;
        if depth == 0 || depth > max {
            return Err(ResizeCqError::BadDepth { depth, max });
        }
        let entries = self.ring.len();
        if entries > depth as usize {
            return Err(ResizeCqError::Occupied { depth, entries });
        }
        self.depth.store(depth.next_power_of_two(), Ordering::Relaxed);
        Ok(())
    }

    /// Returns the device of the queue.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Returns true if queue pairs still use this queue. Destroy them first.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.made.is_current() && !self.attached().is_empty()
    }

    /// Hands up to `max` completions to `take`, oldest first, and returns how many. If there is
    /// none, takes one turn of the adapter first; call it again until it returns 0, and then
    /// whenever progress is wanted. `take` must not call back into this queue or post to its queue
    /// pairs. A process that was forked off the one that created the queue gets nothing. Where
    /// peers may write without a completion, the poll that finds the last completion may wait up to
    /// 15 us longer for the answer.
    pub fn poll(self: &Arc<Self>, max: usize, mut take: impl FnMut(&Completion)) -> usize {
        if !self.made.is_usable() {
            return 0;
        }
        let mut taken = self.ring.drain(max, &mut take);
        if taken == 0 && max > 0 {
            let now = self.drive();
            taken = self.ring.drain(max, &mut take);
            if taken == 0 {
                self.help_others(now);
            }
        }
        if taken > 0 {
            self.end_poll();
        }
        taken
    }

    /// Ends a series of [`Cq::poll_one`] and [`Cq::pop`]: if the queue is armed and completions are
    /// left, the event comes now. A program that armed the queue knows of completions that came
    /// before, and usually polls them all; one that stops earlier (SPDK does at the first error)
    /// would otherwise sleep beside them.
    #[inline]
    pub fn end_poll(self: &Arc<Self>) {
        if self.is_armed() {
            self.notify_of_rest();
        }
    }

    #[cold]
    fn notify_of_rest(self: &Arc<Self>) {
        let is_left = self.ring.hold(|entries| {
            let is_solicited_only = self.is_solicited_only();
            let is_left = self.is_armed() && entries.has(|it| !is_solicited_only || wakes(it));
            if is_left {
                self.ring.note_notified();
                self.is_armed.store(false, Ordering::SeqCst);
            }
            is_left
        });
        if is_left {
            self.notify_channel();
        }
    }

    /// Takes one completion without driving the adapter.
    pub fn pop(&self) -> Option<Completion> {
        // In a child the lock may be taken for ever, and what is behind it is the parent's.
        if self.made.is_usable() { self.ring.take_one() } else { None }
    }

    /// Takes one completion; takes one turn of the adapter first if there is none.
    pub fn poll_one(&self) -> Option<Completion> {
        if !self.made.is_usable() {
            return None;
        }
        let completion = self.ring.take_one();
        if completion.is_some() {
            return completion;
        }
        let now = self.drive();
        let completion = self.ring.take_one();
        if completion.is_none() {
            self.help_others(now);
        }
        completion
    }

    /// Requests one event on the channel for the next completion. If completions have come since
    /// the program's last poll, the event comes at once: hardware knows where a program stopped
    /// polling, and programs that do not poll after arming would otherwise sleep for ever.
    ///
    /// # Errors
    /// [`ArmError`].
    pub fn arm(self: &Arc<Self>) -> Result<(), ArmError> {
        self.arm_for(false)
    }

    /// Arms the queue as [`Cq::arm`] does, for solicited completions and errors only.
    ///
    /// # Errors
    /// [`ArmError`].
    pub fn arm_for_solicited(self: &Arc<Self>) -> Result<(), ArmError> {
        self.arm_for(true)
    }

    fn arm_for(self: &Arc<Self>, only_solicited: bool) -> Result<(), ArmError> {
        if self.events.channel().is_none() {
            return Err(ArmError::NoChannel);
        }
        if !self.made.is_usable() || !service::ensure_started() {
            return Err(ArmError::NoService);
        }
        self.last_armed_ns.store(host::now().as_ns(), Ordering::Relaxed);
        let is_there = self.ring.hold(|entries| {
            // Whoever waits for anything is not made to wait for less.
            let is_solicited_only =
                only_solicited && (self.is_solicited_only() || !self.is_armed());
            self.is_solicited_only.store(is_solicited_only, Ordering::Relaxed);
            // Whoever arms first and polls then knows of what it was told.
            let is_there =
                !self.ring.is_notified() && entries.has(|it| !is_solicited_only || wakes(it));
            if is_there {
                self.ring.note_notified();
            }
            self.is_armed.store(!is_there, Ordering::SeqCst);
            is_there
        });
        if is_there {
            self.notify_channel();
        }
        // The program goes to sleep: from now on the service thread waits on the sockets.
        let is_late = |qp: &Arc<dyn Live>| qp.end_light_sleep() || !qp.watch().due.is_watched();
        // All of them are told.
        if self.attached().iter().filter(|qp| is_late(qp)).count() > 0 {
            service::wake();
        }
        Ok(())
    }

    /// Sets a value by which the owner recognises the queue when an event names it.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Release);
    }

    /// Returns the tag.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// Acknowledges `count` events of this queue.
    pub fn acknowledge_events(&self, count: u32) {
        if self.made.is_current() {
            self.events.acknowledge(count);
        }
    }

    /// Ends the events: disarms the queue, removes the events that were not taken, and waits until
    /// the others are acknowledged.
    pub fn retire_events(&self) {
        if !self.made.is_current() {
            return;
        }
        self.ring.hold(|_| self.is_armed.store(false, Ordering::SeqCst));
        self.events.retire(self);
    }

    pub(crate) fn events(&self) -> &Events {
        &self.events
    }

    /// Returns true if the program sleeps until a completion, or did so a moment ago and will
    /// again.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        self.is_armed.load(Ordering::SeqCst) || is_fresh(&self.last_armed_ns, now)
    }

    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }

    fn is_solicited_only(&self) -> bool {
        self.is_solicited_only.load(Ordering::Relaxed)
    }

    /// Returns true if the program polled it a moment ago and will again.
    pub(crate) fn is_polled(&self, now: Instant) -> bool {
        is_fresh(&self.last_driven_ns, now)
    }

    /// Returns true if the program is polling it right now.
    pub(crate) fn is_being_polled(&self, now: Instant) -> bool {
        now.as_ns().saturating_sub(self.last_driven_ns.load(Ordering::Relaxed)) < POLLING_NS
    }

    /// Claims the extra poll of the poll that began at `now`; only one of many queue pairs gets it.
    pub(crate) fn claim_extra_poll(&self, now: Instant) -> bool {
        self.last_extra_poll_ns.swap(now.as_ns(), Ordering::Relaxed) != now.as_ns()
    }

    fn drive(&self) -> Instant {
        let now = host::now();
        self.last_driven_ns.store(now.as_ns(), Ordering::Relaxed);
        self.attached().turn(now, &self.device);
        now
    }

    fn attached(&self) -> Arc<Attached> {
        Arc::clone(&self.attached.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Registers a queue pair, and returns the number that marks its completions.
    pub(crate) fn register(&self, unpolled: &Arc<Unpolled>) -> u16 {
        self.ring.hold(|entries| entries.join(unpolled))
    }

    /// Makes polls drive `qp`.
    pub(crate) fn attach(&self, qp: &Arc<dyn Live>) {
        // Programs poll what they made.
        self.last_driven_ns.store(host::now().as_ns(), Ordering::Relaxed);
        let mut attached = self.attached.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Arc::new(attached.with(qp));
    }

    /// Forgets `qp` and its completions: a program must not see a destroyed queue pair.
    pub(crate) fn detach(&self, qp: &dyn Live, owner: u16) {
        self.stop_driving(qp);
        self.forget_owner(owner);
    }

    /// Makes polls leave `qp` alone.
    pub(crate) fn stop_driving(&self, qp: &dyn Live) {
        let mut attached = self.attached.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Arc::new(attached.without(qp));
    }

    /// Forgets an owner and its completions.
    pub(crate) fn forget_owner(&self, owner: u16) {
        self.ring.hold(|entries| {
            entries.purge(owner);
            entries.leave(owner);
        });
    }

    /// Returns true if a successful completion of queue pair `qpn` has not been polled.
    pub(crate) fn has_success_of(&self, qpn: u32) -> bool {
        let is_success = |it: &Completion| it.qpn == qpn && it.status == Status::Ok;
        self.ring.hold(|entries| entries.has(is_success))
    }

    /// Forgets the completions of `owner`, whose queue pair is reset.
    pub(crate) fn purge(&self, owner: u16) {
        self.ring.hold(|entries| entries.purge(owner));
    }

    /// Appends and empties all of `done`. Returns true if that disarmed the queue, so that its
    /// program must be woken ([`Cq::notify_channel`]).
    #[inline]
    #[must_use]
    pub(crate) fn push<const N: usize>(&self, done: [&mut Vec<Completion>; N]) -> bool {
        if done.iter().all(|done| done.is_empty()) {
            return false;
        }
        self.ring.hold(|entries| {
            let is_wanted =
                !self.is_solicited_only() || done.iter().any(|done| done.iter().any(wakes));
            for done in done {
                entries.take_in(done);
            }
            let is_armed = is_wanted && self.is_armed.load(Ordering::Relaxed);
            if is_armed {
                self.is_armed.store(false, Ordering::SeqCst);
                self.ring.note_notified();
            }
            is_armed
        })
    }

    /// Wakes the program that sleeps on the channel.
    #[cold]
    pub(crate) fn notify_channel(self: &Arc<Self>) {
        if let Some(channel) = self.events.channel() {
            channel.report(self);
        }
    }
}

/// Returns true for completions that wake programs that wait for solicited ones.
fn wakes(completion: &Completion) -> bool {
    completion.is_solicited || completion.status != Status::Ok
}

fn is_fresh(at_ns: &AtomicU64, now: Instant) -> bool {
    now.as_ns().saturating_sub(at_ns.load(Ordering::Relaxed)) < PATIENCE_NS
}

impl Drop for Cq {
    fn drop(&mut self) {
        // In a child the lock of the family may be taken for ever.
        if !self.made.is_current() {
            return;
        }
        self.device.live.cqs.fetch_sub(1, Ordering::Relaxed);
        self.device.family.leave();
    }
}
