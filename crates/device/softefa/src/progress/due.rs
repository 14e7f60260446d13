//! The time at which a queue pair needs a turn, and whether the service thread would take it in
//! time.
//!
//! The program changes it under the lock of the queue pair, the service thread after its turn. A
//! post that both miss would wait for ever; `loom/` tries all orders.

use srd::Instant;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The program drives the queue pair; the service thread checks it once per tick.
const UNWATCHED: u64 = 0;

/// The time of the next turn; see the module.
#[derive(Debug)]
pub(crate) struct Due {
    /// The time until which the service thread need not check the queue pair unless something
    /// arrives, or [`UNWATCHED`] if it does not wait on the socket. Whoever makes something due
    /// earlier must wake it.
    watched_until_ns: AtomicU64,
    /// The completion queue has many queue pairs, so a poll drives this one only when something
    /// arrived or is due.
    is_in_crowd: AtomicBool,
    /// The time at which a turn is needed even if nothing arrives. It is kept only in a crowd.
    due_ns: AtomicU64,
}

impl Due {
    /// Makes the state of a queue pair that the program drives.
    pub(crate) fn new() -> Self {
        Self {
            watched_until_ns: AtomicU64::new(UNWATCHED),
            is_in_crowd: AtomicBool::new(false),
            due_ns: AtomicU64::new(0),
        }
    }

    /// Returns true if the service thread waits on the socket.
    pub(crate) fn is_watched(&self) -> bool {
        self.watched_until_ns() != UNWATCHED
    }

    /// Returns the time until which the service thread need not check the queue pair.
    pub(crate) fn watched_until_ns(&self) -> u64 {
        self.watched_until_ns.load(Ordering::SeqCst)
    }

    /// Records that the service thread waits on the socket until then. It is called under the lock,
    /// so that a post is either seen by the turn before or sees this.
    pub(crate) fn until(&self, until: Option<Instant>) {
        let until_ns = until.map_or(u64::MAX, |at| at.as_ns().max(UNWATCHED + 1));
        self.watched_until_ns.store(until_ns, Ordering::SeqCst);
        self.due_ns.store(until_ns, Ordering::Relaxed);
    }

    /// Records that the service thread leaves the queue pair to the program.
    pub(crate) fn unwatch(&self) {
        self.watched_until_ns.store(UNWATCHED, Ordering::SeqCst);
    }

    /// Returns true if the service thread must be woken, because it would take the next turn too
    /// late. It is called under the lock after a change by the program, and returns true once per
    /// change.
    #[inline]
    pub(crate) fn settle(
        &self,
        has_received: bool,
        next_turn: impl Fn() -> Option<Instant>,
    ) -> bool {
        if self.is_in_crowd.load(Ordering::Relaxed) {
            let next = next_turn().map_or(u64::MAX, Instant::as_ns);
            let due_ns = if has_received { 0 } else { next };
            self.due_ns.store(due_ns, Ordering::Relaxed);
        }
        let until_ns = self.watched_until_ns.load(Ordering::Relaxed);
        until_ns != UNWATCHED && self.is_late(next_turn(), until_ns)
    }

    #[cold]
    fn is_late(&self, next_turn: Option<Instant>, until_ns: u64) -> bool {
        let is_late = next_turn.is_some_and(|at| at.as_ns() < until_ns);
        if is_late {
            self.unwatch();
        }
        is_late
    }

    /// Makes [`Due::settle`] maintain [`Due::at_ns`] from now on.
    pub(crate) fn join_crowd(&self) {
        self.is_in_crowd.store(true, Ordering::Relaxed);
    }

    /// Returns the time at which a turn is needed even if nothing arrives.
    pub(crate) fn at_ns(&self) -> u64 {
        self.due_ns.load(Ordering::Relaxed)
    }

    /// Makes the next turn of a destroyed queue pair due at once.
    pub(crate) fn begin_lingering(&self) {
        self.due_ns.store(0, Ordering::Relaxed);
    }
}
