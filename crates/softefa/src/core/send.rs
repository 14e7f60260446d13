//! What leaves: work requests to the engine, its datagrams to the wire, its answers back.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use srd::{Address, Event, Instant, Message, Transmit};

use super::rdma::{Block, Body, Part};
use super::{Core, FLAG_IMM, OP_SEND};
use crate::AHN_UNKNOWN;
use crate::counters::Counter;
use crate::cq::{Completion, CompletionOp};
use crate::local_copy::Source;
use crate::memory::Gone;
use crate::qp::{QpKind, SendData, SendOp, SendWr, socket_addr};
use crate::sq::SendSlot;
use crate::status::Status;
use crate::wire::{Impossible, Piece};

/// Posted and not yet offered to the wire, from which on posting transmits by itself.
const UNSENT_MESSAGES: u32 = 64;
const UNSENT_BYTES: u32 = 56 << 10;

impl Core {
    /// Takes a send; `false` when the queue is full.
    pub(crate) fn post_send(&mut self, mut slot: SendSlot, wr: &SendWr<'_>) -> bool {
        // Nothing in taking a message depends on the time since the last turn.
        let now = self.last_turn;
        if self.trace.is_some() {
            self.trace_post(slot.len, wr);
        }
        if let Some(status) = self.check_send(&slot, wr) {
            self.complete_send(&slot, status);
            return true;
        }
        let (len, op) = (slot.len, slot.op);
        let host = u64::from(u32::from(wr.ah.addr()));
        if self.kind == QpKind::Srd {
            slot.to = Address { host, qpn: wr.remote_qpn };
            slot.peer = Some(self.endpoint.peer(now, slot.to));
        }
        let peer = slot.peer;
        let Some(index) = self.sq.insert(slot) else { return false };
        self.answering.note_post();
        self.unsent_messages += 1;
        self.unsent_bytes = self.unsent_bytes.saturating_add(len);
        if !matches!(op, SendOp::Send | SendOp::SendImm(_)) {
            self.start_rdma(now, index, wr.remote_qkey);
            return true;
        }
        self.sends.count += 1;
        self.sends.bytes += u64::from(len);
        let Some(peer) = peer else {
            self.queue_ud(index, wr);
            return true;
        };
        let (flags, imm) = imm_of(op);
        let message = Message {
            id: Part::Send(index).to_msg(),
            len,
            op: OP_SEND,
            flags,
            qkey: wr.remote_qkey,
            imm,
            rnr_retry: self.attrs.rnr_retry,
        };
        if self.endpoint.send(now, peer, message).is_err() {
            // Lengths and counts were checked; what is left is the engine refusing on principle.
            self.finish_send(index, Status::LocalQpInternalError);
        }
        true
    }

    pub(super) fn check_send(&mut self, slot: &SendSlot, wr: &SendWr<'_>) -> Option<Status> {
        if self.refusals.is_internal_error() {
            self.device.counters.add(Counter::FaultInternal, 1);
            return Some(Status::LocalQpInternalError);
        }
        let attr = self.device.attr();
        let (possible, max_bytes) = match slot.op {
            SendOp::Send | SendOp::SendImm(_) => (true, attr.max_msg_bytes),
            SendOp::Read(_) => (attr.caps.rdma_read, attr.max_rdma_bytes),
            SendOp::Write(_) | SendOp::WriteImm(..) => (attr.caps.rdma_write, attr.max_rdma_bytes),
        };
        let is_message = matches!(slot.op, SendOp::Send | SendOp::SendImm(_));
        if !possible || (!is_message && self.kind == QpKind::Ud) {
            return Some(Status::LocalUnsupportedOp);
        }
        if !wr.ah.serves(self.pd) {
            return Some(Status::LocalInvalidAh);
        }
        if slot.len > max_bytes {
            return Some(Status::LocalBadLength);
        }
        let SendData::Sges(sges) = wr.data else {
            let is_read = matches!(slot.op, SendOp::Read(_));
            return is_read.then_some(Status::LocalUnsupportedOp);
        };
        if !is_message && sges.len() > 1 {
            return Some(Status::LocalUnsupportedOp);
        }
        let is_written = matches!(slot.op, SendOp::Read(_));
        let allowed = sges.iter().all(|sge| sge.len == 0 || self.send_mrs.allows(sge, is_written));
        (!allowed).then_some(Status::LocalInvalidLkey)
    }

    /// Nothing is on its way whose completion would bring a poll, or enough was posted to fill a
    /// burst. `unpolled` sends were posted before and their completions not polled; `op` is the last.
    pub(crate) fn should_transmit(&self, unpolled: u32, op: SendOp) -> bool {
        let is_idle = match self.kind {
            // The bytes of others come first in the next turn, and what it confirms then leaves
            // together with this: waking who sleeps there costs as much as copying 100 KiB.
            QpKind::Srd if matches!(op, SendOp::Read(_)) && self.rdma.has_copies() => false,
            QpKind::Srd => self.endpoint.in_flight() <= self.unsent_messages as usize,
            // Unreliable ones are done as soon as they left: what is unpolled tells a stream.
            QpKind::Ud => unpolled == 0,
        };
        let is_burst = self.unsent_messages >= UNSENT_MESSAGES || self.unsent_bytes >= UNSENT_BYTES;
        is_idle || is_burst
    }

