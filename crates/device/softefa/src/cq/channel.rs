//! Completion channels: how a completion queue wakes a program that sleeps.
//!
//! A program arms a queue ([`crate::Cq::arm`]), polls it once more and sleeps on the channel. The
//! next completion puts one event into the channel and disarms the queue; so does a completion that
//! has come since the program's last poll.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use super::Cq;
use crate::event_queue::{EventQueue, Gone, Next, Unacknowledged};

/// A completion channel, which serves any number of completion queues.
#[derive(Debug)]
pub struct Channel(EventQueue<Weak<Cq>>);

/// The channel was closed, and sleeping threads must wake.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the completion channel was closed; nothing will arrive on it any more")]
pub struct ChannelClosed;

impl Channel {
    /// Makes a channel without events.
    ///
    /// # Errors
    /// The operating system has no file descriptor left.
    pub fn create() -> io::Result<Arc<Self>> {
        EventQueue::create().map(|queue| Arc::new(Self(queue)))
    }

    /// Returns the descriptor that is readable while an event waits. A program may set `O_NONBLOCK`
    /// on it.
    #[must_use]
    pub fn fd(&self) -> RawFd {
        self.0.fd()
    }

    /// Takes the oldest event and returns its queue; acknowledge it with
    /// [`Cq::acknowledge_events`]. Call it after each read of eight bytes from [`Channel::fd`],
    /// which sleeps until there is an event. `None` means that the event was withdrawn in between:
    /// read again.
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

    /// Closes the channel, and wakes every thread that sleeps on it.
    pub fn close(&self) {
        self.0.close();
    }

    /// Queues an event of `cq`, unless its events were retired meanwhile.
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

    /// More acknowledgements than events are a mistake of the program and count as all events.
    pub(crate) fn acknowledge(&self, count: u32) {
        self.unacknowledged.acknowledge(count);
    }

    /// Removes the events of `cq`, and waits until those that were taken are acknowledged.
    pub(crate) fn retire(&self, cq: &Cq) {
        let Some(Channel(queue)) = self.channel.as_deref() else { return };
        let stop = || self.is_retired.store(true, Ordering::Relaxed);
        queue.withdraw(stop, |event| std::ptr::eq(event.as_ptr(), cq));
        self.unacknowledged.wait();
    }
}
