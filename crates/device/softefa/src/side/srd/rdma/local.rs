//! RDMA between processes of one machine: messages name the bytes, and whoever owns the memory
//! that is written copies them (SRD-10.7 to 10.10).
//!
//! ```text
//! WRITE   where the bytes are ------> checked, copied, accepted
//! READ    request, "may be local" --> checked
//!         copied   <----------------- where the bytes are
//!         confirm  -----------------> still registered? accepted = done
//! ```
//! What cannot be copied goes over the wire, and so does all with that peer for a while (`far`),
//! unless it only took the bytes back or they were not there.

use std::sync::Arc;

use srd::{Address, Arrival, Instant, PeerId, Reject};

use super::far::FarPeers;
use super::{Block, Body, Extras, Lanes, OP_READ, OP_READ_CONFIRM, Part};
use crate::counters::Counter;
use crate::datagram::Payload;
use crate::local_copy::copier;
use crate::local_copy::pull::{PIECE_BYTES, PullDriver, PullError, PullId, Pulls};
use crate::local_copy::{CopyError, Sealer, Source, Stretch};
use crate::mr::Right;
use crate::progress::live;
use crate::side::srd::{SrdSide, host_at, socket_addr};
use crate::sq::SendSlot;
use crate::status::Status;

/// Flag of a READ request: the requester may copy the bytes itself.
pub(super) const FLAG_LOCAL: u8 = 0x80;
/// Bytes of a WRITE in one message, which its responder copies in one piece.
pub(super) const SEGMENT_BYTES: u32 = PIECE_BYTES;
/// Shorter operations take the wire: two more messages cost more than they save.
const OPERATION_MIN_BYTES: u32 = 1 << 15;
/// Segments of WRITEs that wait to be copied by one responder at most: it copies them within one
/// turn, and owes acknowledgements until it is done.
const SEGMENTS_IN_ENGINE: u32 = 8;
/// Bytes a requester copies in one turn.
const TURN_BYTES: u32 = 4 * SEGMENT_BYTES;

/// The local copies of a queue pair.
#[derive(Debug)]
pub(super) struct Local {
    pulls: Arc<Pulls>,
    /// The number of READs among them.
    pulling: u32,
    /// WRITEs that have segments to announce.
    pub(super) writes: Lanes,
    /// WRITEs of one segment that consume a receive.
    pub(super) receive_consuming: Lanes,
    far: FarPeers,
}

impl Default for Local {
    fn default() -> Self {
        let [writes, receive_consuming] = [(); 2].map(|()| Lanes::new(SEGMENTS_IN_ENGINE));
        Self {
            pulls: Arc::default(),
            pulling: 0,
            writes,
            receive_consuming,
            far: FarPeers::default(),
        }
    }
}

impl Local {
    pub(super) fn has_copies(&self) -> bool {
        self.pulling > 0
    }

    /// Returns when nobody copies a piece that was begun before.
    pub(super) fn wait(&self) {
        self.pulls.wait();
    }

    /// Forgets a READ; its memory is not written any more.
    pub(super) fn cancel(&mut self, index: u32, serial: u32) {
        self.pulling -= u32::from(self.pulls.cancel(PullId { index, serial }));
    }

    /// Keeps what outlives the work requests; their memory is not written any more.
    pub(super) fn cleared(&mut self) -> Self {
        self.pulls.clear();
        Self { far: std::mem::take(&mut self.far), ..Self::default() }
    }
}

impl SrdSide {
    /// Returns what seals our sources for `peer`, if it may live on this machine (SRD-10.10).
    pub(super) fn sealer(&self, peer: PeerId) -> Option<Sealer> {
        let key = self.shell.device.local_key?;
        let to = self.endpoint.address(peer)?;
        let (ip, own) = (socket_addr(to.host, to.qpn).ip(), self.shell.device.addr());
        let from = Address { host: host_at(own), qpn: self.shell.port };
        (ip == own || ip.is_loopback()).then_some(Sealer { key, from, to })
    }

    /// Returns true if no fault keeps bytes from being copied. Whoever refuses to copy is asked
    /// again over the wire.
    pub(super) fn may_copy(&self) -> bool {
        !self.shell.keeps_to_the_wire()
    }

