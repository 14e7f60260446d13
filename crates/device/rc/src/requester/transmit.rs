//! Splits work requests into packets (RC-3.5, RC-3.6, RC-3.8).

use super::queue::{Entry, LocalStep};
use super::{Pause, Requester};
use crate::endpoint::Shared;
use crate::id::{HALF, Seq};
use crate::wire::{AtomicEth, Bth, Headers, Kind, Reth, pad_of};
use crate::{HEADER_MAX, Instant, Operation, Payload, Remote, SendRequest, Transmit};

/// The next packet of the work request that is being sent.
struct Choice {
    /// The number after those that it takes.
    end: Seq,
    /// Payload, or the bytes that a READ requests.
    bytes: u64,
}

impl Requester {
    /// Returns the next request packet to send now.
    #[inline]
    pub(crate) fn next_packet(
        &mut self,
        now: Instant,
        shared: &mut Shared,
        joined_bytes: u32,
        out: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        self.advance_local(shared);
        let choice = self.choose(shared, joined_bytes)?;
        let is_reliable = shared.service.is_reliable();
        let entry = self.queue.get(self.cursor)?;
        let end = choice.end;
        let is_last = end == entry.end();
        let is_answered = entry.request.op.is_answered();
        let is_repeated = self.next < self.sent;
        let mut headers = Headers::new(shared.bth(Kind::SendOnly, self.next));
        let payload = self.fill(entry, &choice, shared, &mut headers);
        headers.bth.is_solicited = entry.request.is_solicited && is_last;
        headers.bth.pad = pad_of(payload.len());
        headers.bth.wants_ack =
            is_reliable && self.decide_ack_request(end, choice.bytes, is_last, shared);
        let header_len = headers.emit(out);
        if self.pause == Pause::Next && !is_repeated {
            self.pause = Pause::Begun;
        }
        let first = self.next;
        shared.stats.tx_packets += 1;
        shared.stats.tx_repeated += u64::from(is_repeated);
        self.flight_bytes += choice.bytes;
        self.next = end;
        self.sent = self.sent.max(end);
        self.cursor += usize::from(is_last);
        if !is_reliable {
            self.una = end;
            self.flight_bytes = 0;
            if is_last {
                self.complete_front(crate::Status::Ok, shared);
                self.complete_local(shared);
                self.note_drained(shared);
            }
        } else {
            if is_answered && self.reads.back().is_none_or(|&last| last < end) {
                self.reads.push_back(end);
            }
            let asks = headers.bth.wants_ack || is_answered;
            if asks && !is_repeated {
                self.retry.early.start_timing(now, first, shared);
            }
            self.retry.note_sent(now, &self.attr, shared);
        }
        let Bth { pad, joined, .. } = headers.bth;
        Some(Transmit { header_len, payload, pad, joined, is_repeated })
    }

    /// Returns whether [`Requester::next_packet`] has something to send, or to notify the host of.
    pub(crate) fn has_work(&self, shared: &Shared) -> bool {
        let Some(entry) = self.queue.get(self.cursor) else { return false };
        if entry.request.op == Operation::Local {
            return entry.local != LocalStep::Notified && !self.is_held(entry);
        }
        self.choose(shared, 0).is_some()
    }

    /// See [`Endpoint::is_next_uniform`](crate::Endpoint::is_next_uniform).
    pub(crate) fn is_uniform(&self, packets: usize, bytes: u64, shared: &Shared) -> bool {
        let entries = || (self.cursor..).take(packets).map_while(|at| self.queue.get(at));
        let Some(Entry { request: first, .. }) = entries().next() else { return true };
        let kind = core::mem::discriminant(&first.op);
        let is_like = |entry: &Entry| {
            let SendRequest { len, op, .. } = entry.request;
            len == first.len && core::mem::discriminant(&op) == kind
        };
        let is_one_each = 0 < first.len && first.len <= shared.mtu.bytes();
        is_one_each
            && entries().all(is_like)
            && entries().map(|entry| u64::from(entry.request.len)).sum::<u64>() <= bytes
    }

