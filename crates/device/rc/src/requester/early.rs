//! Repeating before the acknowledgement timeout (RC-4.5 to RC-4.7): where the host lets it.
//!
//! The acknowledgement timeout decides how long a silent peer is borne, and is chosen for that.
//! What is lost is repeated as soon as an answer is overdue, by what was measured. None of it
//! counts as a failure.

use super::Requester;
use super::queue::{Entry, LocalStep};
use super::window::Window;
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::{Instant, Operation};

/// Copies of the newest acknowledgement that tell of a loss, as TCP's do (RFC 5681).
const COPIES: u8 = 3;
/// The time-out is doubled so often at most.
const BACKOFF_MAX: u32 = 20;

/// The state of the way to the peer and back, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    /// Something is overdue from then on.
    pub(super) due: Option<Instant>,
    /// The packet that is timed, and when it left. After a loss nothing is timed any more that left
    /// before: its answer may have waited for a repetition.
    timed: Option<(Seq, Instant)>,
    /// Times that something was overdue since a packet was timed.
    backoff: u32,
    /// The time at which packets were sent again last.
    pub(super) repeated_at: Instant,
    /// Copies of the newest acknowledgement.
    copies: u8,
    /// Times that the oldest packet was sent again early since something was heard of it.
    repetitions: u8,
    /// Refusals of such copies that may still come.
    late_refusals: u8,
    /// The window before something was overdue, for the case that it was not lost.
    before: Option<Before>,
}

/// The state before something was overdue.
#[derive(Clone, Copy, Debug)]
struct Before {
    window: Window,
    /// The number up to which packets were sent by then: once all of it is acknowledged, nothing is
    /// left to find out.
    sent: Seq,
}

impl Early {
    pub(super) const fn new() -> Self {
        Self {
            due: None,
            timed: None,
            backoff: 0,
            repeated_at: Instant::ZERO,
            copies: 0,
            repetitions: 0,
            late_refusals: 0,
            before: None,
        }
    }

    /// Waits for what is on its way, if the connection waits at all: until `deadline` at most.
    #[inline]
    pub(super) fn arm(&mut self, now: Instant, deadline: Option<Instant>, shared: &Shared) {
        let floor_ns = shared.config.rto_floor_ns;
        self.due = None;
        if floor_ns == 0 {
            return;
        }
        let Some(deadline) = deadline else { return };
        let rto_ns = shared.rtt.timeout_ns(floor_ns);
        let due = now.plus_ns(rto_ns.saturating_mul(1 << self.backoff));
        self.due = (due < deadline).then_some(due);
    }

    /// A packet that asks for an answer leaves for the first time.
    #[inline]
    pub(super) fn time(&mut self, now: Instant, seq: Seq, shared: &Shared) {
        if self.timed.is_none() && shared.config.rto_floor_ns > 0 {
            self.timed = Some((seq, now));
        }
    }

    /// No round trip is measured with what is on its way.
    pub(super) fn discard_timing(&mut self) {
        self.timed = None;
    }

    /// Everything before `una` is acknowledged.
    #[inline]
    pub(super) fn note_progress(&mut self, now: Instant, una: Seq, shared: &mut Shared) {
        (self.copies, self.repetitions, self.late_refusals) = (0, 0, 0);
        self.before = self.before.filter(|before| una < before.sent);
        match self.timed {
            Some((seq, at)) if seq < una => {
                shared.rtt.sample(now.ns_since(at));
                (self.timed, self.backoff) = (None, 0);
            }
            _ if self.backoff > 0 && self.answers_repetition(now, shared) => self.backoff = 0,
            _ => {}
        }
    }

    /// Answers whether what comes now is the answer to what was sent again last, as far as the time
    /// that it took can tell.
    #[cold]
    fn answers_repetition(&self, now: Instant, shared: &Shared) -> bool {
        let ns = now.ns_since(self.repeated_at);
        match shared.rtt.smoothed_ns() {
            Some(smoothed_ns) => ns >= smoothed_ns / 2 && ns <= shared.rtt.timeout_ns(0),
            None => ns <= shared.config.rto_floor_ns,
        }
    }

    /// Something leaves while nothing else is on its way: copies of older answers say nothing of
    /// it.
    #[inline]
    pub(super) fn forget_copies(&mut self) {
        self.copies = 0;
    }

    /// The responder was not ready for the oldest packet, nor will it be for the copies of it that
    /// left before.
    pub(super) fn note_refused(&mut self, now: Instant) {
        self.late_refusals = core::mem::take(&mut self.repetitions);
        self.note_loss(now);
    }

