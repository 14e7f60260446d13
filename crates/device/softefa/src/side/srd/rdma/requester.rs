//! The side that asks: WRITE segments out, READ data in.

use srd::{Arrival, Instant, Message, Reject, SendError};

use super::{
    Block, Extras, OP_PROBE, OP_READ, OP_WRITE, OP_WRITE_LOCAL, PROBE_NS, Part, RNR_RETRY_FOREVER,
    SEGMENTS_PER_TURN, Waiting, local,
};
use crate::counters::Counter;
use crate::datagram::Payload;
use crate::local_copy::Source;
use crate::request::{Remote, SendOp};
use crate::side::FLAG_IMM;
use crate::side::srd::SrdSide;
use crate::side::srd::address;
use crate::sq::{SendSlot, Transfer};
use crate::status::Status;

/// Bits of a READ's tag that name its slot; the others tell its predecessors in the slot apart.
const TAG_SLOT_BITS: u32 = 12;
pub(super) const SERIAL_MASK: u32 = (1 << (32 - TAG_SLOT_BITS)) - 1;

impl SrdSide {
    /// Bytes of an operation in one message.
    pub(super) fn segment_bytes(&self) -> u32 {
        self.shell.device.attr().max_msg_bytes - Block::LEN as u32
    }

    /// Begins the RDMA work request in slot `index`.
    pub(in crate::side::srd) fn start_rdma(&mut self, now: Instant, index: u32) {
        let serial = self.rdma.next_serial();
        let imm = self.shell.attrs.qkey;
        let Some(slot) = self.shell.sq.get(index) else { return };
        let is_local = self.is_local(now, slot);
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        slot.transfer = Transfer { serial, is_local, ..Transfer::NONE };
        let len = u64::from(slot.len);
        if matches!(slot.op, SendOp::Read(_)) {
            self.shell.device.counters.add(Counter::RdmaReadWrs, 1);
            self.shell.device.counters.add(Counter::RdmaReadBytes, len);
            self.rdma.next_probe.get_or_insert_with(|| now.plus_ns(PROBE_NS));
            let flags = if is_local { local::FLAG_LOCAL } else { 0 };
            self.give(now, index, Part::ReadRequest(index), OP_READ, 0, Extras { flags, imm });
        } else {
            self.shell.device.counters.add(Counter::RdmaWriteWrs, 1);
            self.shell.device.counters.add(Counter::RdmaWriteBytes, len);
            if is_local {
                self.shell.sq.begin_lease(index);
            }
            self.queue_write(index);
            self.feed(now);
        }
    }

    /// The WRITE in slot `index` waits for its turn.
    pub(super) fn queue_write(&mut self, index: u32) {
        let Some(slot) = self.shell.sq.get(index) else { return };
        let Some(peer) = slot.peer else { return };
        let (is_local, serial) = (slot.transfer.is_local, slot.transfer.serial);
        let tells = self.tells_at_once(slot, is_local);
        self.rdma.writes_that(is_local, tells).push(peer, Waiting { index, serial });
    }

    /// The WRITE in `slot` is one message, which tells its receiver.
    fn tells_at_once(&self, slot: &SendSlot, is_local: bool) -> bool {
        let segment = if is_local { local::SEGMENT_BYTES } else { self.segment_bytes() };
        matches!(slot.op, SendOp::WriteImm(..)) && slot.len <= segment
    }

    /// Gives one message of slot `index` to the engine; a refusal ends the work request.
    pub(super) fn give(
        &mut self,
        now: Instant,
        index: u32,
        part: Part,
        op: u8,
        bytes: u32,
        extras: Extras,
    ) {
        let Extras { flags, imm } = extras;
        let tells = flags & FLAG_IMM != 0;
        let rnr_retry = if tells { self.shell.attrs.rnr_retry } else { RNR_RETRY_FOREVER };
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let Some(peer) = slot.peer else { return };
        let len = Block::LEN as u32 + bytes;
        let qkey = slot.qkey;
        let (id, is_one_sided, may_share) = (part.to_msg(), !tells, false);
        let message = Message { id, len, op, flags, qkey, imm, rnr_retry, is_one_sided, may_share };
        let mut given = self.endpoint.send(now, peer, message).map(|()| peer);
        if given == Err(SendError::StalePeer) && slot.transfer.in_engine == 0 {
            // Nothing was said for long, because the bytes of others were copied: begin anew.
            let peer = self.endpoint.peer(now, address(slot.to));
            slot.peer = Some(peer);
            given = self.endpoint.send(now, peer, message).map(|()| peer);
        }
        if let Ok(peer) = given {
            slot.transfer.in_engine += 1;
            self.rdma.entered(peer, part, tells);
        } else {
            // The engine is closing. Nothing else may come to end the work request.
            slot.transfer.failed.get_or_insert(Status::LocalQpInternalError);
            self.end_transfer(now, index);
        }
    }