    /// Returns whether `entry`, the next work request to send, must wait for something other than
    /// the window.
    pub(super) fn is_held(&self, entry: &Entry) -> bool {
        if entry.fault.is_some() || self.retry.is_paused() || self.failure.is_some() {
            return true;
        }
        if self.next != entry.first {
            return false;
        }
        let is_draining = self.drain_at.is_some_and(|at| at <= entry.first);
        let awaits_answers = self.reads.front().is_some_and(|&end| end <= entry.first);
        is_draining || (entry.request.is_fenced && awaits_answers)
    }

    /// Returns the next packet, if nothing holds it back, with those joined to it that fit into
    /// `joined_bytes`.
    #[inline]
    fn choose(&self, shared: &Shared, joined_bytes: u32) -> Option<Choice> {
        let entry = self.queue.get(self.cursor)?;
        if entry.request.op == Operation::Local || self.is_held(entry) {
            return None;
        }
        if self.pause == Pause::Begun && self.next == self.sent {
            return None;
        }
        let is_answered = entry.request.op.is_answered();
        let end = match entry.request.op {
            Operation::Read(_) => entry.piece_end(self.next, &shared.config),
            _ if entry.packets > 1 => self.next.plus(self.joinable(entry, shared, joined_bytes)),
            _ => self.next.plus(1),
        };
        if is_answered
            && self.reads.back().is_none_or(|&last| last < end)
            // Requests that were accepted while more were allowed leave one by one.
            && self.reads.len() >= usize::from(self.attr.max_rd_atomic).max(1)
        {
            return None;
        }
        let bytes = entry.bytes(self.next, end, shared.mtu);
        if shared.service.is_reliable() {
            let (flight, more) = (self.next.since(self.una), end.since(self.next));
            let is_admitted = self.window.admits(flight, self.flight_bytes, more, bytes);
            if !is_admitted || flight + more > HALF {
                return None;
            }
        }
        Some(Choice { end, bytes })
    }

    /// Returns how many packets of the message of `entry` leave as one: none that is repeated, and
    /// no more than the window admits.
    fn joinable(&self, entry: &Entry, shared: &Shared, joined_bytes: u32) -> u64 {
        if joined_bytes < shared.mtu.bytes() || self.next < self.sent {
            return 1;
        }
        let (packets, bytes) = self.window.room(self.next.since(self.una), self.flight_bytes);
        let bytes = bytes.min(u64::from(joined_bytes)) as u32;
        shared.mtu.joinable(bytes, packets.min(entry.end().since(self.next)))
    }

    /// Returns whether this packet requests an acknowledgement: at the end of each message or of
    /// every few, every quarter of the window, and when the window is full and no packet in it
    /// requests one (RC-3.8).
    #[inline]
    pub(super) fn decide_ack_request(
        &mut self,
        end: Seq,
        bytes: u64,
        is_last: bool,
        shared: &Shared,
    ) -> bool {
        self.since_ack_request += end.since(self.next) as u32;
        self.messages_since_ack_request += u32::from(is_last);
        let packets = u64::from(self.window.packets());
        let flight = end.since(self.una);
        let flight_bytes = self.flight_bytes + bytes;
        // Where the window is always full an answer is under way, and the next one is requested in
        // turn.
        let is_unasked = u64::from(self.since_ack_request) >= flight;
        let is_full = is_unasked && !self.window.admits(flight, flight_bytes, 1, bytes);
        let is_quarter = u64::from(self.since_ack_request) >= (packets / 4).max(1);
        let is_turn = self.messages_since_ack_request >= shared.config.ack_every_messages;
        let is_end = is_last && (is_turn || !self.is_followed());
        let is_before_pause = self.pause == Pause::Next && self.next == self.sent;
        let wants = is_end || is_quarter || is_full || is_before_pause;
        if wants {
            (self.since_ack_request, self.messages_since_ack_request) = (0, 0);
        }
        wants
    }

    /// Returns whether a SEND or WRITE follows the work request that is being sent, and waits only
    /// for its turn: its acknowledgement request covers this one, too.
    fn is_followed(&self) -> bool {
        self.queue.get(self.cursor + 1).is_some_and(|next| {
            let op = next.request.op;
            let is_plain = !op.is_answered() && op != Operation::Local;
            let is_free = !next.request.is_fenced && next.fault.is_none();
            is_plain && is_free && self.drain_at.is_none_or(|at| at > next.first)
        })
    }

