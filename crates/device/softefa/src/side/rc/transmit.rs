//! Transmitting: packets from the engine to the wire.

use rc::wire::{Bth, Kind, NakCode, Opcode, Syndrome, Transport};
use rc::{HEADER_MAX, Payload, Psn, Status as RcStatus, Transmit, WrId};
use srd::Instant;
use std::net::SocketAddr;

use super::serve::index_of;
use super::{RcSide, time};
use crate::memory::{Gone, Piece};
use crate::mr::Right;
use crate::status::Status;
use crate::wire::{Impossible, MAX_PACKETS, Via};

/// The most bursts of one turn: a queue pair that answers a long READ must also receive, and other
/// queue pairs need turns.
const BURSTS_PER_TURN: usize = 2;
/// The payload of joined packets (RC-1.15): long enough that the cost per packet is small, short
/// enough that the peer copies one part of a message while the next one is written.
const JOINED_BYTES: u32 = 32 << 10;
/// The most bytes that are joined in a burst, so that it always fits into a ring.
const JOINED_BURST_BYTES: u32 = 512 << 10;
/// The payload of requests that surely make one train of datagrams with an acknowledgement.
const TRAIN_BYTES: u64 = 32 << 10;
/// The bytes that an acknowledgement begins with.
const ACKNOWLEDGE: [u8; 2] = [
    Opcode { transport: Transport::Rc, kind: Kind::Acknowledge }.to_byte(),
    Opcode { transport: Transport::Xrc, kind: Kind::Acknowledge }.to_byte(),
];

/// The owner of a packet's bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Leaving {
    /// There are none: it is an acknowledgement or a refusal, and a later one includes it.
    Acknowledgement,
    /// There are none.
    Headers,
    /// The bytes are those of the work request in this slot.
    Request(u32),
    /// The bytes are those that the peer reads, in the answer with this number.
    Response(Psn),
}

impl RcSide {
    pub(super) fn transmit_packets(&mut self, now: Instant) {
        if self.holds_acks || !self.endpoint.has_backlog() || self.shell.is_blocked() {
            // Most turns of a polling program.
            return;
        }
        let Some(peer) = self.peer else { return };
        if self.is_closing {
            return self.transmit_last(now, peer);
        }
        self.takes_kernel = !self.kernel_traffic.is_free(now, self.endpoint.acknowledged());
        if self.takes_kernel
            && self.kernel_traffic.is_worth_a_pause(now)
            && self.shell.has_ring_to(peer)
        {
            self.endpoint.pause_requests();
        }
        if !self.takes_kernel && self.kernel_traffic.has_ack() {
            self.repeat_ack(now, peer);
        }
        for _ in 0..BURSTS_PER_TURN {
            let is_last = self.fill_batch(now, peer);
            if !self.shell.batch().is_empty() {
                self.send(now);
            }
            if is_last || self.shell.is_blocked() {
                break;
            }
        }
        self.harvest(now);
    }

    /// Sends the remaining packets of a destroyed queue pair: acknowledgements, and answers without
    /// bytes, but no request for missing packets, which would not be received. The memory that
    /// peers read belongs to the program alone now; readers get no answer, as from hardware.
    #[cold]
    fn transmit_last(&mut self, now: Instant, peer: SocketAddr) {
        self.takes_kernel = true;
        let mut header = [0; HEADER_MAX];
        // A long READ that is asked for again takes its time, as if it were answered.
        for _ in 0..MAX_PACKETS {
            let Some(out) = self.endpoint.poll_joined(time(now), &mut header, 0) else { break };
            let is_withheld = matches!(out.payload, Payload::Response { .. }) || asks(&header);
            let lapses = self.shell.faults.lapses.is_active();
            if is_withheld || lapses && !self.lapse(&out, &mut header) {
                continue;
            }
            self.push(now, peer, &out, &header[..out.header_len]);
        }
        if !self.shell.batch().is_empty() {
            self.send(now);
        }
        self.harvest(now);
    }

