//! The checks of a request, in their order (RC-5.3).

use super::{Answer, Message, Responder, Step, Waiting, order};
use crate::endpoint::Shared;
use crate::wire::{Kind, NakCode, Packet};
use crate::{
    Arrival, Atomic, AtomicOp, DropReason, Instant, MESSAGE_MAX_BYTES, Range, Remote, Right,
    SendData, SendEnd, Status, Verify, WriteData, WriteReceive,
};

/// The result of a check: the arrival, or the reason to drop the packet.
type Checked = Result<Arrival, DropReason>;

impl Responder {
    /// Handles a request. The host performs it and answers.
    #[inline(always)] // So that the arrival is written where the caller wants it.
    pub(crate) fn on_request(
        &mut self,
        now: Instant,
        packet: &Packet,
        shared: &mut Shared,
    ) -> Result<Arrival, DropReason> {
        if self.is_closed {
            return Err(DropReason::State);
        }
        let bth = &packet.headers.bth;
        let seq = self.expected.near(bth.psn);
        if Self::is_reliable(shared) {
            if seq > self.expected {
                return Err(self.note_gap(now, shared));
            }
            if seq < self.expected {
                shared.stats.rx_duplicates += 1;
                return Err(self.repeat(seq, packet, shared));
            }
            self.note_expected(now, shared);
        } else {
            self.follow(seq, bth.opcode.kind)?;
        }
        let kind = bth.opcode.kind;
        // A message is for one shared receive queue (RC-9.2).
        let is_for_one = kind.is_start() || packet.headers.named_srq() == self.srq;
        let fits = order::fits(self.message, kind) && is_for_one;
        let is_crowded = kind.takes_resource() && self.resources.is_full();
        if !fits || !self.allows(kind) || is_crowded {
            return Err(self.refuse_packet(shared));
        }
        match kind {
            _ if kind.is_send() => self.check_send(packet, shared),
            _ if kind.is_write() => self.check_write(packet, shared),
            Kind::ReadRequest => self.check_read(packet, shared),
            Kind::AtomicWrite => Ok(self.check_atomic_write(packet, shared)),
            Kind::Flush => {
                self.await_host(packet, shared, Step::Answer(Answer::Empty), false);
                Ok(Arrival::Flush(range_of(packet), packet.headers.feth))
            }
            _ => Ok(self.check_atomic(packet, shared)),
        }
    }

    /// Records that the host is handling the packet; `step` is taken when it accepts.
    #[inline(always)] // So that the step is written where it stays.
    fn await_host(&mut self, packet: &Packet, shared: &Shared, step: Step, has_receive: bool) {
        let bth = &packet.headers.bth;
        self.waiting = Some(Waiting {
            kind: bth.opcode.kind,
            numbers: 1 + u32::from(bth.joined),
            wants_ack: bth.wants_ack && Self::is_reliable(shared),
            has_receive,
            srq: packet.headers.named_srq(),
            step,
        });
    }

    /// Records that the host is handling a packet that is invalid.
    fn verify(
        &mut self,
        packet: &Packet,
        shared: &Shared,
        needs_receive: bool,
        memory: Option<(Range, Right)>,
    ) -> Arrival {
        self.await_host(packet, shared, Step::Refuse, needs_receive);
        Arrival::Verify(Verify { needs_receive, memory })
    }

    /// Returns whether the queue pair's access flags permit the request.
    const fn allows(&self, kind: Kind) -> bool {
        let access = &self.attr.access;
        match kind {
            Kind::ReadRequest => access.read,
            Kind::CompareSwap | Kind::FetchAdd => access.atomic,
            Kind::Flush => access.flush,
            Kind::AtomicWrite => access.write,
            _ => !kind.is_write() || access.write,
        }
    }

    /// Returns whether the peer may write.
    #[inline]
    pub(crate) const fn may_write(&self) -> bool {
        self.attr.access.write
    }

    /// Refuses a packet that is invalid whatever the host would answer.
    fn refuse_packet(&mut self, shared: &Shared) -> DropReason {
        if !Self::is_reliable(shared) {
            return self.drop_message();
        }
        let receive = self.has_receive().then_some(Status::RemoteInvalidRequest);
        self.refuse(Some(NakCode::InvalidRequest), self.expected, receive);
        DropReason::Refused
    }

