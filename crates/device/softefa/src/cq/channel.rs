//! Completion channels: how a completion queue wakes a program that sleeps.
//!
//! A program arms a queue ([`crate::Cq::arm`]), polls it once more and sleeps on the channel. The
//! next completion puts one event into the channel, and the queue is disarmed. So does one that
//! has come since the program polled last.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::Cq;
use crate::event_queue::{EventQueue, Gone, Next, Unacknowledged};

/// Completion channel; serves any number of completion queues.
#[derive(Debug)]
pub struct Channel(EventQueue<Weak<Cq>>);

/// The channel was closed while somebody slept on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the completion channel was closed; nothing will arrive on it any more")]
pub struct ChannelClosed;

impl Channel {
    /// A channel without events.
    ///
    /// # Errors
    /// The operating system has no file descriptor left.
    pub fn create() -> io::Result<Arc<Self>> {
        EventQueue::create().map(|queue| Arc::new(Self(queue)))
    }

    /// Readable while an event waits. A program may set `O_NONBLOCK` on it.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0.fd()
    }

    /// Takes the oldest event and says whose it is; give it back with [`Cq::acknowledge_events`].
    /// To be called after each read of eight bytes from [`Channel::fd`], which sleeps until there
    /// is one. `None` when it was withdrawn in between: read again.
    ///
    /// # Errors
    /// The channel was closed, or this process was forked off the one that made it.
    pub fn take_event(&self) -> Result<Option<Arc<Cq>>, ChannelClosed> {
        let next = self.0.take(|event| {
            let cq = event.upgrade()?;
            cq.events().unacknowledged.add();
            Some(cq)
        });
        match next {
            Ok(Next::Event(cq)) => Ok(Some(cq)),
            Ok(Next::Withdrawn | Next::Nothing) => Ok(None),
            Err(Gone) => Err(ChannelClosed),
        }
    }

    /// Wakes everybody who sleeps on the channel, for good.
    pub fn close(&self) {
        self.0.close();
    }

    /// Queues an event of `cq`, unless that was retired meanwhile.
    pub(crate) fn report(&self, cq: &Arc<Cq>) {
        let is_wanted = || !cq.events().is_retired.load(Ordering::Relaxed);
        self.0.push(Arc::downgrade(cq), is_wanted);
    }
}

/// The events of a completion queue.
#[derive(Debug, Default)]
pub(crate) struct Events {
    channel: Option<Arc<Channel>>,
    /// Written under the lock of the channel.
    is_retired: AtomicBool,
    unacknowledged: Unacknowledged,
}

impl Events {
    pub(crate) fn new(channel: Option<Arc<Channel>>) -> Self {
        Self { channel, ..Self::default() }
    }

    pub(crate) fn channel(&self) -> Option<&Channel> {
        self.channel.as_deref()
    }

    /// More than were taken is a mistake of the program and counts as all of them.
    pub(crate) fn acknowledge(&self, count: u32) {
        self.unacknowledged.acknowledge(count);
    }

    /// Removes the events of `cq`, their owner, and waits until those taken were acknowledged.
    pub(crate) fn retire(&self, cq: &Cq) {
        let Some(Channel(queue)) = self.channel.as_deref() else { return };
        let stop = || self.is_retired.store(true, Ordering::Relaxed);
        queue.withdraw(stop, |event| std::ptr::eq(event.as_ptr(), cq));
        self.unacknowledged.wait();
    }
}