    /// Whether what says that the responder is not ready answers an earlier copy of what was sent
    /// again since, as far as the time tells. There are no more of these than copies.
    pub(super) fn is_of_earlier(&mut self, now: Instant, shared: &Shared) -> bool {
        let is_possible = self.late_refusals > 0 && !self.may_be_of_repetition(now, shared);
        self.late_refusals -= u8::from(is_possible);
        is_possible
    }

    /// A peer could have answered what was sent again last.
    fn may_be_of_repetition(&self, now: Instant, shared: &Shared) -> bool {
        let smoothed_ns = shared.rtt.smoothed_ns().unwrap_or(shared.config.rto_floor_ns);
        now.ns_since(self.repeated_at) >= smoothed_ns / 2
    }

    /// Notes that what was sent before is as good as lost: what is known of it counts no more.
    pub(super) fn note_loss(&mut self, now: Instant) {
        (self.repeated_at, self.copies) = (now, 0);
        (self.timed, self.before) = (None, None);
    }
}

impl Requester {
    /// An answer is overdue (RC-4.5). The oldest packet goes first, alone: its answer says what
    /// became of the others.
    pub(super) fn repeat_overdue(&mut self, now: Instant, shared: &mut Shared) {
        let early = &mut self.retry.early;
        early.due = None;
        if self.una == self.sent {
            return;
        }
        if self.next > self.una {
            shared.stats.early_timeouts += 1;
            early.backoff = (early.backoff + 1).min(BACKOFF_MAX);
            let now_known = Before { window: self.window, sent: self.sent };
            let before = early.before.unwrap_or(now_known);
            early.note_loss(now);
            early.repetitions = early.repetitions.saturating_add(1);
            early.before = Some(before);
            self.window.collapse();
            self.go_back();
        }
        self.retry.arm_early(now, shared);
    }

    /// The peer says again that the oldest packet is missing, which was repeated: so was the
    /// repetition lost (RC-4.6). Answers on their way when it was sent say nothing new.
    pub(super) fn repeat_again(&mut self, now: Instant, shared: &mut Shared) {
        let is_possible = shared.config.rto_floor_ns > 0
            && self.next > self.una
            && !self.retry.is_paused()
            && self.retry.early.may_be_of_repetition(now, shared);
        if is_possible {
            shared.stats.early_repetitions += 1;
            self.retry.early.note_loss(now);
            self.retry.early.repetitions = self.retry.early.repetitions.saturating_add(1);
            self.window.shrink();
            self.go_back();
            self.retry.arm_early(now, shared);
        }
    }

    /// The newest acknowledgement comes again, while packets are on their way behind it: what came
    /// to the peer since is old (RC-4.7).
    pub(super) fn note_copy(&mut self, now: Instant, shared: &mut Shared) {
        if self.next <= self.una {
            return;
        }
        let early = &mut self.retry.early;
        early.copies = early.copies.saturating_add(1);
        if early.copies >= COPIES {
            self.repeat_again(now, shared);
        }
    }

    /// Acknowledged is more than was sent again when something was overdue: it was late and not
    /// lost. All goes on as if nothing had been overdue.
    pub(super) fn note_acknowledged_unsent(&mut self, shared: &Shared) {
        self.next = self.una;
        self.flight_bytes = 0;
        if let Some(before) = self.retry.early.before.take() {
            self.window = before.window;
            self.go_forward(shared);
        }
    }

    /// Sends nothing again from now on that was sent already.
    fn go_forward(&mut self, shared: &Shared) {
        let (una, sent, mtu) = (self.una, self.sent, shared.mtu);
        let is_past = |entry: &Entry| {
            let is_local = entry.request.op == Operation::Local;
            let is_done = !is_local || entry.local == LocalStep::Done;
            entry.end() <= sent && is_done && entry.fault.is_none()
        };
        let cursor = self.queue.iter().take_while(|entry| is_past(entry)).count();
        if self.queue.get(cursor).is_some_and(|entry| entry.fault.is_some()) {
            // What is before a work request that the host cannot do may have asked for nothing.
            return;
        }
        self.cursor = cursor;
        let sent_part = |entry: &Entry| {
            let (from, to) = (entry.first.max(una), entry.end().min(sent));
            if from < to { entry.bytes(from, to, mtu) } else { 0 }
        };
        self.flight_bytes = self.queue.iter().take(self.cursor + 1).map(sent_part).sum();
        self.next = sent;
    }
}