    /// The bytes `peer` names by `source`, if it may. Memory of this process is named by its own
    /// queue pairs only: the kernel lets a process read itself always, also one that its peer could
    /// not read.
    fn open(&self, peer: PeerId, source: &Source) -> Result<Stretch, Reject> {
        if !self.may_copy() {
            return Err(Reject::BadStatus);
        }
        let sealer = self.sealer(peer).ok_or(Reject::BadStatus)?.reversed();
        let stretch = source.open(&sealer).map_err(|_| Reject::BadStatus)?;
        let Address { host, qpn } = sealer.from;
        if stretch.is_of_this_process() && !live::is_own(socket_addr(host, qpn).ip(), qpn.into()) {
            return Err(Reject::BadStatus);
        }
        Ok(stretch)
    }

    /// Whether the bytes of a new operation are to be named instead of sent.
    pub(super) fn is_local(&self, now: Instant, slot: &SendSlot) -> bool {
        let is_near =
            |peer| self.sealer(peer).is_some() && !self.rdma.local.far.contains(now, peer);
        self.may_copy() && slot.len >= OPERATION_MIN_BYTES && slot.peer.is_some_and(is_near)
    }

    /// Returns where the bytes of a stretch of the WRITE in slot `index` lie.
    pub(super) fn write_local_of(&self, index: u32, number: u32) -> (Block, Body) {
        let offset = number * SEGMENT_BYTES;
        let block = self.block_of(index, offset);
        let source = || {
            let sealer = self.sealer(self.shell.sq.get(index)?.peer?)?;
            let piece = self.shell.sq.stretch(index, offset, SEGMENT_BYTES)?;
            let lease = self.shell.sq.lease(index)?;
            Some(Source::own(&sealer, lease, piece.addr, piece.len as u32))
        };
        (block, source().map_or(Body::Empty, Body::Source))
    }

    /// Begins the WRITE in slot `index` again, over the wire.
    pub(super) fn write_over_the_wire(&mut self, now: Instant, index: u32) {
        // It may wait with more to name; from now on that is somebody else.
        let serial = self.rdma.next_serial();
        // Not when its memory was taken back, which is no fault of the peer.
        let is_far = self.shell.sq.end_lease(index);
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        (slot.transfer.is_local, slot.transfer.failed, slot.transfer.next) = (false, None, 0);
        (slot.transfer.tail_sent, slot.transfer.serial) = (false, serial);
        if let Some(peer) = slot.peer.filter(|_| is_far) {
            self.rdma.local.far.note(now, peer);
        }
        self.queue_write(index);
    }