    /// Ends the RDMA work request in slot `index`, of which nothing is in the engine any more.
    pub(in crate::side::srd) fn flush_transfer(&mut self, now: Instant, index: u32) {
        if let Some(slot) = self.shell.sq.get_mut(index) {
            slot.transfer.failed.get_or_insert(Status::Flushed);
            self.end_transfer(now, index);
        }
    }

    /// Completes an RDMA work request if nothing of it is left.
    fn end_transfer(&mut self, now: Instant, index: u32) {
        match self.shell.sq.get(index).map(|slot| slot.op) {
            Some(SendOp::Read(_)) => self.end_read(index),
            Some(_) => self.end_write(now, index),
            None => {}
        }
    }

    /// Gives segments to the engine, a few of each operation in turn, as many as it can use.
    pub(in crate::side::srd) fn feed(&mut self, now: Instant) {
        while let Some(waiting) = self.rdma.local.writes.pop() {
            self.feed_write(now, waiting, 1);
        }
        while let Some(waiting) = self.rdma.writes.pop() {
            self.feed_write(now, waiting, SEGMENTS_PER_TURN);
        }
        while let Some(waiting) = self.rdma.receive_consuming.pop() {
            self.feed_write(now, waiting, 1);
        }
        while let Some(waiting) = self.rdma.local.receive_consuming.pop() {
            self.feed_write(now, waiting, 1);
        }
        while let Some(waiting) = self.rdma.serving.pop() {
            self.feed_read_data(now, waiting);
        }
    }

    /// Gives up to `count` segments of a WRITE that has more, if it is still the one that waited.
    fn feed_write(&mut self, now: Instant, Waiting { index, serial }: Waiting, count: usize) {
        let wire_segment = self.segment_bytes();
        for _ in 0..count {
            // Also after a refusal, which ends the work request: its slot may be another's.
            let Some(slot) = self.shell.sq.get_mut(index) else { return };
            if slot.transfer.serial != serial {
                return;
            }
            let (at, total) = (slot.transfer.next, slot.len);
            if slot.transfer.failed.is_some() {
                self.end_write(now, index);
                return;
            }
            let is_local = slot.transfer.is_local;
            let segment = if is_local { local::SEGMENT_BYTES } else { wire_segment };
            let bytes = segment.min(total - at);
            slot.transfer.next = at + bytes;
            let extras = self.write_recv.extras(slot.op, bytes == total);
            if is_local {
                let part = Part::WriteLocal(index, at / segment);
                self.give(now, index, part, OP_WRITE_LOCAL, Source::LEN as u32, extras);
            } else {
                self.give(now, index, Part::Write(index, at / segment), OP_WRITE, bytes, extras);
            }
            if at + bytes == total {
                return;
            }
        }
        if self.shell.sq.get(index).is_some_and(|slot| slot.transfer.serial == serial) {
            self.queue_write(index);
        }
    }

    /// A part of slot `index` has left the engine.
    pub(in crate::side::srd) fn part_done(
        &mut self,
        now: Instant,
        index: u32,
        part: Part,
        status: Status,
    ) {
        let Some(slot) = self.shell.sq.get(index) else { return };
        let tells = self.tells_at_once(slot, matches!(part, Part::WriteLocal(..)));
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        slot.transfer.in_engine -= 1;
        if let Some(peer) = slot.peer {
            self.rdma.left(peer, part, tells);
        }
        let is_needless = matches!(
            part, Part::Probe(_, serial) if serial != slot.transfer.serial || slot.is_read_whole()
        );
        if status != Status::Ok && !is_needless {
            slot.transfer.failed.get_or_insert(status);
        }
        self.end_transfer(now, index);
    }

    /// Completes a WRITE when nothing of it is left.
    fn end_write(&mut self, now: Instant, index: u32) {
        let wire_segment = self.segment_bytes();
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let transfer = slot.transfer;
        if transfer.in_engine > 0 || (transfer.failed.is_none() && transfer.next < slot.len) {
            return;
        }
        if transfer.is_local && transfer.failed == Some(Status::RemoteBadStatus) {
            self.write_over_the_wire(now, index);
            return;
        }
        let segment = if transfer.is_local { local::SEGMENT_BYTES } else { wire_segment };
        let needs_tail = matches!(slot.op, SendOp::WriteImm(..)) && slot.len > segment;
        if transfer.failed.is_none() && needs_tail && !transfer.tail_sent {
            // Only now (SRD-10.3): the receiver must not hear of bytes that are still on their way.
            slot.transfer.tail_sent = true;
            let extras = self.write_recv.extras(slot.op, true);
            self.give(now, index, Part::WriteTail(index), OP_WRITE, 0, extras);
            return;
        }
        self.finish_send(index, transfer.failed.unwrap_or(Status::Ok));
    }

