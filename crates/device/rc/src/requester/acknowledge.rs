//! Handling of acknowledgements (RC-3.1 to RC-3.4).

use super::{Pause, Requester};
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::wire::{Headers, NakCode, Syndrome};
use crate::{DropReason, Event, Instant, Service, Status};

impl Requester {
    /// Handles an acknowledgement of any kind.
    pub(crate) fn on_acknowledge(
        &mut self,
        now: Instant,
        headers: &Headers,
        shared: &mut Shared,
    ) -> Result<(), DropReason> {
        let seq = self.una.near(headers.bth.psn);
        // An acknowledgement covers its own number; all others cover only those before theirs.
        let upto = match headers.aeth.syndrome {
            Syndrome::Ack(_) => seq.plus(1),
            Syndrome::Nak(NakCode::Sequence) => seq,
            Syndrome::Nak(NakCode::InvalidQueue) if shared.service != Service::XrcInitiator => {
                return Err(DropReason::Malformed);
            }
            Syndrome::RnrNak(_) | Syndrome::Nak(_) if seq >= self.sent => {
                return Err(DropReason::Ghost);
            }
            Syndrome::RnrNak(_) | Syndrome::Nak(_) => seq,
            Syndrome::Unknown(_) => return Err(DropReason::Malformed),
        };
        if upto > self.sent {
            return Err(DropReason::Ghost);
        }
        if seq < self.una {
            if upto == self.una && matches!(headers.aeth.syndrome, Syndrome::Ack(_)) {
                self.note_copy(now, shared);
            }
            return Err(DropReason::Stale);
        }
        if !self.advance(now, upto, shared) {
            shared.stats.rx_implied_naks += 1;
            self.repeat_missing(now, shared);
            return Err(DropReason::Missing);
        }
        match headers.aeth.syndrome {
            Syndrome::Ack(_) | Syndrome::Unknown(_) => {}
            // The host could not perform the next request, and that ends it with its own status.
            _ if self.failure.is_some() => {}
            Syndrome::Nak(NakCode::Sequence) if self.una < self.sent => {
                shared.stats.rx_sequence_naks += 1;
                if !self.repeat_missing(now, shared) {
                    self.repeat_again(now, shared);
                }
            }
            Syndrome::Nak(NakCode::Sequence) => {}
            Syndrome::RnrNak(timer) => self.pause(now, timer, shared)?,
            Syndrome::Nak(code) => self.failure = Some(Status::of_nak(code)),
        }
        Ok(())
    }

    /// Completes everything before `upto`, or before a failed work request; false when the missing
    /// answer of a READ or an atomic prevents that (RC-3.4).
    pub(super) fn advance(&mut self, now: Instant, upto: Seq, shared: &mut Shared) -> bool {
        let before = self.una;
        let mut is_free = true;
        while self.una < upto && self.failure.is_none() {
            let Some(front) = self.queue.front() else { break };
            if front.request.op.is_answered() {
                is_free = false;
                break;
            }
            let end = front.end().min(upto);
            self.complete_before(end, shared);
        }
        if self.una > before {
            self.note_progress(now, shared);
        }
        is_free
    }

    /// Completes everything before `to`, which is at most the end of the oldest work request.
    pub(super) fn advance_to(&mut self, now: Instant, to: Seq, shared: &mut Shared) {
        self.complete_before(to, shared);
        self.note_progress(now, shared);
    }

    /// Completes everything before `to`; the caller then calls [`Requester::note_progress`].
    #[inline]
    fn complete_before(&mut self, to: Seq, shared: &mut Shared) {
        let Some(front) = self.queue.front() else { return };
        assert!(to <= front.end() && to > self.una, "one work request at a time makes progress");
        let bytes = front.bytes(self.una, to, shared.mtu);
        self.window.grow(to.since(self.una));
        self.flight_bytes = self.flight_bytes.saturating_sub(bytes);
        self.una = to;
        if to == front.end() {
            self.complete_front(Status::Ok, shared);
            self.complete_local(shared);
        }
        self.note_fault();
    }

    /// Updates timers and windows after [`Requester::complete_before`].
    fn note_progress(&mut self, now: Instant, shared: &mut Shared) {
        if self.next < self.una {
            // Acknowledged although it was about to be repeated.
            self.note_acknowledged_unsent(shared);
        }
        while self.reads.front().is_some_and(|&end| end <= self.una) {
            self.reads.pop_front();
        }
        if self.una >= self.sent {
            self.pause = Pause::None;
        }
        let is_waiting = self.una < self.sent;
        self.retry.note_progress(now, self.una, is_waiting, &self.attr, shared);
        self.note_drained(shared);
    }

    /// Completes the oldest work request.
    pub(super) fn complete_front(&mut self, status: Status, shared: &mut Shared) {
        if let Some(front) = self.queue.front() {
            let id = front.request.id;
            // An entry is long, and nobody needs the rest of it.
            self.queue.pop_front();
            self.cursor = self.cursor.saturating_sub(1);
            shared.events.push_back(Event::Completed { id, status });
        }
    }

    /// Fails the work request that is now the oldest, if the host could not perform it.
    #[inline]
    pub(super) fn note_fault(&mut self) {
        if let Some(fault) = self.queue.front().and_then(|front| front.fault) {
            self.failure = Some(fault);
        }
    }
}
