//! Sending: work requests to the engine, its datagrams to the wire, and its results back.

use srd::wire::{Flags, Header};
use srd::{Event, Instant, Message, Transmit};

use super::frame::SHARED_BYTES_MAX;
use super::rdma::{Block, Body, Part};
use super::{OP_SEND, SrdSide, address, socket_addr};
use crate::local_copy::Source;
use crate::memory::{Gone, Piece};
use crate::side::imm_of;
use crate::status::Status;
use crate::wire::{Impossible, Via};

impl SrdSide {
    /// Passes the work request in slot `index` to the engine, or begins its RDMA.
    pub(super) fn start_send(&mut self, now: Instant, index: u32) {
        self.answering.note_post();
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let peer = self.endpoint.peer(now, address(slot.to));
        slot.peer = Some(peer);
        if slot.op.is_rdma() {
            self.start_rdma(now, index);
            return;
        }
        let (flags, imm) = imm_of(slot.op);
        let message = Message {
            id: Part::Send(index).to_msg(),
            len: slot.len,
            op: OP_SEND,
            flags,
            qkey: slot.qkey,
            imm,
            rnr_retry: self.shell.attrs.rnr_retry,
            is_one_sided: false,
            may_share: slot.len <= SHARED_BYTES_MAX,
        };
        if self.endpoint.send(now, peer, message).is_err() {
            // Lengths and counts were checked; what is left is the engine refusing on principle.
            self.finish_send(index, Status::LocalQpInternalError);
        }
    }

