//! DCQCN's notification point: the receiver of marked packets tells their sender, at most once in
//! an interval.

use crate::time::Time;

#[derive(Clone, Copy, Debug)]
pub(super) struct Notifier {
    /// Minimum time between two notifications.
    interval_ps: u64,
    /// Earliest time of the next notification.
    not_before: Time,
    is_due: bool,
}

impl Notifier {
    pub(super) fn new(interval_ps: u64) -> Self {
        Self { interval_ps, not_before: Time::ZERO, is_due: false }
    }

    /// Takes note of a marked packet that arrived.
    pub(super) fn mark(&mut self, now: Time) {
        if now >= self.not_before {
            self.is_due = true;
            self.not_before = now.plus_ps(self.interval_ps);
        }
    }

    /// Returns whether a notification waits for the adapter.
    pub(super) fn is_due(&self) -> bool {
        self.is_due
    }

    /// Takes the notification that waits; false when there is none.
    pub(super) fn take(&mut self) -> bool {
        std::mem::take(&mut self.is_due)
    }
}
