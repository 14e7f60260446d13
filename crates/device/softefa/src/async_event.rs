//! Asynchronous events: what happens to objects of a program beside its work requests.
//!
//! A context has one queue ([`AsyncEvents`]). An object that can have events has a source
//! ([`EventSource`]), made for the queue of its context; whoever notices that something has
//! happened reports it there, with any lock held but the queue's.

use std::io;
use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use crate::event_queue::{EventQueue, Gone, Next, Unacknowledged};
use crate::generation::Generation;

/// The kind of an asynchronous event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AsyncEventKind {
    /// A completion queue has overrun.
    CqError,
    /// A queue pair failed by a mistake of the adapter.
    QpFatal,
    /// The device failed by a mistake of the adapter, with all of its queue pairs.
    DeviceFatal,
    /// A peer asked a queue pair for something that is not possible.
    QpRequestError,
    /// A peer asked a queue pair for memory that it may not use.
    QpAccessError,
    /// A packet came to a queue pair that was ready to receive only.
    CommunicationEstablished,
    /// The send queue of a queue pair has finished what was under way.
    SqDrained,
    /// A queue pair in the error state takes no more receives of its shared queue.
    QpLastWqeReached,
    /// A shared receive queue has fewer receives than its limit.
    SrqLimitReached,
    /// A shared receive queue failed.
    SrqError,
}

/// The events of a context.
#[derive(Debug)]
pub struct AsyncEvents(EventQueue<Waiting>);

#[derive(Debug)]
struct Waiting {
    kind: AsyncEventKind,
    source: Weak<EventSource>,
}

/// An event that a program took; it is to be acknowledged ([`EventSource::acknowledge`]).
#[derive(Debug)]
pub struct AsyncEvent {
    /// The kind of an asynchronous event.
    pub kind: AsyncEventKind,
    /// The object to which it happened.
    pub source: Arc<EventSource>,
}

impl AsyncEvents {
    /// A queue without events.
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

    /// Takes the oldest event. To be called after each read of eight bytes from
    /// [`AsyncEvents::fd`], which sleeps until there is one. `Ok(None)` when the event was
    /// withdrawn in between: read again. Somebody else's write to the descriptor is an error of its
    /// own.
    ///
    /// # Errors
    /// [`TakeEventError`].
    pub fn take(&self) -> Result<Option<AsyncEvent>, TakeEventError> {
        let next = self.0.take(|Waiting { kind, source }| {
            let source = source.upgrade()?;
            source.unacknowledged.add();
            Some(AsyncEvent { kind, source })
        });
        match next {
            Ok(Next::Event(event)) => Ok(Some(event)),
            Ok(Next::Withdrawn) => Ok(None),
            Ok(Next::Nothing) => Err(TakeEventError::Nothing),
            Err(Gone) => Err(TakeEventError::Inherited),
        }
    }
}

/// The reason why no event can be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TakeEventError {
    /// The program has written to the descriptor, perhaps to wake its own thread.
    #[error("no event waits; something else was written to the descriptor")]
    Nothing,
    /// The context is that of the process that this one was forked off.
    #[error("the device was opened by another process; open it anew in this one")]
    Inherited,
}

/// An object that can have events, for the queue of its context.
#[derive(Debug)]
pub struct EventSource {
    events: Arc<AsyncEvents>,
    tag: AtomicU64,
    /// Written under the lock of the queue.
    is_retired: AtomicBool,
    unacknowledged: Unacknowledged,
    made: Generation,
}

impl EventSource {
    /// The source of a new object.
    #[must_use]
    pub fn new(events: &Arc<AsyncEvents>) -> Arc<Self> {
        Arc::new(Self {
            events: Arc::clone(events),
            tag: AtomicU64::new(0),
            is_retired: AtomicBool::new(false),
            unacknowledged: Unacknowledged::default(),
            made: Generation::current(),
        })
    }

    /// Whatever the owner of the object wants to find again when an event names it.
    pub fn set_tag(&self, tag: u64) {
        self.tag.store(tag, Ordering::Release);
    }

    /// The tag as it was set.
    #[must_use]
    pub fn tag(&self) -> u64 {
        self.tag.load(Ordering::Acquire)
    }

    /// Something has happened to the object. Nothing comes of it once the source is retired, or in
    /// a child.
    pub fn report(self: &Arc<Self>, kind: AsyncEventKind) {
        if self.made.is_current() {
            let source = Arc::downgrade(self);
            let is_wanted = || !self.is_retired.load(Ordering::Relaxed);
            self.events.0.push(Waiting { kind, source }, is_wanted);
        }
    }

    /// The program is done with one event of the object.
    pub fn acknowledge(&self) {
        if self.made.is_current() {
            self.unacknowledged.acknowledge(1);
        }
    }

    /// The object goes: removes the events nobody took, and waits until those that were taken are
    /// acknowledged.
    pub fn retire(&self) {
        if !self.made.is_current() {
            return;
        }
        let stop = || self.is_retired.store(true, Ordering::Relaxed);
        self.events.0.withdraw(stop, |event| std::ptr::eq(event.source.as_ptr(), self));
        self.unacknowledged.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(events: &AsyncEvents) -> Option<(AsyncEventKind, u64)> {
        let event = events.take().ok().flatten()?;
        event.source.acknowledge();
        Some((event.kind, event.source.tag()))
    }

    #[test]
    fn an_event_says_what_has_happened_and_to_whom() {
        let events = AsyncEvents::create().unwrap();
        let sources = [7, 8].map(|tag| {
            let source = EventSource::new(&events);
            source.set_tag(tag);
            source
        });
        sources[1].report(AsyncEventKind::SqDrained);
        sources[0].report(AsyncEventKind::SrqLimitReached);
        assert_eq!(take(&events), Some((AsyncEventKind::SqDrained, 8)));
        assert_eq!(take(&events), Some((AsyncEventKind::SrqLimitReached, 7)));
        assert!(matches!(events.take(), Err(TakeEventError::Nothing)));
    }

    #[test]
    fn a_retired_source_has_no_events_and_others_keep_theirs() {
        let events = AsyncEvents::create().unwrap();
        let (gone, other) = (EventSource::new(&events), EventSource::new(&events));
        gone.report(AsyncEventKind::QpFatal);
        other.report(AsyncEventKind::CqError);
        gone.retire();
        gone.report(AsyncEventKind::QpFatal);
        assert_eq!(take(&events), Some((AsyncEventKind::CqError, 0)));
        assert!(events.take().is_err());
    }

    #[test]
    fn a_source_is_retired_when_its_events_are_acknowledged() {
        let events = AsyncEvents::create().unwrap();
        let source = EventSource::new(&events);
        source.report(AsyncEventKind::QpFatal);
        let taken = events.take().unwrap().unwrap();
        let is_acknowledged = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let retiring = scope.spawn(|| {
                source.retire();
                assert!(is_acknowledged.load(Ordering::SeqCst), "it did not wait");
            });
            // Enough for one that does not wait to be found out.
            (0..1000).for_each(|_| std::thread::yield_now());
            is_acknowledged.store(true, Ordering::SeqCst);
            taken.source.acknowledge();
            retiring.join().unwrap();
        });
    }
}