    /// Turns finished messages of the engine into completions.
    pub(super) fn harvest(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            let (msg, status) = match event {
                Event::Completed { msg, status, .. } => (msg, status),
                other => {
                    self.trace_event(&other);
                    continue;
                }
            };
            let status = Status::from(status);
            match Part::from_msg(msg) {
                Part::Send(index) => self.finish_send(index, status),
                part @ (Part::ReadData(job, _) | Part::ReadFail(job) | Part::ReadGrant(job)) => {
                    self.job_part_done(job, part, status);
                }
                part @ (Part::Write(index, _)
                | Part::WriteLocal(index, _)
                | Part::WriteTail(index)
                | Part::ReadRequest(index)
                | Part::ReadConfirm(index)
                | Part::Probe(index, _)) => self.part_done(now, index, part, status),
            }
        }
    }

    #[inline]
    pub(super) fn finish_send(&mut self, index: u32, status: Status) {
        self.shell.finish_send(index, status);
    }

    /// Sends the engine's datagrams.
    pub(super) fn transmit_srd(&mut self, now: Instant) {
        if !self.endpoint.has_backlog() || self.shell.is_blocked() {
            // Most turns of a polling program.
            return;
        }
        self.allow_frames();
        let mut header = self.header.take().unwrap_or_else(|| Box::new([0; srd::HEADER_MAX]));
        loop {
            while !self.shell.batch().is_full() {
                let Some(out) = self.endpoint.poll_transmit(now, &mut header) else { break };
                self.push(now, &out, &header);
            }
            let is_last = !self.shell.batch().is_full();
            if !self.shell.batch().is_empty() {
                self.send_batch(now);
            }
            if is_last || self.shell.is_blocked() {
                break;
            }
        }
        self.header = Some(header);
        // What was withdrawn instead of sent.
        self.harvest(now);
    }

    /// Adds a datagram of the engine to the batch, unless its bytes may not be read any more: a
    /// retransmission comes later than the check at posting.
    fn push(&mut self, now: Instant, out: &Transmit, header: &[u8; srd::HEADER_MAX]) {
        if out.framed > 0 {
            return self.push_frame(out, header);
        }
        if out.retransmission {
            let part = out.msg.map(Part::from_msg);
            if let Some(part) = part.filter(|part| self.may_be_gone(*part)) {
                self.send_again(now, out, header, part);
                return;
            }
        }
        if let (Some(msg), Some(peer)) = (out.msg, out.peer) {
            let part = Part::from_msg(msg);
            // Whether the peer has copied it is not known: it is asked, and refuses what it cannot
            // read any more.
            let is_asked = out.retransmission && matches!(part, Part::WriteLocal(..));
            if !is_asked && self.fail_unreadable(part) {
                self.endpoint.withdraw(now, peer, msg);
                return;
            }
        }
        if let Err(Gone) = self.try_push(out, &header[..out.header_len]) {
            // The peer may not know of it; the question whether it does ends the message.
            let part = out.msg.map(Part::from_msg).expect("only messages have payload");
            self.send_again(now, out, header, part);
            return;
        }
        if self.shell.is_traced() {
            self.trace_transmit(out, header);
        }
        self.leaving.push(out.peer.map(|peer| (peer, out.msg)));
    }

    /// Fails the work request of `part` if the adapter may not read its payload any more; returns
    /// whether it did.
    #[inline]
    pub(super) fn fail_unreadable(&mut self, part: Part) -> bool {
        let (Part::Send(index) | Part::Write(index, _) | Part::WriteLocal(index, _)) = part else {
            return false;
        };
        let Some(slot) = self.shell.sq.get_mut(index) else { return false };
        if slot.is_readable(&mut self.shell.send_mrs) {
            return false;
        }
        slot.fault = Some(Status::LocalInvalidLkey);
        true
    }

    /// Adds a datagram with its payload. Fails with [`Gone`] if the payload is short and its memory
    /// is gone.
    #[inline]
    fn try_push(&mut self, out: &Transmit, header: &[u8]) -> Result<usize, Gone> {
        let to = socket_addr(out.addr.host, out.addr.qpn);
        let via = via(out, header);
        match out.msg.map(Part::from_msg) {
            None => self.shell.push(to, via, header, std::iter::empty()),
            Some(Part::Send(index)) => self.shell.push_slot(to, via, header, index),
            Some(part) => {
                let (block, body) = self.rdma_part(part);
                let mut both = [0; srd::HEADER_MAX + Block::LEN];
                both[..header.len()].copy_from_slice(header);
                both[header.len()..][..Block::LEN].copy_from_slice(&block.emit());
                let header = &both[..header.len() + Block::LEN];
                // A source is short: the batch copies it at once.
                let source: [u8; Source::LEN];
                let piece = match body {
                    Body::Empty => None,
                    Body::Bytes(bytes) => Some(bytes),
                    Body::Source(body) => {
                        source = body.emit();
                        Some(Piece { addr: source.as_ptr() as usize as u64, len: Source::LEN })
                    }
                };
                self.shell.push(to, via, header, piece.into_iter())
            }
        }
    }

    pub(super) fn send_batch(&mut self, now: Instant) {
        self.shell.send_batch(now);
        while let Some(Impossible { place, status }) = self.shell.take_impossible() {
            let Some((peer, msg)) = self.leaving[place] else { continue };
            let Some(msg) = msg else {
                self.endpoint.refuse_frames(peer);
                continue;
            };
            let part = Part::from_msg(msg);
            if matches!(part, Part::ReadData(..)) && status == Status::LocalInvalidLkey {
                // Its repetition finds out that the bytes are gone, and tells who reads them.
                continue;
            }
            if let Part::Send(index) | Part::Write(index, _) = part {
                if let Some(slot) = self.shell.sq.get_mut(index) {
                    slot.fault = Some(status);
                }
            }
            self.endpoint.withdraw(now, peer, msg);
        }
        self.leaving.clear();
    }
}

/// Returns how a datagram leaves. One that opens a connection, is repeated or probes uses the
/// kernel, which knows when the peer is gone (SRD-12.6).
#[inline]
pub(super) fn via(out: &Transmit, header: &[u8]) -> Via {
    const THROUGH_KERNEL: u8 = Flags::INIT.0 | Flags::RTX.0 | Flags::PROBE.0 | Flags::FINAL_TRY.0;
    let path = out.path.0;
    match header.get(Header::FLAGS_AT) {
        _ if out.peer.is_none() => Via::OwnSocket,
        Some(flags) if flags & THROUGH_KERNEL == 0 => Via::Path(path),
        _ => Via::Kernel(path),
    }
}
