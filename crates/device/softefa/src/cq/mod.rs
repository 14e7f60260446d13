//! Completion queues. Polling an empty one runs a turn for its queue pairs: the caller drives.
//! A program that sleeps instead arms the queue, and the service thread drives.

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

/// The reason why a completion queue cannot be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CreateCqError {
    /// No entries, or more than the device has.
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

/// The reason why a completion queue keeps its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ResizeCqError {
    /// No entries, or more than the device has.
    #[error("a completion queue of {depth} entries is not possible: 1 to {max}")]
    BadDepth {
        /// The depth that was asked for.
        depth: u32,
        /// The device's limit.
        max: u32,
    },
    /// There are more completions in it.
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
    /// It was made without a channel.
    #[error("a completion queue without a completion channel cannot be armed")]
    NoChannel,
    /// Nobody would drive it while the program sleeps: the operating system refused the thread, or
    /// this process was forked off the one that made the queue.
    #[error("there is no service thread to drive the queue; poll it instead")]
    NoService,
}

/// Completion queue.
#[derive(Debug)]
pub struct Cq {
    device: Arc<Device>,
    depth: AtomicU32,
    ring: Ring,
    attached: RwLock<Arc<Attached>>,
    events: Events,
    tag: AtomicU64,
    /// The next completion becomes an event. Changed under the lock of the ring.
    is_armed: AtomicBool,
    /// Armed for solicited completions and errors only.
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
    /// A queue of at least `depth` entries.
    ///
    /// # Errors
    /// [`CreateCqError`].
    pub fn create(device: &Arc<Device>, depth: u32) -> Result<Arc<Self>, CreateCqError> {
        Self::create_on(device, depth, None)
    }

    /// Creates a queue as [`Cq::create`] does, with a channel that tells of completions while the
    /// program sleeps. Call [`Cq::retire_events`] before the queue goes.
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

    /// Entries, rounded up to a power of two as the device does.
    #[must_use]
    pub fn depth(&self) -> u32 {
        self.depth.load(Ordering::Relaxed)
    }

    /// Completions that nobody has polled yet.
    pub(crate) fn held(&self) -> usize {
        self.ring.len()
    }

    /// Makes it a queue of at least `depth` entries; of those that are there none is lost.
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

    /// The device it belongs to.
    #[must_use]
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// Queue pairs still using this queue; destroy them first.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.made.is_current() && !self.attached().is_empty()
    }

    /// Hands up to `max` finished work requests to `take`, oldest first, and returns how many. When
    /// none is there, runs one turn of the adapter first; call it again until it returns 0 and
    /// then whenever progress is wanted. `take` must not call back into this queue or post to its
    /// queue pairs. A process that was forked off the one that made the queue gets nothing. Where
    /// peers write what the program does not poll for, the poll that finds the last completion may
    /// look on for the answer for 15 us.
    pub fn poll(&self, max: usize, mut take: impl FnMut(&Completion)) -> usize {
        if !self.made.is_usable() {
            return 0;
        }
        let taken = self.ring.drain(max, &mut take);
        if taken > 0 || max == 0 {
            return taken;
        }
        let now = self.drive();
        let taken = self.ring.drain(max, &mut take);
        if taken == 0 {
            self.help_others(now);
        }
        taken
    }

    /// Takes one finished work request without running the adapter.
    pub fn pop(&self) -> Option<Completion> {
        // In a child the lock may be taken for ever, and what is behind it is the parent's.
        if self.made.is_usable() { self.ring.take_one() } else { None }
    }

    /// Takes one finished work request; runs one turn of the adapter first when none is there.
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

    /// Asks for one event on the channel when the next completion comes. There is one at once if
    /// completions are there that came after the program has polled: adapters are told where it
    /// stopped, and programs that do not poll after arming would sleep for ever.
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

    /// Whatever the owner of the queue wants to find again when an event names it.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Release);
    }

    /// The tag as it was set.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// The program is done with `count` events of this queue.
    pub fn acknowledge_events(&self, count: u32) {
        if self.made.is_current() {
            self.events.acknowledge(count);
        }
    }

    /// No more events: disarms the queue, removes the events nobody took, and waits until those
    /// that were taken are acknowledged.
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

    /// The program sleeps until a completion comes, or did so just now and will again.
    pub(crate) fn is_awaited(&self, now: Instant) -> bool {
        self.is_armed.load(Ordering::SeqCst) || is_fresh(&self.last_armed_ns, now)
    }

    fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Relaxed)
    }

    fn is_solicited_only(&self) -> bool {
        self.is_solicited_only.load(Ordering::Relaxed)
    }

    /// The program polled it just now and will again.
    pub(crate) fn is_polled(&self, now: Instant) -> bool {
        is_fresh(&self.last_driven_ns, now)
    }

    /// The program is polling it this very moment.
    pub(crate) fn is_being_polled(&self, now: Instant) -> bool {
        now.as_ns().saturating_sub(self.last_driven_ns.load(Ordering::Relaxed)) < POLLING_NS
    }

    /// Whether the poll that began at `now` may look on: one queue pair of many does so.
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

    /// Registers a queue pair; the number marks its completions.
    pub(crate) fn register(&self, unpolled: &Arc<Unpolled>) -> u16 {
        self.ring.hold(|entries| entries.join(unpolled))
    }

    /// Lets polling drive `qp` from now on.
    pub(crate) fn attach(&self, qp: &Arc<dyn Live>) {
        // Programs poll what they made.
        self.last_driven_ns.store(host::now().as_ns(), Ordering::Relaxed);
        let mut attached = self.attached.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Arc::new(attached.with(qp));
    }

    /// Forgets `qp` and the completions it left: a program must not see a destroyed queue pair.
    pub(crate) fn detach(&self, qp: &dyn Live, owner: u16) {
        self.stop_driving(qp);
        self.forget_owner(owner);
    }

    /// Keeps polling from driving `qp` from now on.
    pub(crate) fn stop_driving(&self, qp: &dyn Live) {
        let mut attached = self.attached.write().unwrap_or_else(PoisonError::into_inner);
        *attached = Arc::new(attached.without(qp));
    }

    /// Forgets the completions of `owner`, which goes.
    pub(crate) fn forget_owner(&self, owner: u16) {
        self.ring.hold(|entries| {
            entries.purge(owner);
            entries.leave(owner);
        });
    }

    /// Something that queue pair `qpn` has done is still to be polled.
    pub(crate) fn has_success_of(&self, qpn: u32) -> bool {
        let is_success = |it: &Completion| it.qpn == qpn && it.status == Status::Ok;
        self.ring.hold(|entries| entries.has(is_success))
    }

    /// Forgets the completions of `owner`: its queue pair starts afresh.
    pub(crate) fn purge(&self, owner: u16) {
        self.ring.hold(|entries| entries.purge(owner));
    }

    /// Appends and empties all of `done`; whether that disarmed the queue, so that its program must
    /// be told ([`Cq::notify_channel`]).
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

/// Programs that wait for solicited completions are told of it.
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
