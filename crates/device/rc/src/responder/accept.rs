//! The host's answer to an arrival (RC-5.4, RC-5.5).

use super::{AckDue, Answer, Nak, NakState, Responder, Step, Waiting};
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::wire::NakCode;
use crate::{Psn, Reject, ShortArrival, Status};

impl Responder {
    /// The host has performed the request.
    pub(crate) fn accept(&mut self, shared: &Shared) {
        // Matched by reference: copying what was just written stalls the processor.
        let Some(Waiting { kind, numbers, wants_ack, has_receive, srq, ref step }) = self.waiting
        else {
            return;
        };
        self.srq = srq;
        match *step {
            Step::Part(None) => {
                (self.message, self.waiting) = (None, None);
                self.commit(numbers, kind.is_end(), wants_ack);
            }
            Step::Part(message) => {
                (self.message, self.waiting) = (message, None);
                self.commit(numbers, kind.is_end(), wants_ack);
            }
            Step::Answer(answer) => {
                self.waiting = None;
                self.store_answer(answer, srq, shared);
            }
            // The host did not report the value: the request counts as never received.
            Step::Atomic => self.waiting = None,
            Step::Refuse => {
                self.waiting = None;
                let receive = has_receive.then_some(Status::RemoteInvalidRequest);
                self.refuse(Some(NakCode::InvalidRequest), self.expected, receive);
            }
        }
    }

    /// The host has performed an atomic, which found `original`.
    pub(crate) fn accept_atomic(&mut self, original: u64, shared: &Shared) {
        let atomic = self.waiting.take().filter(|waiting| matches!(waiting.step, Step::Atomic));
        if let Some(Waiting { srq, .. }) = atomic {
            self.store_answer(Answer::Original(original), srq, shared);
        }
    }

    /// The host has not performed the request.
    pub(crate) fn reject(&mut self, why: Reject, shared: &Shared) {
        let Some(waiting) = self.waiting.take() else { return };
        if !Self::is_reliable(shared) {
            self.drop_message();
            return;
        }
        let receive = waiting.has_receive.then_some(why.receive_status());
        match why {
            Reject::NotReady => {
                self.nak = Some(Nak::NotReady);
                self.nak_state = NakState::NotReady;
            }
            Reject::Invalidate => {
                self.take_without_key(&waiting);
                self.refuse(None, self.expected.before(), receive);
            }
            _ => self.refuse(why.nak(), self.expected, receive),
        }
    }

    /// Accepts and acknowledges the message although its key cannot be invalidated.
    fn take_without_key(&mut self, waiting: &Waiting) {
        self.message = None;
        // Acknowledged in any case, because nothing later is sent that could carry it.
        self.commit(waiting.numbers, true, true);
    }

    /// Stores the answer of a request that is answered by more than an acknowledgement.
    fn store_answer(&mut self, answer: Answer, srq: Option<u32>, shared: &Shared) {
        let packets = match answer {
            Answer::Read(range) => shared.mtu.packets(range.len),
            Answer::Original(_) | Answer::Empty => 1,
        };
        let first = self.expected;
        // Its responses acknowledge it and everything before it.
        self.commit(packets, true, false);
        self.ack = AckDue::Never;
        self.resources.push(first..self.expected, self.msn, answer, srq);
    }

    /// Returns the number of the packet with `psn` if it is the expected one, a message of one
    /// packet may come now, and nothing has to be done before it is taken.
    #[inline]
    pub(crate) fn expects_short(&self, psn: Psn) -> Option<Seq> {
        let is_ready = !self.is_closed
            && self.message.is_none()
            && self.waiting.is_none()
            && self.nak_state == NakState::Nothing;
        (is_ready && psn == self.expected.psn()).then_some(self.expected)
    }

    /// The host has performed a message of one packet, which is still the expected packet; returns
    /// false if it is not.
    #[inline]
    pub(crate) fn accept_short(&mut self, short: &ShortArrival) -> bool {
        let is_expected = short.seq == self.expected;
        if is_expected {
            self.commit(1, true, short.wants_ack);
        }
        is_expected
    }

    /// Moves on after the expected packet was performed, which takes `packets` numbers.
    #[inline]
    fn commit(&mut self, packets: u32, is_end: bool, wants_ack: bool) {
        self.expected = self.expected.plus(u64::from(packets));
        if is_end {
            self.msn = (self.msn + 1) & Psn::MASK;
            self.ack = self.ack.max(AckDue::BeforeRequests);
        }
        if wants_ack {
            self.ack = AckDue::Now;
        }
        if self.nak == Some(Nak::NotReady) {
            self.nak = None;
        }
    }
}