    /// Completes a READ when its request and all its bytes are accounted for (SRD-10.4).
    pub(super) fn end_read(&mut self, index: u32) {
        let Some(slot) = self.shell.sq.get(index) else { return };
        let (transfer, is_whole) = (slot.transfer, slot.is_read_whole());
        if transfer.in_engine == 0 && (is_whole || transfer.failed.is_some()) {
            if transfer.is_copied() && !is_whole {
                self.rdma.local.cancel(index, transfer.serial);
            }
            self.finish_send(index, transfer.failed.unwrap_or(Status::Ok));
        }
    }

    /// The slot an answer is for.
    pub(super) fn slot_of(&mut self, tag: u32, arrival: &Arrival) -> Option<(u32, &mut SendSlot)> {
        let index = tag & ((1 << TAG_SLOT_BITS) - 1);
        let slot = self.shell.sq.get_mut(index)?;
        let fits = matches!(slot.op, SendOp::Read(_))
            && slot.transfer.serial == tag >> TAG_SLOT_BITS
            && slot.peer == Some(arrival.peer);
        fits.then_some((index, slot))
    }

    /// Places bytes that were asked for. Answers to a READ that has ended are taken and dropped.
    pub(in crate::side::srd) fn take_read_data(
        &mut self,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, bytes) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        let Some((index, slot)) = self.slot_of(block.tag, arrival) else { return Ok(()) };
        let transfer = slot.transfer;
        // Bytes nobody asked for: they are being copied, or there are more than that.
        let is_excess = transfer.is_copied() || bytes.len() > (slot.len - transfer.placed) as usize;
        let target = match slot.part_of_first(block.offset, bytes.len() as u32) {
            _ if block.key != 0 => Err(Status::RemoteBadAddress),
            _ if block.total != slot.len || is_excess => Err(Status::RemoteBadStatus),
            None => Err(Status::RemoteBadStatus),
            Some(sge) => Ok(sge),
        };
        let placed = target.and_then(|sge| {
            // It may have been deregistered meanwhile.
            let allowed = sge.len == 0 || self.shell.recv_mrs.allows(&sge, true);
            let is_placed = allowed && bytes.copy_to(sge.addr).is_ok();
            if is_placed { Ok(sge) } else { Err(Status::LocalInvalidLkey) }
        });
        let Some(slot) = self.shell.sq.get_mut(index) else { return Ok(()) };
        match placed {
            Ok(sge) => {
                (slot.transfer.answered, slot.transfer.is_local) = (true, false);
                slot.transfer.placed += sge.len;
            }
            Err(status) => {
                slot.transfer.failed.get_or_insert(status);
            }
        }
        self.end_read(index);
        Ok(())
    }

    /// The responder does not know the READ (any more). One whose bytes were named, or are all
    /// here, is ours to end: the question was asked before (SRD-10.6).
    pub(in crate::side::srd) fn take_read_fail(
        &mut self,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, _) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        let is_owed = |slot: &SendSlot| !slot.transfer.is_copied() && !slot.is_read_whole();
        let slot = self.slot_of(block.tag, arrival);
        if let Some((index, slot)) = slot.filter(|(_, slot)| is_owed(slot)) {
            slot.transfer.failed.get_or_insert(Status::RemoteAbort);
            self.end_read(index);
        }
        Ok(())
    }

    /// Asks after READs that made no progress: their responder may be gone, and having accepted
    /// the request it owes the engine nothing.
    pub(in crate::side::srd) fn probe_reads(&mut self, now: Instant) {
        if self.rdma.next_probe.is_none_or(|at| at > now) {
            return;
        }
        let mut waiting = false;
        for index in 0..self.shell.sq.end() {
            let Some(slot) = self.shell.sq.get_mut(index) else { continue };
            if !matches!(slot.op, SendOp::Read(_)) {
                continue;
            }
            waiting = true;
            if slot.transfer.is_copied() {
                // It is us now.
                continue;
            }
            let placed = slot.transfer.placed;
            let is_stuck = slot.transfer.probed_at.replace(placed) == Some(placed);
            if is_stuck && slot.transfer.in_engine == 0 {
                let serial = slot.transfer.serial;
                let extras = Extras { flags: 0, imm: self.shell.attrs.qkey };
                self.give(now, index, Part::Probe(index, serial), OP_PROBE, 0, extras);
            }
        }
        self.rdma.next_probe = waiting.then(|| now.plus_ns(PROBE_NS));
    }

    /// The block in front of a part of slot `index`.
    pub(super) fn block_of(&self, index: u32, offset: u32) -> Block {
        let Some(slot) = self.shell.sq.get(index) else { return Block::default() };
        let tag = slot.transfer.serial << TAG_SLOT_BITS | index;
        match slot.op {
            SendOp::Read(remote) | SendOp::Write(remote) | SendOp::WriteImm(remote, _) => {
                let Remote { addr, rkey } = remote;
                Block { addr, key: rkey, total: slot.len, offset, tag }
            }
            _ => Block::default(),
        }
    }
}