    /// Turns what the engine finished into completions.
    pub(super) fn harvest(&mut self, now: Instant) {
        while let Some(event) = self.endpoint.poll_event() {
            let Event::Completed { msg, status, .. } = event else {
                self.trace_event(&event);
                continue;
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

    pub(super) fn finish_send(&mut self, index: u32, status: Status) {
        let Some(slot) = self.sq.complete(index) else { return };
        let status = match status {
            // Who refuses GONE has not got what was asked for, and cannot get it any more.
            Status::RemoteBadStatus if slot.is_gone => Status::LocalInvalidLkey,
            status => status,
        };
        self.complete_send(&slot, slot.fault.unwrap_or(status));
    }

    pub(super) fn complete_send(&mut self, slot: &SendSlot, status: Status) {
        if status != Status::Ok {
            self.count_failed(slot.op);
        }
        if !slot.signaled && status == Status::Ok {
            self.unpolled.sends.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        let is_write = matches!(slot.op, SendOp::Write(_) | SendOp::WriteImm(..));
        self.sends_done.push(Completion {
            wr_id: slot.wr_id,
            status,
            op: if is_write { CompletionOp::Write } else { CompletionOp::Send },
            qpn: self.qpn,
            src_qpn: 0,
            ahn: AHN_UNKNOWN,
            src_addr: Ipv4Addr::UNSPECIFIED,
            byte_len: 0,
            imm: None,
            has_grh: false,
            owner: self.send_owner,
        });
    }

    /// Sends what may be sent now.
    pub(crate) fn transmit(&mut self, now: Instant) {
        (self.unsent_messages, self.unsent_bytes) = (0, 0);
        if self.kind == QpKind::Ud {
            self.transmit_ud(now);
            return;
        }
        if !self.endpoint.has_backlog() {
            // Most turns of a polling program: not even the header buffer is worth clearing.
            return;
        }
        let mut header = [0; srd::HEADER_MAX];
        loop {
            while !self.batch.is_full()
                && let Some(out) = self.endpoint.poll_transmit(now, &mut header)
            {
                self.push(now, &out, &header);
            }
            let is_last = !self.batch.is_full();
            if !self.batch.is_empty() {
                self.send_batch(now);
            }
            if is_last {
                break;
            }
        }
        // What was withdrawn instead of sent.
        self.harvest(now);
    }

    /// Adds a datagram of the engine to the batch, unless its bytes are not ours to read any more:
    /// a retransmission comes later than the check at posting.
    fn push(&mut self, now: Instant, out: &Transmit, header: &[u8; srd::HEADER_MAX]) {
        if out.retransmission
            && let Some(part) = out.msg.map(Part::from_msg)
            && self.may_be_gone(part)
        {
            self.send_again(now, out, header, part);
            return;
        }
        if let (Some(msg), Some(peer)) = (out.msg, out.peer)
            && let Part::Send(index) | Part::Write(index, _) | Part::WriteLocal(index, _) =
                Part::from_msg(msg)
            && let Some(slot) = self.sq.get_mut(index)
            && !slot.is_readable(&mut self.send_mrs)
        {
            slot.fault = Some(Status::LocalInvalidLkey);
            self.endpoint.withdraw(now, peer, msg);
            return;
        }
        if let Err(Gone) = self.try_push(out, &header[..out.header_len]) {
            // The peer may not know of it; the question whether it does ends the message.
            let part = out.msg.map(Part::from_msg).expect("only messages have payload");
            self.send_again(now, out, header, part);
            return;
        }
        if self.trace.is_some() {
            self.trace_transmit(out, header);
        }
        self.batch.tag_last(out.peer.zip(out.msg));
    }

    /// Adds a datagram with its payload, unless the payload is short and [`Gone`].
    fn try_push(&mut self, out: &Transmit, header: &[u8]) -> Result<(), Gone> {
        let to = socket_addr(out.addr.host, out.addr.qpn);
        match out.msg.map(Part::from_msg) {
            None => self.batch.push(to, out.path.0, header, std::iter::empty()),
            Some(Part::Send(index)) => {
                self.batch.push(to, out.path.0, header, self.sq.payload(index))
            }
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
                self.batch.push(to, out.path.0, header, piece.into_iter())
            }
        }
    }

    pub(super) fn send_batch(&mut self, now: Instant) {
        let sent = self.wire.send(now, &mut self.batch);
        assert!(self.batch.is_empty(), "a wire sends or drops the whole batch");
        self.count_sent(&sent);
        while let Some(Impossible { tag: (peer, msg), status }) = self.batch.take_impossible() {
            if let Part::Send(index) | Part::Write(index, _) = Part::from_msg(msg)
                && let Some(slot) = self.sq.get_mut(index)
            {
                slot.fault = Some(status);
            }
            self.endpoint.withdraw(now, peer, msg);
        }
    }
}

pub(super) fn imm_of(op: SendOp) -> (u8, u32) {
    match op {
        SendOp::SendImm(imm) | SendOp::WriteImm(_, imm) => (FLAG_IMM, imm),
        SendOp::Send | SendOp::Read(_) | SendOp::Write(_) => (0, 0),
    }
}