    /// Repeats the newest acknowledgement before requests through memory, which would overtake it
    /// on its way through the kernel (RC-6.5).
    #[cold]
    fn repeat_ack(&mut self, now: Instant, peer: SocketAddr) {
        if self.endpoint.has_unsent() && self.shell.has_ring_to(peer) {
            self.kernel_traffic.forget_ack();
            self.endpoint.repeat_ack(time(now));
        }
    }

    /// Fills the batch; returns whether there was room for everything. An acknowledgement stays
    /// before the requests, because their receiver may read it before all of them are there
    /// (RC-6.5). If it can make one train of datagrams with them it goes last: it is no longer than
    /// they are, so it leaves and arrives with them.
    fn fill_batch(&mut self, now: Instant, peer: SocketAddr) -> bool {
        let mut ack: Option<(Transmit, [u8; HEADER_MAX])> = None;
        let mut header = [0; HEADER_MAX];
        let mut joined_left = if self.has_long { self.room_for_joined(peer) } else { 0 };
        let takes_plain = joined_left == 0 && self.takes_plain_packets();
        let room = |this: &Self, has_ack| this.leaving.len() + usize::from(has_ack) < MAX_PACKETS;
        while room(self, ack.is_some()) {
            if takes_plain && self.push_plain_packet(now, &peer) {
                continue;
            }
            let joined = if self.takes_kernel { 0 } else { joined_left.min(JOINED_BYTES) };
            // Not copied right after it was written, which would stall the processor.
            let polled = self.endpoint.poll_joined(time(now), &mut header, joined);
            let Some(out) = &polled else { break };
            joined_left = joined_left.saturating_sub(out.payload.len());
            if self.shell.faults.lapses.is_active() && !self.lapse(out, &mut header) {
                continue;
            }
            let is_ack = out.payload == Payload::None && ACKNOWLEDGE.contains(&header[0]);
            if is_ack && ack.is_none() && self.is_train_with_ack(now, peer) {
                ack = Some((*out, header));
                continue;
            }
            self.push(now, peer, out, &header[..out.header_len]);
        }
        let is_last = room(self, ack.is_some());
        if let Some((out, header)) = ack {
            self.push(now, peer, &out, &header[..out.header_len]);
        }
        is_last
    }

    /// Returns true if the packets after an acknowledgement in the batch can make one train with
    /// it.
    fn is_train_with_ack(&self, now: Instant, peer: SocketAddr) -> bool {
        let takes_socket = self.takes_kernel || !self.shell.has_ring_to(peer);
        takes_socket
            && self.shell.has_trains_to(now, peer)
            && self.endpoint.is_next_uniform(MAX_PACKETS - 1, TRAIN_BYTES)
    }

    /// Returns how many bytes of joined packets a burst to `peer` may have.
    #[cold]
    fn room_for_joined(&mut self, peer: SocketAddr) -> u32 {
        self.has_long = !self.endpoint.is_quiescent();
        let via = Via::Stream(self.path);
        let has_room = !self.takes_kernel && self.shell.has_ring_for_burst(peer, via);
        if has_room { JOINED_BURST_BYTES } else { 0 }
    }