    /// Fills in the headers of a packet from its work request; returns the location of its payload.
    #[inline]
    fn fill(
        &self,
        entry: &Entry,
        choice: &Choice,
        shared: &Shared,
        headers: &mut Headers,
    ) -> Payload {
        let request = &entry.request;
        let index = self.next.since(entry.first);
        let offset = entry.offset(index, shared.mtu);
        let is_first = index == 0;
        let is_last = choice.end == entry.end();
        let len = choice.bytes as u32;
        headers.bth.opcode.kind = kind_of(request.op, is_first, is_last);
        headers.srq = request.srq;
        if !request.op.is_answered() {
            headers.bth.joined = (choice.end.since(self.next) - 1) as u8;
        }
        let mut payload = match len {
            0 => Payload::None,
            _ => Payload::Request { id: request.id, offset, len },
        };
        let reth = |remote: Remote, at: u32, dma_len: u32| Reth {
            va: remote.va.wrapping_add(u64::from(at)),
            rkey: remote.rkey,
            dma_len,
        };
        match request.op {
            Operation::Send | Operation::Local => {}
            Operation::SendImm(imm) => headers.imm = imm,
            Operation::SendInvalidate(key) => headers.invalidate = key,
            Operation::Write(remote) | Operation::AtomicWrite(remote) => {
                headers.reth = reth(remote, 0, request.len);
            }
            Operation::WriteImm(remote, imm) => {
                headers.reth = reth(remote, 0, request.len);
                headers.imm = imm;
            }
            Operation::Read(remote) => {
                headers.reth = reth(remote, offset, len);
                payload = Payload::None;
            }
            Operation::Flush(remote, feth) => {
                headers.reth = reth(remote, 0, request.len);
                headers.feth = feth;
            }
            Operation::CompareSwap { remote, compare, swap } => {
                headers.atomic = atomic(remote, swap, compare);
                payload = Payload::None;
            }
            Operation::FetchAdd { remote, add } => {
                headers.atomic = atomic(remote, add, 0);
                payload = Payload::None;
            }
        }
        payload
    }
}

fn atomic(remote: Remote, swap_or_add: u64, compare: u64) -> AtomicEth {
    AtomicEth { va: remote.va, rkey: remote.rkey, swap_or_add, compare }
}

fn kind_of(op: Operation, is_first: bool, is_last: bool) -> Kind {
    match (op, is_first, is_last) {
        (Operation::Read(_), ..) => Kind::ReadRequest,
        (Operation::CompareSwap { .. }, ..) => Kind::CompareSwap,
        (Operation::FetchAdd { .. }, ..) => Kind::FetchAdd,
        (Operation::Flush(..), ..) => Kind::Flush,
        (Operation::AtomicWrite(_), ..) => Kind::AtomicWrite,
        (Operation::Write(_) | Operation::WriteImm(..), true, false) => Kind::WriteFirst,
        (Operation::Write(_) | Operation::WriteImm(..), false, false) => Kind::WriteMiddle,
        (Operation::Write(_), false, true) => Kind::WriteLast,
        (Operation::Write(_), true, true) => Kind::WriteOnly,
        (Operation::WriteImm(..), false, true) => Kind::WriteLastImm,
        (Operation::WriteImm(..), true, true) => Kind::WriteOnlyImm,
        (_, true, false) => Kind::SendFirst,
        (_, false, false) => Kind::SendMiddle,
        (Operation::Send | Operation::Local, false, true) => Kind::SendLast,
        (Operation::Send | Operation::Local, true, true) => Kind::SendOnly,
        (Operation::SendImm(_), false, true) => Kind::SendLastImm,
        (Operation::SendImm(_), true, true) => Kind::SendOnlyImm,
        (Operation::SendInvalidate(_), false, true) => Kind::SendLastInvalidate,
        (Operation::SendInvalidate(_), true, true) => Kind::SendOnlyInvalidate,
    }
}
