//! Completion channels: how a completion queue wakes a program that sleeps.
//!
//! A program arms a queue ([`crate::Cq::arm`]), polls it once more and sleeps on the channel. The
//! next completion puts one event into the channel, and the queue is disarmed.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use super::Cq;
use crate::generation::Generation;
use crate::poll_set::EventFd;

/// Completion channel; serves any number of completion queues.
#[derive(Debug)]
pub struct Channel {
    /// Holds one for each queued event, so that programs can poll it.
    counter: EventFd,
    queue: Mutex<Queue>,
    made: Generation,
}

/// The channel was closed while somebody slept on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the completion channel was closed; nothing will arrive on it any more")]
pub struct ChannelClosed;

#[derive(Debug, Default)]
struct Queue {
    events: VecDeque<Weak<Cq>>,
    is_closed: bool,
}

impl Channel {
    /// A channel without events.
    ///
    /// # Errors
    /// The operating system has no file descriptor left.
    pub fn create() -> io::Result<Arc<Self>> {
        let (counter, made) = (EventFd::semaphore()?, Generation::current());
        Ok(Arc::new(Self { counter, queue: Mutex::default(), made }))
    }

    /// Readable while an event waits. A program may set `O_NONBLOCK` on it.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.counter.fd()
    }

    /// Takes the oldest event and says whose it is; give it back with [`Cq::acknowledge_events`].
    /// To be called after each read of eight bytes from [`Channel::fd`], which sleeps until there
    /// is one. `None` when it was withdrawn in between: read again.
    ///
    /// # Errors
    /// The channel was closed, or this process was forked off the one that made it.
    pub fn take_event(&self) -> Result<Option<Arc<Cq>>, ChannelClosed> {
        if !self.made.is_usable() {
            return Err(ChannelClosed);
        }
        let mut queue = self.lock();
        while let Some(event) = queue.events.pop_front() {
            if let Some(cq) = event.upgrade() {
                cq.events().take_one();
                return Ok(Some(cq));
            }
        }
        if queue.is_closed {
            // For the next one who sleeps here.
            self.counter.raise();
            return Err(ChannelClosed);
        }
        Ok(None)
    }

    /// Wakes everybody who sleeps on the channel, for good.
    pub fn close(&self) {
        // A child shares the counter with its parent.
        if !self.made.is_current() {
            return;
        }
        self.lock().is_closed = true;
        self.counter.raise();
    }

    /// Queues an event of `cq`, unless that was retired meanwhile.
    pub(crate) fn report(&self, cq: &Arc<Cq>) {
        let mut queue = self.lock();
        if cq.events().is_retired.load(Ordering::Relaxed) {
            return;
        }
        queue.events.push_back(Arc::downgrade(cq));
        drop(queue);
        self.counter.raise();
    }

    /// Removes the events of `cq` that nobody took; there will be no others.
    fn withdraw(&self, cq: &Cq) {
        let mut queue = self.lock();
        cq.events().is_retired.store(true, Ordering::Relaxed);
        let before = queue.events.len();
        queue.events.retain(|event| !std::ptr::eq(event.as_ptr(), cq));
        (queue.events.len()..before).for_each(|_| self.counter.try_take());
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a completion queue knows of its events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    channel: Option<Arc<Channel>>,
    /// Written under the lock of the channel.
    is_retired: AtomicBool,
    taken: Mutex<Taken>,
    acknowledged: Condvar,
}

#[derive(Debug, Default)]
struct Taken {
    /// Events that programs took and did not acknowledge.
    count: u32,
    /// Somebody waits for that: telling nobody would cost each event a system call.
    is_awaited: bool,
}

impl Events {
    pub(crate) fn new(channel: Option<Arc<Channel>>) -> Self {
        Self { channel, ..Self::default() }
    }

    pub(crate) fn channel(&self) -> Option<&Channel> {
        self.channel.as_deref()
    }

    fn take_one(&self) {
        self.taken().count += 1;
    }

    /// More than were taken is a mistake of the program and counts as all of them.
    pub(crate) fn acknowledge(&self, count: u32) {
        let mut taken = self.taken();
        taken.count = taken.count.saturating_sub(count);
        if taken.is_awaited {
            self.acknowledged.notify_all();
        }
    }

    /// Removes the events of `cq`, their owner, and waits until those taken were acknowledged.
    pub(crate) fn retire(&self, cq: &Cq) {
        let Some(channel) = &self.channel else { return };
        channel.withdraw(cq);
        let mut taken = self.taken();
        taken.is_awaited = true;
        while taken.count > 0 {
            taken = self.acknowledged.wait(taken).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