    pub(super) fn push(&mut self, now: Instant, peer: SocketAddr, out: &Transmit, header: &[u8]) {
        if self.shell.is_traced() {
            self.trace_transmit(out, header);
        }
        // What is repeated goes through the kernel, which knows whether anybody is there, and what
        // follows it goes the same way.
        let is_behind = self.takes_kernel;
        self.takes_kernel |= out.is_repeated;
        let is_ack = ACKNOWLEDGE.contains(&header[0]);
        let via = match (out.is_repeated, is_behind, self.is_reliable) {
            (true, ..) => Via::Kernel(self.path),
            (false, true, _) => Via::Behind(self.path),
            (false, false, true) if out.joined > 0 => Via::Memory(self.path),
            (false, false, true) if is_ack && is_positive(header) => {
                Via::Acknowledgement(self.path)
            }
            (false, false, true) => Via::Stream(self.path),
            (false, false, false) => Via::Patient(self.path),
        };
        let (leaving, pushed) = match out.payload {
            Payload::None => {
                let nothing = std::iter::empty();
                let leaving = if is_ack { Leaving::Acknowledgement } else { Leaving::Headers };
                (leaving, self.shell.push(peer, via, header, nothing))
            }
            Payload::Request { id, offset, len } => {
                let index = index_of(id);
                if !self.is_readable(index) {
                    self.endpoint.withdraw(time(now), id, RcStatus::LocalProtection);
                    return;
                }
                let pushed = self.shell.push_part(peer, via, header, index, (offset, len));
                (Leaving::Request(index), pushed)
            }
            Payload::Response { range, srq, offset, len } => {
                let psn = psn_of(header);
                let is_there = self.shell.turn_to(srq);
                let memory = self.check(range, Right::Read).ok().filter(|_| is_there);
                let Some(memory) = memory else {
                    self.endpoint.refuse_response(time(now), psn);
                    return;
                };
                let addr = memory + u64::from(offset);
                let piece = Piece { addr, len: len as usize };
                (Leaving::Response(psn), self.shell.push(peer, via, header, std::iter::once(piece)))
            }
        };
        match pushed {
            Ok(place) => {
                assert_eq!(place, self.leaving.len(), "one entry for each packet of the batch");
                if !out.is_repeated {
                    self.carried.sent_bytes += u64::from(out.payload.len());
                }
                self.leaving.push(leaving);
            }
            Err(Gone) => self.give_up(now, leaving, RcStatus::LocalProtection),
        }
    }

    /// Returns true if the bytes of the work request may (still) be read, and it may be sent.
    fn is_readable(&mut self, index: u32) -> bool {
        let shell = &mut self.shell;
        let slot = shell.sq.get(index);
        slot.is_some_and(|slot| slot.fault.is_none() && slot.is_readable(&mut shell.send_mrs))
    }

    fn send(&mut self, now: Instant) {
        if !self.shell.send_batch(now) {
            let has = |wanted: fn(&Leaving) -> bool| self.leaving.iter().any(wanted);
            let has_requests = has(|it| matches!(it, Leaving::Request(_) | Leaving::Headers));
            let has_answers = has(|it| matches!(it, Leaving::Response(_) | Leaving::Headers));
            let requests = has_requests.then(|| self.endpoint.sent());
            self.kernel_traffic.note_kernel(now, requests, has_answers);
            if has(|it| matches!(it, Leaving::Acknowledgement)) {
                self.kernel_traffic.note_ack();
            }
        }
        while let Some(Impossible { place, status }) = self.shell.take_impossible() {
            let Some(&leaving) = self.leaving.get(place) else { continue };
            let is_long = status == Status::LocalBadLength;
            let status = if is_long { RcStatus::LocalLength } else { RcStatus::LocalProtection };
            self.give_up(now, leaving, status);
        }
        self.leaving.clear();
    }

    /// Handles a packet whose bytes cannot be sent.
    #[cold]
    pub(super) fn give_up(&mut self, now: Instant, leaving: Leaving, status: RcStatus) {
        match leaving {
            Leaving::Acknowledgement | Leaving::Headers => {}
            Leaving::Request(index) => {
                self.endpoint.withdraw(time(now), WrId(u64::from(index)), status);
            }
            Leaving::Response(psn) => self.endpoint.refuse_response(time(now), psn),
        }
    }
}

/// Returns true if an acknowledgement is positive.
fn is_positive(header: &[u8]) -> bool {
    let syndrome = header.get(Bth::LEN).copied().map(Syndrome::from_code);
    matches!(syndrome, Some(Syndrome::Ack(_)))
}

/// Returns true if a packet is an acknowledgement that asks for missing packets.
fn asks(header: &[u8]) -> bool {
    let is_ack = ACKNOWLEDGE.contains(&header[0]);
    let syndrome = header.get(Bth::LEN).copied().map(Syndrome::from_code);
    is_ack && matches!(syndrome, Some(Syndrome::Nak(NakCode::Sequence)))
}

fn psn_of(header: &[u8]) -> Psn {
    Bth::parse(header).map_or(Psn::new(0), |bth| bth.psn)
}
