//! Retransmission before the acknowledgement timeout (RC-4.5 to RC-4.7), if the host allows it.
//!
//! The acknowledgement timeout determines how long a silent peer is tolerated, and is chosen for
//! that. Losses are repaired as soon as an answer is overdue by measured round trips. None of this
//! counts as a failure.

use super::Requester;
use super::queue::{Entry, LocalStep};
use super::window::Window;
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::{Instant, Operation};

/// Duplicate acknowledgements that indicate a loss, as in TCP (RFC 5681).
const COPIES: u8 = 3;
/// The timeout is doubled at most this often.
const BACKOFF_MAX: u32 = 20;

/// The state of early retransmission.
#[derive(Clone, Copy, Debug)]
pub(super) struct Early {
    /// The time at which an answer is overdue.
    pub(super) due: Option<Instant>,
    /// The packet that is timed, and when it left. After a loss no packet that left earlier is
    /// timed: its answer may have waited for a repetition.
    timed: Option<(Seq, Instant)>,
    /// Times that an answer was overdue since a packet was timed.
    backoff: u32,
    /// When packets were last sent again.
    pub(super) repeated_at: Instant,
    /// Duplicates of the newest acknowledgement.
    copies: u8,
    /// Early repetitions of the oldest packet since its last answer.
    repetitions: u8,
    /// Refusals of such repetitions that may still arrive.
    late_refusals: u8,
    /// The state before an answer was overdue, to be restored if nothing was lost.
    saved: Option<SavedWindow>,
}

/// The window before an answer was overdue.
#[derive(Clone, Copy, Debug)]
struct SavedWindow {
    window: Window,
    /// The number up to which packets had been sent: once all of them are acknowledged, the outcome
    /// is known.
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
            saved: None,
        }
    }

    /// Arms the timer for what is in flight, if the connection waits at all; at most until
    /// `deadline`.
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

    /// Times a packet that requests an answer and leaves for the first time.
    #[inline]
    pub(super) fn start_timing(&mut self, now: Instant, seq: Seq, shared: &Shared) {
        if self.timed.is_none() && shared.config.rto_floor_ns > 0 {
            self.timed = Some((seq, now));
        }
    }

    /// Takes no round-trip sample from packets in flight.
    pub(super) fn discard_timing(&mut self) {
        self.timed = None;
    }

    /// Handles progress: everything before `una` is acknowledged.
    #[inline]
    pub(super) fn note_progress(&mut self, now: Instant, una: Seq, shared: &mut Shared) {
        (self.copies, self.repetitions, self.late_refusals) = (0, 0, 0);
        self.saved = self.saved.filter(|saved| una < saved.sent);
        match self.timed {
            Some((seq, at)) if seq < una => {
                shared.rtt.sample(now.ns_since(at));
                (self.timed, self.backoff) = (None, 0);
            }
            _ if self.backoff > 0 && self.answers_repetition(now, shared) => self.backoff = 0,
            _ => {}
        }
    }

    /// Returns whether an answer at `now` may belong to the last repetition, as far as its delay
    /// can tell.
    #[cold]
    fn answers_repetition(&self, now: Instant, shared: &Shared) -> bool {
        let ns = now.ns_since(self.repeated_at);
        match shared.rtt.smoothed_ns() {
            Some(smoothed_ns) => ns >= smoothed_ns / 2 && ns <= shared.rtt.timeout_ns(0),
            None => ns <= shared.config.rto_floor_ns,
        }
    }

    /// Resets the duplicates when a packet leaves while nothing else is in flight: older
    /// acknowledgements say nothing about it.
    #[inline]
    pub(super) fn forget_copies(&mut self) {
        self.copies = 0;
    }

    /// The responder was not ready for the oldest packet, nor will it be for the copies that left
    /// before.
    pub(super) fn note_refused(&mut self, now: Instant) {
        self.late_refusals = core::mem::take(&mut self.repetitions);
        self.note_loss(now);
    }

    /// Returns whether an RNR NAK answers an earlier copy of a packet that was repeated since, as
    /// far as the time can tell. Each copy can account for one.
    pub(super) fn take_late_refusal(&mut self, now: Instant, shared: &Shared) -> bool {
        let is_possible = self.late_refusals > 0 && !self.may_answer_repetition(now, shared);
        self.late_refusals -= u8::from(is_possible);
        is_possible
    }

    /// Returns whether the peer could have answered the last repetition.
    fn may_answer_repetition(&self, now: Instant, shared: &Shared) -> bool {
        let smoothed_ns = shared.rtt.smoothed_ns().unwrap_or(shared.config.rto_floor_ns);
        now.ns_since(self.repeated_at) >= smoothed_ns / 2
    }

    /// Forgets what is known of earlier transmissions, which count as lost.
    pub(super) fn note_loss(&mut self, now: Instant) {
        (self.repeated_at, self.copies) = (now, 0);
        (self.timed, self.saved) = (None, None);
    }
}

impl Requester {
    /// Handles an overdue answer (RC-4.5). Only the oldest packet is sent: its answer tells what
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
            let current = SavedWindow { window: self.window, sent: self.sent };
            let saved = early.saved.unwrap_or(current);
            early.note_loss(now);
            early.repetitions = early.repetitions.saturating_add(1);
            early.saved = Some(saved);
            self.window.collapse();
            self.go_back();
        }
        self.retry.arm_early(now, shared);
    }

    /// Handles another report that the oldest packet is missing after it was repeated: the
    /// repetition was lost, too (RC-4.6). Answers that were in flight when it was sent do not
    /// count.
    pub(super) fn repeat_again(&mut self, now: Instant, shared: &mut Shared) {
        let is_possible = shared.config.rto_floor_ns > 0
            && self.next > self.una
            && !self.retry.is_paused()
            && self.retry.early.may_answer_repetition(now, shared);
        if is_possible {
            shared.stats.early_repetitions += 1;
            self.retry.early.note_loss(now);
            self.retry.early.repetitions = self.retry.early.repetitions.saturating_add(1);
            self.window.shrink();
            self.go_back();
            self.retry.arm_early(now, shared);
        }
    }

    /// Handles a duplicate of the newest acknowledgement while later packets are in flight: the
    /// peer received only old packets since (RC-4.7).
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

    /// Handles an acknowledgement of more than was repeated after an overdue answer: the packets
    /// were late, not lost. The state before that is restored.
    pub(super) fn note_acknowledged_unsent(&mut self, shared: &Shared) {
        self.next = self.una;
        self.flight_bytes = 0;
        if let Some(saved) = self.retry.early.saved.take() {
            self.window = saved.window;
            self.go_forward(shared);
        }
    }

    /// Continues with packets that were never sent.
    fn go_forward(&mut self, shared: &Shared) {
        let (una, sent, mtu) = (self.una, self.sent, shared.mtu);
        let is_past = |entry: &Entry| {
            let is_local = entry.request.op == Operation::Local;
            let is_done = !is_local || entry.local == LocalStep::Done;
            entry.end() <= sent && is_done && entry.fault.is_none()
        };
        let cursor = self.queue.iter().take_while(|entry| is_past(entry)).count();
        if self.queue.get(cursor).is_some_and(|entry| entry.fault.is_some()) {
            // The packets before a work request that the host cannot perform may have requested no
            // acknowledgement.
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