    #[inline]
    fn check_send(&mut self, packet: &Packet, shared: &Shared) -> Checked {
        let (headers, len) = (&packet.headers, packet.payload_len);
        let (kind, joined) = (headers.bth.opcode.kind, headers.bth.joined);
        let offset = match self.message {
            Some(Message::Send { offset }) => offset,
            _ => 0,
        };
        let total = offset.saturating_add(len);
        let has_length = order::has_length(kind, len, joined, shared.mtu);
        let is_right = has_length && total <= MESSAGE_MAX_BYTES;
        if !is_right {
            return if kind.is_start() && Self::is_reliable(shared) {
                Ok(self.verify(packet, shared, true, None))
            } else {
                Err(self.refuse_packet(shared))
            };
        }
        let end = kind.is_end().then(|| SendEnd {
            total,
            imm: kind.has_imm().then_some(headers.imm),
            invalidate: kind.has_ieth().then_some(headers.invalidate),
            is_solicited: headers.bth.is_solicited,
        });
        let message = end.is_none().then_some(Message::Send { offset: total });
        self.await_host(packet, shared, Step::Part(message), true);
        Ok(Arrival::Send(SendData { is_start: kind.is_start(), offset, len, end }))
    }

    fn check_write(&mut self, packet: &Packet, shared: &Shared) -> Checked {
        let (headers, len) = (&packet.headers, packet.payload_len);
        let (kind, joined) = (headers.bth.opcode.kind, headers.bth.joined);
        let (range, offset) = match self.message {
            Some(Message::Write { range, offset }) => (range, offset),
            _ => (range_of(packet), 0),
        };
        let takes_receive = kind.has_imm();
        let has_length = order::has_length(kind, len, joined, shared.mtu);
        let is_possible = has_length && range.len <= MESSAGE_MAX_BYTES;
        let done = u64::from(offset) + u64::from(len);
        let is_whole =
            if kind.is_end() { done == u64::from(range.len) } else { done < u64::from(range.len) };
        if !(is_possible && is_whole) {
            // Memory is checked only if the packet is possible otherwise.
            let memory = (is_possible && range.len > 0).then_some((range, Right::Write));
            return if Self::is_reliable(shared) && (takes_receive || memory.is_some()) {
                Ok(self.verify(packet, shared, takes_receive, memory))
            } else {
                Err(self.refuse_packet(shared))
            };
        }
        let message = (!kind.is_end()).then_some(Message::Write { range, offset: done as u32 });
        let is_solicited = headers.bth.is_solicited;
        let receive = takes_receive.then_some(WriteReceive { imm: headers.imm, is_solicited });
        self.await_host(packet, shared, Step::Part(message), takes_receive);
        Ok(Arrival::Write(WriteData { range, offset, len, receive }))
    }

    fn check_read(&mut self, packet: &Packet, shared: &Shared) -> Checked {
        let range = range_of(packet);
        if range.len > MESSAGE_MAX_BYTES {
            return Err(self.refuse_packet(shared));
        }
        self.await_host(packet, shared, Step::Answer(Answer::Read(range)), false);
        Ok(Arrival::Read(range))
    }

    fn check_atomic_write(&mut self, packet: &Packet, shared: &Shared) -> Arrival {
        let range = range_of(packet);
        if packet.payload_len != 8 || range.len != 8 || range.remote.va % 8 != 0 {
            return self.verify(packet, shared, false, Some((range, Right::Write)));
        }
        self.await_host(packet, shared, Step::Answer(Answer::Empty), false);
        Arrival::AtomicWrite(range.remote)
    }

    fn check_atomic(&mut self, packet: &Packet, shared: &Shared) -> Arrival {
        let atomic = &packet.headers.atomic;
        let remote = Remote { va: atomic.va, rkey: atomic.rkey };
        if atomic.va % 8 != 0 {
            let memory = Some((Range { remote, len: 8 }, Right::Atomic));
            return self.verify(packet, shared, false, memory);
        }
        let op = if packet.headers.bth.opcode.kind == Kind::FetchAdd {
            AtomicOp::FetchAdd { add: atomic.swap_or_add }
        } else {
            AtomicOp::CompareSwap { compare: atomic.compare, swap: atomic.swap_or_add }
        };
        self.await_host(packet, shared, Step::Atomic, false);
        Arrival::Atomic(Atomic { remote, op })
    }
}

fn range_of(packet: &Packet) -> Range {
    let reth = &packet.headers.reth;
    Range { remote: Remote { va: reth.va, rkey: reth.rkey }, len: reth.dma_len }
}
