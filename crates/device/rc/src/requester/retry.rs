//! Retransmission and giving up (RC-3.3, RC-4).

use super::early::Early;
use super::{Pause, Requester};
use crate::clock_codes::{rnr_timer_ns, timeout_ns};
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::{DropReason, Instant, SendAttr, Status};

/// Timers and failure counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Retry {
    /// The time at which acknowledgements are overdue.
    deadline: Option<Instant>,
    /// The time since which nothing was acknowledged.
    silent_since: Instant,
    /// Timeouts and gaps since the last acknowledgement.
    failures: u32,
    /// RNR NAKs since the last acknowledgement.
    rnr_failures: u8,
    /// Nothing is sent before this time.
    rnr_until: Option<Instant>,
    /// Packets from this number on were repeated because they were missing; once per gap.
    repeated_from: Option<Seq>,
    /// The state of early retransmission.
    pub(super) early: Early,
}

impl Retry {
    pub(super) const fn new() -> Self {
        Self {
            deadline: None,
            silent_since: Instant::ZERO,
            failures: 0,
            rnr_failures: 0,
            rnr_until: None,
            repeated_from: None,
            early: Early::new(),
        }
    }

    pub(super) fn is_paused(&self) -> bool {
        self.rnr_until.is_some()
    }

    pub(super) fn next(&self) -> Option<Instant> {
        // During an RNR pause no other timer counts.
        let first = [self.deadline, self.early.due].into_iter().flatten().min();
        self.rnr_until.or(first)
    }

    /// Arms the timers when a packet leaves.
    #[inline]
    pub(super) fn note_sent(&mut self, now: Instant, attr: &SendAttr, shared: &Shared) {
        if self.deadline.is_none() {
            if self.failures == 0 && self.rnr_failures == 0 {
                self.silent_since = now;
            }
            self.early.forget_copies();
            self.arm(now, attr, shared);
        }
    }

    /// Handles progress; `is_waiting` when more is in flight.
    #[inline]
    pub(super) fn note_progress(
        &mut self,
        now: Instant,
        una: Seq,
        is_waiting: bool,
        attr: &SendAttr,
        shared: &mut Shared,
    ) {
        self.early.note_progress(now, una, shared);
        (self.failures, self.rnr_failures) = (0, 0);
        self.silent_since = now;
        self.rnr_until = None;
        (self.deadline, self.early.due) = (None, None);
        if is_waiting {
            self.arm(now, attr, shared);
        }
    }

    fn arm(&mut self, now: Instant, attr: &SendAttr, shared: &Shared) {
        let timeout_ns = timeout_ns(attr.timeout);
        self.deadline = timeout_ns.map(|ns| now.plus_ns(ns.max(shared.config.timeout_min_ns)));
        self.arm_early(now, shared);
    }

    /// Arms the early timer for what leaves now, at most until the acknowledgement timeout.
    #[inline]
    pub(super) fn arm_early(&mut self, now: Instant, shared: &Shared) {
        self.early.arm(now, self.deadline, shared);
    }

    /// Counts a failure; true when there were too many.
    fn count_failure(&mut self, now: Instant, attr: &SendAttr, shared: &Shared) -> bool {
        self.failures = self.failures.saturating_add(1);
        self.failures > u32::from(attr.retry_cnt)
            && now.ns_since(self.silent_since) >= shared.config.silence_min_ns
    }
}

impl Requester {
    /// Handles the timers that have expired.
    pub(crate) fn handle_timeout(&mut self, now: Instant, shared: &mut Shared) {
        if let Some(until) = self.retry.rnr_until {
            if until <= now {
                self.retry.rnr_until = None;
                // It leaves again now, and an answer that arrives too soon is to an earlier copy.
                self.retry.early.repeated_at = now;
            }
            return;
        }
        if self.retry.deadline.is_none_or(|at| at > now) {
            if self.retry.early.due.is_some_and(|at| at <= now) {
                self.repeat_overdue(now, shared);
            }
            return;
        }
        self.retry.deadline = None;
        if self.una == self.sent {
            return;
        }
        shared.stats.timeouts += 1;
        self.retry.repeated_from = None;
        self.repeat(now, shared);
    }

    /// Repeats packets from the oldest unacknowledged one on, because they, or their answers, are
    /// missing. They are repeated once per gap (RC-3.3); false when they were.
    pub(super) fn repeat_missing(&mut self, now: Instant, shared: &mut Shared) -> bool {
        let is_new = self.retry.repeated_from != Some(self.una) && !self.retry.is_paused();
        if is_new {
            self.retry.repeated_from = Some(self.una);
            self.repeat(now, shared);
        }
        is_new
    }

    fn repeat(&mut self, now: Instant, shared: &Shared) {
        if self.retry.count_failure(now, &self.attr, shared) {
            self.failure = Some(Status::RetryExceeded);
            return;
        }
        self.retry.early.note_loss(now);
        self.window.shrink();
        self.go_back();
        self.retry.arm(now, &self.attr, shared);
    }

    /// Pauses, because the responder has no receive for the oldest unacknowledged packet (RC-4.4).
    pub(super) fn pause(
        &mut self,
        now: Instant,
        timer: u8,
        shared: &mut Shared,
    ) -> Result<(), DropReason> {
        // What was not sent again since then cannot have been refused again.
        if self.retry.is_paused() || self.next == self.una {
            return Err(DropReason::Stale);
        }
        if self.retry.early.take_late_refusal(now, shared) {
            return Err(DropReason::Stale);
        }
        shared.stats.rx_rnr_naks += 1;
        let limit = self.attr.rnr_retry & 7;
        if limit < 7 && self.retry.rnr_failures >= limit {
            self.failure = Some(Status::RnrRetryExceeded);
            return Ok(());
        }
        self.retry.rnr_failures = (self.retry.rnr_failures + 1).min(7);
        self.retry.failures = 0;
        self.retry.silent_since = now;
        self.retry.rnr_until = Some(now.plus_ns(rnr_timer_ns(timer)));
        (self.retry.deadline, self.retry.early.due) = (None, None);
        self.retry.early.note_refused(now);
        self.go_back();
        Ok(())
    }

    /// Sends everything unacknowledged again from now on.
    pub(super) fn go_back(&mut self) {
        self.next = self.una;
        // Repetitions need not request an acknowledgement at their end.
        self.pause = Pause::None;
        self.cursor = 0;
        self.flight_bytes = 0;
        (self.since_ack_request, self.messages_since_ack_request) = (0, 0);
    }
}