    /// Copies a stretch of a WRITE out of the requester's memory (SRD-10.8).
    pub(in crate::side::srd) fn serve_write_local(
        &mut self,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, source) = named(payload).ok_or(Reject::BadStatus)?;
        self.check_requester(arrival.peer)?;
        self.write_recv.agree(arrival.flags)?;
        let source = self.open(arrival.peer, &source)?;
        let end = u64::from(block.offset) + u64::from(source.len());
        // A turn copies a message whole, so a long one would keep all other peers waiting.
        if end > u64::from(block.total) || source.len() > SEGMENT_BYTES {
            return Err(Reject::BadStatus);
        }
        let granted = self.granted(&block, Right::Write)?;
        self.check_room_for_immediate(arrival.flags)?;
        let to = granted.addr + u64::from(block.offset);
        source.copy(0, to, source.len()).map_err(|_| Reject::BadStatus)?;
        let counters = &self.shell.device.counters;
        counters.add(Counter::RdmaWriteRecvBytes, u64::from(source.len()));
        counters.add(Counter::RdmaLocalBytes, u64::from(source.len()));
        self.complete_immediate(arrival, &block);
        Ok(())
    }

    /// Returns where the requester of job `index` finds the bytes.
    pub(super) fn read_grant_of(&self, index: u32) -> (Block, Body) {
        let block = self.job_block(index);
        let source = || {
            let job = self.rdma.jobs.get(index)?;
            let sealer = self.sealer(job.peer)?;
            Some(Source::own(&sealer, job.lease()?, block.addr, block.total))
        };
        let answer = Block { addr: 0, key: 0, ..block };
        (answer, source().map_or(Body::Empty, Body::Source))
    }

    /// The bytes of a READ may be copied.
    pub(in crate::side::srd) fn take_read_grant(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, source) = named(payload).ok_or(Reject::BadStatus)?;
        let opened = self.open(arrival.peer, &source);
        let Some((index, slot)) = self.slot_of(block.tag, arrival) else { return Ok(()) };
        if !slot.transfer.is_local || slot.transfer.answered {
            return Err(Reject::BadStatus);
        }
        let Ok(bytes) = opened else {
            self.read_over_the_wire(now, index, CopyError::Stranger);
            return Ok(());
        };
        if bytes.len() != slot.len {
            return Err(Reject::BadStatus);
        }
        slot.transfer.answered = true;
        let id = PullId { index, serial: slot.transfer.serial };
        // It may have been deregistered meanwhile.
        let sge = slot.part_of_first(0, slot.len);
        match sge.and_then(|sge| Some((sge.addr, self.shell.recv_mrs.writable(&sge)?))) {
            Some((to, region)) => {
                self.rdma.local.pulls.push(id, bytes, to, region);
                self.rdma.local.pulling += 1;
            }
            None => self.end_pull(now, index, Err(PullError::Deregistered)),
        }
        Ok(())
    }

    /// Copies bytes of READs, as many as one turn allows. Not for posts, which must not wait for
    /// them.
    pub(in crate::side::srd) fn advance_copies(&mut self, now: Instant) {
        if !self.rdma.local.has_copies() {
            return;
        }
        let pulls = Arc::clone(&self.rdma.local.pulls);
        if pulls.wants_help() {
            copier::call(&pulls);
        }
        pulls.copy(PullDriver::Turn, TURN_BYTES);
        self.shell.device.counters.add(Counter::RdmaLocalBytes, pulls.take_uncounted());
        while let Some((PullId { index, serial }, result)) = pulls.pop_over() {
            self.rdma.local.pulling -= 1;
            if self.shell.sq.get(index).is_some_and(|slot| slot.transfer.serial == serial) {
                self.end_pull(now, index, result);
            }
        }
    }

    /// Nothing of the READ in slot `index` is left to copy.
    fn end_pull(&mut self, now: Instant, index: u32, result: Result<(), PullError>) {
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        match result {
            Err(PullError::Copy(why)) => {
                self.read_over_the_wire(now, index, why);
                return;
            }
            Err(PullError::Deregistered) => {
                slot.transfer.failed.get_or_insert(Status::LocalInvalidLkey);
            }
            Ok(()) => slot.transfer.placed = slot.len,
        }
        // Also when it failed: the answer ends the work request.
        self.give(now, index, Part::ReadConfirm(index), OP_READ_CONFIRM, 0, Extras::NONE);
    }

    /// Asks for the bytes of the READ in slot `index` again, over the wire. It is another READ, so
    /// that no answer to a question about the first one ends it (SRD-10.6).
    fn read_over_the_wire(&mut self, now: Instant, index: u32, why: CopyError) {
        let (imm, serial) = (self.shell.attrs.qkey, self.rdma.next_serial());
        let Some(slot) = self.shell.sq.get_mut(index) else { return };
        let transfer = &mut slot.transfer;
        (transfer.is_local, transfer.answered, transfer.placed) = (false, false, 0);
        (transfer.probed_at, transfer.serial) = (None, serial);
        if let Some(peer) = slot.peer.filter(|_| why.is_lasting()) {
            self.rdma.local.far.note(now, peer);
        }
        self.give(now, index, Part::ReadRequest(index), OP_READ, 0, Extras { flags: 0, imm });
    }

    /// Whether the bytes a READ has copied were registered all the time: keys are not used again
    /// for long, so a key that is good now was good then (SRD-10.9).
    pub(in crate::side::srd) fn serve_read_confirm(
        &mut self,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, _) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        self.granted(&block, Right::Read).map(drop)
    }
}

/// The block of a message and where its bytes are.
fn named(payload: Payload<'_>) -> Option<(Block, Source)> {
    let (raw, rest) = payload.split_at(Block::LEN);
    let (block, _) = Block::parse(raw)?;
    Some((block, Source::parse(rest.bytes()?)?))
}
