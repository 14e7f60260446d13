//! The times at which work requests completed, for programs that ask.

use super::Cq;
use crate::completion::{Completion, CompletionTime};
use crate::host;

impl Cq {
    /// Records from now on the time at which each work request completes. [`Cq::poll_one_timed`]
    /// and [`Cq::pop_timed`] return it.
    pub fn keep_times(&self) {
        if self.made.is_current() {
            self.ring.hold(super::ring::Entries::keep_times);
        }
    }

    /// Polls as [`Cq::poll_one`] does, and returns the time of the completion, too; it is 0 unless
    /// times are recorded.
    pub fn poll_one_timed(&self) -> Option<(Completion, CompletionTime)> {
        if let Some(found) = self.pop_timed() {
            return Some(found);
        }
        if !self.made.is_usable() {
            return None;
        }
        let now = self.drive();
        let found = self.ring.take_one_timed();
        if found.is_none() {
            self.help_others(now);
        }
        found
    }

    /// Pops as [`Cq::pop`] does, and returns the time of the completion, too.
    pub fn pop_timed(&self) -> Option<(Completion, CompletionTime)> {
        if self.made.is_usable() { self.ring.take_one_timed() } else { None }
    }

    /// Returns the time by the clock of completions, in nanoseconds.
    #[must_use]
    pub fn device_clock_ns() -> u64 {
        host::now().as_ns()
    }
}
