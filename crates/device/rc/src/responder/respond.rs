//! Output of a responder, in order: responses, then a refusal, then an acknowledgement (RC-6).

use super::resources::{Answer, Resource};
use super::{AckDue, Nak, NakState, Responder};
use crate::endpoint::Shared;
use crate::id::Seq;
use crate::wire::{Aeth, Bth, Headers, Kind, NakCode, Syndrome, pad_of};
use crate::{HEADER_MAX, Instant, Payload, Psn, Transmit};

impl Responder {
    /// Returns the next response or acknowledgement to send now. `is_requesting` when a request of
    /// this side would follow.
    #[inline]
    pub(crate) fn next_response(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        joined_bytes: u32,
        is_requesting: impl FnOnce(&Shared) -> bool,
        out: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        if let Some(resource) = self.resources.waiting() {
            self.responses_in_a_row += 1;
            return self.respond(&resource, shared, joined_bytes, out);
        }
        self.responses_in_a_row = 0;
        // An acknowledgement must not overtake responses, or they would count as lost.
        if let Some(nak) = self.nak.take() {
            // A repeated refusal is older than what is to be acknowledged.
            let is_refused = self.final_answer.is_some_and(|word| word.code.is_some());
            if is_refused || !matches!(nak, Nak::Refusal(..)) {
                self.ack = AckDue::Never;
            }
            let (syndrome, seq) = (self.syndrome(nak), self.nak_seq(now, nak));
            return Some(self.acknowledge(syndrome, seq, shared, out));
        }
        let is_due = match self.ack {
            AckDue::Never => false,
            AckDue::BeforeRequests => shared.service.is_reliable() && is_requesting(shared),
            AckDue::Now => true,
        };
        if is_due {
            self.ack = AckDue::Never;
            shared.stats.tx_acks += 1;
            let newest = self.expected.before();
            return Some(self.acknowledge(Syndrome::ACK, newest, shared, out));
        }
        None
    }

    /// Makes the newest acknowledgement due once more, if there was one and no answer with data
    /// takes its place.
    pub(crate) fn repeat_ack(&mut self) {
        if self.is_closed || self.expected == Seq::first(self.attr.rq_psn) {
            return;
        }
        if self.resources.find(self.expected.before()).is_none() {
            self.ack = AckDue::Now;
        }
    }

    /// Refuses response `psn`, which was returned but cannot be supplied: the peer may not read
    /// that memory any more. Only the first refused response counts.
    pub(crate) fn refuse_response(&mut self, psn: Psn) {
        let Some(newest) = self.handed_out else { return };
        let seq = newest.near(psn);
        let is_told = matches!(self.nak, Some(Nak::Refusal(_, earlier)) if earlier <= seq);
        if self.is_closed && is_told {
            return;
        }
        if self.resources.end_repetition(seq) {
            // The request was a late copy, or its answer was lost: a requester that has the answer
            // ignores this.
            self.nak.get_or_insert(Nak::Refusal(NakCode::RemoteAccess, seq));
            return;
        }
        let first = self.resources.find(seq).map_or(seq, |resource| resource.first);
        self.resources.clear();
        self.refuse(Some(NakCode::RemoteAccess), seq, None);
        if let Some(word) = &mut self.final_answer {
            // A requester that has lost earlier packets of the answer cannot get these either.
            word.first = first;
        }
    }

    fn syndrome(&self, nak: Nak) -> Syndrome {
        match nak {
            Nak::Sequence => Syndrome::Nak(NakCode::Sequence),
            Nak::NotReady => Syndrome::RnrNak(self.attr.min_rnr_timer & 31),
            Nak::Refusal(code, _) => Syndrome::Nak(code),
        }
    }

    /// Returns the number that a NAK is about. It may have moved since; later packets are then no
    /// news to the peer.
    fn nak_seq(&mut self, now: Instant, nak: Nak) -> Seq {
        match nak {
            Nak::Sequence => {
                let is_first = !matches!(self.nak_state, NakState::Missing { is_first: false, .. });
                self.nak_state = NakState::Missing { at: now, is_first };
            }
            Nak::NotReady => self.nak_state = NakState::NotReady,
            Nak::Refusal(_, seq) => return seq,
        }
        self.expected
    }

    fn acknowledge(
        &self,
        syndrome: Syndrome,
        seq: Seq,
        shared: &mut Shared,
        out: &mut [u8; HEADER_MAX],
    ) -> Transmit {
        match syndrome {
            Syndrome::Nak(NakCode::Sequence) => shared.stats.tx_sequence_naks += 1,
            Syndrome::Nak(_) => shared.stats.tx_refusals += 1,
            Syndrome::RnrNak(_) => shared.stats.tx_rnr_naks += 1,
            Syndrome::Ack(_) | Syndrome::Unknown(_) => {}
        }
        shared.stats.tx_packets += 1;
        let mut headers = Headers::new(shared.bth(Kind::Acknowledge, seq));
        headers.aeth = Aeth { syndrome, msn: self.msn };
        let header_len = headers.emit(out);
        Transmit { header_len, payload: Payload::None, pad: 0, joined: 0, is_repeated: false }
    }

    fn respond(
        &mut self,
        resource: &Resource,
        shared: &mut Shared,
        joined_bytes: u32,
        out: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        let seq = resource.next?;
        let numbers = match resource.answer {
            Answer::Read(_) if !resource.is_repeated => {
                shared.mtu.joinable(joined_bytes, resource.end.since(seq))
            }
            Answer::Read(_) | Answer::Original(_) | Answer::Empty => 1,
        };
        let is_last = seq.plus(numbers) == resource.end;
        let kind = match (resource.answer, resource.is_begin, is_last) {
            (Answer::Original(_), ..) => Kind::AtomicAcknowledge,
            (_, true, true) => Kind::ReadResponseOnly,
            (_, true, false) => Kind::ReadResponseFirst,
            (_, false, false) => Kind::ReadResponseMiddle,
            (_, false, true) => Kind::ReadResponseLast,
        };
        let mut headers = Headers::new(shared.bth(kind, seq));
        headers.aeth = Aeth { syndrome: Syndrome::ACK, msn: resource.msn };
        let payload = match resource.answer {
            Answer::Read(range) if range.len > 0 => {
                let at = seq.since(resource.first) * u64::from(shared.mtu.bytes());
                let offset = u32::try_from(at).unwrap_or(range.len).min(range.len);
                let len = (range.len - offset).min(shared.mtu.bytes() * numbers as u32);
                Payload::Response { range, srq: resource.srq, offset, len }
            }
            Answer::Original(original) => {
                headers.original = original;
                Payload::None
            }
            Answer::Read(_) | Answer::Empty => Payload::None,
        };
        headers.bth.pad = pad_of(payload.len());
        headers.bth.joined = (numbers - 1) as u8;
        let header_len = headers.emit(out);
        shared.stats.tx_packets += 1;
        shared.stats.tx_responses += 1;
        self.resources.step(numbers);
        self.handed_out = Some(seq);
        let Bth { pad, joined, .. } = headers.bth;
        Some(Transmit { header_len, payload, pad, joined, is_repeated: false })
    }
}
