//! Events that wait for a program, behind a descriptor that it may sleep on, and what it owes for
//! those it took.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::generation::Generation;
use crate::poll_set::EventFd;

/// Events, oldest first.
#[derive(Debug)]
pub(crate) struct EventQueue<T> {
    /// Holds one for each queued event, so that programs can poll it.
    counter: EventFd,
    state: Mutex<State<T>>,
    made: Generation,
}

#[derive(Debug)]
struct State<T> {
    events: VecDeque<T>,
    /// Counts that were read for events which were withdrawn before they were taken.
    stale: usize,
    is_closed: bool,
}

/// The queue was closed, or is that of another process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

/// The meaning of one count of the descriptor.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next<T> {
    /// An event.
    Event(T),
    /// An event that was withdrawn meanwhile: read again.
    Withdrawn,
    /// Nothing of ours: somebody else has written to the descriptor.
    Nothing,
}

impl<T> EventQueue<T> {
    /// # Errors
    /// The operating system has no file descriptor left.
    pub(crate) fn create() -> io::Result<Self> {
        let (counter, made) = (EventFd::semaphore()?, Generation::current());
        let state = State { events: VecDeque::new(), stale: 0, is_closed: false };
        Ok(Self { counter, state: Mutex::new(state), made })
    }

    /// Readable while an event waits. A program may set `O_NONBLOCK` on it.
    pub(crate) fn fd(&self) -> RawFd {
        self.counter.fd()
    }

    /// Takes the oldest event that `accept` accepts; those before it are forgotten. To be called
    /// after each read of eight bytes from [`EventQueue::fd`], which sleeps until there is an
    /// event.
    pub(crate) fn take<R>(&self, mut accept: impl FnMut(T) -> Option<R>) -> Result<Next<R>, Gone> {
        if !self.made.is_usable() {
            return Err(Gone);
        }
        let mut state = self.lock();
        while let Some(event) = state.events.pop_front() {
            if let Some(accepted) = accept(event) {
                return Ok(Next::Event(accepted));
            }
            // Its count may be there still, for the next one who sleeps here.
            state.stale += 1;
        }
        if state.is_closed {
            // For the next one who sleeps here.
            self.counter.raise();
            return Err(Gone);
        }
        let was_stale = state.stale > 0;
        state.stale = state.stale.saturating_sub(1);
        Ok(if was_stale { Next::Withdrawn } else { Next::Nothing })
    }

    /// Queues an event if it `is_wanted`, which is asked when nobody withdraws.
    pub(crate) fn push(&self, event: T, is_wanted: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if !is_wanted() {
            return;
        }
        state.events.push_back(event);
        drop(state);
        self.counter.raise();
    }

    /// Calls `stop`, after which no event of theirs comes, and removes theirs.
    pub(crate) fn withdraw(&self, stop: impl FnOnce(), is_theirs: impl Fn(&T) -> bool) {
        let mut state = self.lock();
        stop();
        let before = state.events.len();
        state.events.retain(|event| !is_theirs(event));
        let counted = (state.events.len()..before).filter(|_| !self.counter.try_take()).count();
        state.stale += counted;
    }

    /// Wakes everybody who sleeps here, for good.
    pub(crate) fn close(&self) {
        // A child shares the counter with its parent.
        if !self.made.is_current() {
            return;
        }
        self.lock().is_closed = true;
        self.counter.raise();
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Events that programs took and did not acknowledge.
#[derive(Debug, Default)]
pub(crate) struct Unacknowledged {
    state: Mutex<Count>,
    fewer: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    events: u32,
    /// Somebody waits for none: telling nobody would cost each event a system call.
    is_awaited: bool,
}

impl Unacknowledged {
    pub(crate) fn add(&self) {
        self.lock().events += 1;
    }

    /// More than were taken is a mistake of the program and counts as all of them.
    pub(crate) fn acknowledge(&self, events: u32) {
        let mut count = self.lock();
        count.events = count.events.saturating_sub(events);
        if count.is_awaited {
            self.fewer.notify_all();
        }
    }

    /// Waits until all are acknowledged.
    pub(crate) fn wait(&self) {
        let mut count = self.lock();
        count.is_awaited = true;
        while count.events > 0 {
            count = self.fewer.wait(count).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Count> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(queue: &EventQueue<u32>) -> Result<Next<u32>, Gone> {
        queue.counter.try_take();
        queue.take(|event| (event != 0).then_some(event))
    }

    #[test]
    fn events_come_in_order_and_the_descriptor_counts_them() {
        let queue = EventQueue::create().unwrap();
        (1..=3).for_each(|event| queue.push(event, || true));
        queue.push(9, || false);
        assert_eq!(
            [take(&queue), take(&queue), take(&queue)],
            [1, 2, 3].map(|n| Ok(Next::Event(n)))
        );
        assert!(!queue.counter.try_take());
        assert_eq!(queue.take(Some), Ok(Next::Nothing), "a program wrote to it");
    }

    #[test]
    fn a_count_that_was_read_for_a_withdrawn_event_is_told_from_nothing() {
        let queue = EventQueue::create().unwrap();
        (1..=3).for_each(|event| queue.push(event, || true));
        assert!(queue.counter.try_take(), "a sleeper wakes");
        let mut is_stopped = false;
        queue.withdraw(|| is_stopped = true, |_| true);
        assert!(is_stopped && !queue.counter.try_take());
        assert_eq!(queue.take(Some), Ok(Next::Withdrawn), "what it woke for is gone");
        assert_eq!(queue.take(Some), Ok(Next::Nothing));
    }

    #[test]
    fn who_sleeps_on_a_closed_queue_wakes_and_so_does_the_next() {
        let queue = EventQueue::create().unwrap();
        queue.push(1, || true);
        queue.close();
        assert_eq!(take(&queue), Ok(Next::Event(1)), "what was there is told first");
        assert_eq!([take(&queue), take(&queue)], [Err(Gone), Err(Gone)]);
        assert!(queue.counter.try_take());
    }

    #[test]
    fn waiting_ends_with_the_last_acknowledgement() {
        let owed = Unacknowledged::default();
        owed.wait();
        (0..100).for_each(|_| owed.add());
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| owed.wait());
            (0..99).for_each(|_| owed.acknowledge(1));
            assert_eq!(owed.lock().events, 1);
            owed.acknowledge(7);
            waiter.join().unwrap();
        });
    }
}
