//! What leaves: work requests to the engine, its datagrams to the wire, its answers back.

use std::net::Ipv4Addr;
use std::sync::atomic::Ordering;

use srd::{Address, Event, Instant, Message, MsgId};

use super::{Core, FLAG_IMM, OP_SEND};
use crate::AHN_UNKNOWN;
use crate::counters::Counter;
use crate::cq::{Completion, CompletionOp};
use crate::qp::{QpKind, SendData, SendOp, SendWr, socket_addr};
use crate::sq::SendSlot;
use crate::status::Status;

/// Posted and not yet offered to the wire, from which on posting transmits by itself.
const UNSENT_MESSAGES: u32 = 64;
const UNSENT_BYTES: u32 = 56 << 10;

impl Core {
    /// Takes a send; `false` when the queue is full.
    pub(crate) fn post_send(&mut self, mut slot: SendSlot, wr: &SendWr<'_>) -> bool {
        // Nothing in taking a message depends on the time since the last turn.
        let now = self.last_turn;
        if let Some(status) = self.check_send(&slot, wr) {
            self.complete_send(&slot, status);
            return true;
        }
        let (len, op) = (slot.len, slot.op);
        let host = u64::from(u32::from(wr.ah.addr()));
        if self.kind == QpKind::Srd {
            slot.peer = Some(self.endpoint.peer(now, Address { host, qpn: wr.remote_qpn }));
        }
        let peer = slot.peer;
        let Some(index) = self.sq.insert(slot) else { return false };
        self.device.counters.add(Counter::SendWrs, 1);
        self.device.counters.add(Counter::SendBytes, u64::from(len));
        self.unsent_messages += 1;
        self.unsent_bytes = self.unsent_bytes.saturating_add(len);
        let Some(peer) = peer else {
            self.queue_ud(index, wr);
            return true;
        };
        let (flags, imm) = imm_of(op);
        let message = Message {
            id: MsgId(u64::from(index)),
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
        if slot.len > self.device.attr().max_msg_bytes {
            return Some(Status::LocalBadLength);
        }
        let SendData::Sges(sges) = wr.data else { return None };
        let allowed = sges.iter().all(|sge| sge.len == 0 || self.send_mrs.allows(sge, false));
        (!allowed).then_some(Status::LocalInvalidLkey)
    }

    /// Enough was posted to fill a burst.
    pub(crate) fn should_transmit(&self) -> bool {
        self.unsent_messages >= UNSENT_MESSAGES || self.unsent_bytes >= UNSENT_BYTES
    }

    /// Turns what the engine finished into completions.
    pub(super) fn harvest(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            if let Event::Completed { msg, status, .. } = event
                && let Ok(index) = u32::try_from(msg.0)
            {
                self.finish_send(index, status.into());
            }
        }
    }

    pub(super) fn finish_send(&mut self, index: u32, status: Status) {
        if let Some(slot) = self.sq.complete(index) {
            self.complete_send(&slot, status);
        }
    }

    pub(super) fn complete_send(&mut self, slot: &SendSlot, status: Status) {
        if !slot.signaled && status == Status::Ok {
            self.credits.fetch_sub(1, Ordering::AcqRel);
            return;
        }
        self.sends_done.push(Completion {
            wr_id: slot.wr_id,
            status,
            op: CompletionOp::Send,
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
        let mut header = [0; srd::HEADER_MAX];
        loop {
            while !self.batch.is_full()
                && let Some(out) = self.endpoint.poll_transmit(now, &mut header)
            {
                let to = socket_addr(out.addr.host, out.addr.qpn);
                let index =
                    out.msg.map_or(u32::MAX, |msg| u32::try_from(msg.0).unwrap_or(u32::MAX));
                let payload = self.sq.payload(index);
                self.batch.push(to, out.path.0, &header[..out.header_len], payload);
            }
            let is_last = !self.batch.is_full();
            if !self.batch.is_empty() {
                self.send_batch(now);
            }
            if is_last {
                break;
            }
        }
    }

    pub(super) fn send_batch(&mut self, now: Instant) {
        let sent = self.wire.send(now, &mut self.batch);
        assert!(self.batch.is_empty(), "a wire sends or drops the whole batch");
        self.count_sent(&sent);
    }
}

pub(super) fn imm_of(op: SendOp) -> (u8, u32) {
    match op {
        SendOp::Send => (0, 0),
        SendOp::SendImm(imm) => (FLAG_IMM, imm),
    }
}
