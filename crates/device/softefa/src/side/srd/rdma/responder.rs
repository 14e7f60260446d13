//! The side that is asked: WRITEs into registered memory, READs out of it.

use srd::{Arrival, Instant, Message, PeerId, Reject};

use super::jobs::Job;
use super::{
    Block, Body, OP_READ_DATA, OP_READ_FAIL, OP_READ_GRANT, Part, SEGMENTS_PER_TURN, Waiting, local,
};
use crate::AHN_UNKNOWN;
use crate::counters::Counter;
use crate::datagram::Payload;
use crate::local_copy::Source;
use crate::memory::{Gone, Piece};
use crate::mr::{Grant, Right};
use crate::side::srd::SrdSide;
use crate::side::srd::socket_addr;
use crate::status::Status;

/// Sent in place of memory whose registration ended during a READ; the block says so (SRD-10.5).
static NOTHING: [u8; 1 << 14] = [0; 1 << 14];

impl SrdSide {
    /// Refuses RDMA of requesters the queue pair's domain has no address handle for, on a strict
    /// device: hardware answers through it.
    pub(super) fn check_requester(&mut self, peer: PeerId) -> Result<(), Reject> {
        if !self.shell.device.is_strict {
            return Ok(());
        }
        let from = self.endpoint.address(peer).unwrap_or_default();
        let ahn = self.shell.ahn_of(socket_addr(from.host, from.qpn).ip());
        if ahn == AHN_UNKNOWN { Err(Reject::UnknownPeer) } else { Ok(()) }
    }

    /// Copies a segment to where it belongs, if the whole operation is allowed (SRD-10.2).
    pub(in crate::side::srd) fn serve_write(
        &mut self,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (mut block, bytes) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        self.check_requester(arrival.peer)?;
        self.write_recv.agree(arrival.flags)?;
        // An empty WRITE touches nothing and needs no region.
        if block.total > 0 {
            block.addr = self.granted(&block, Right::Write)?.addr;
        }
        self.check_room_for_immediate(arrival.flags)?;
        let placed = bytes.copy_to(block.addr + u64::from(block.offset));
        placed.map_err(|Gone| Reject::BadAddress)?;
        self.shell.device.counters.add(Counter::RdmaWriteRecvBytes, bytes.len() as u64);
        self.complete_immediate(arrival, &block);
        Ok(())
    }

    /// The bytes that an operation touches here, which have other names in some regions.
    pub(super) fn granted(&mut self, block: &Block, right: Right) -> Result<Grant, Reject> {
        let id = self.shell.id;
        self.shell.remote_mrs.grant(block.remote(), right, id).ok_or(Reject::BadAddress)
    }

    /// Takes a READ in.
    pub(in crate::side::srd) fn serve_read(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (mut block, _) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        self.check_requester(arrival.peer)?;
        let region = match block.total {
            0 => None,
            _ => {
                let grant = self.granted(&block, Right::Read)?;
                block.addr = grant.addr;
                Some(grant.region)
            }
        };
        let (peer, qkey) = (arrival.peer, arrival.imm);
        let is_asked = arrival.flags & local::FLAG_LOCAL != 0;
        let is_granted = is_asked && self.may_copy() && self.sealer(peer).is_some();
        let next = if is_granted { block.total } else { 0 };
        let serial = self.rdma.next_serial();
        let job = Job { peer, qkey, block, region, next, in_engine: 0, is_dead: false, serial };
        let index = self.rdma.jobs.insert(job).ok_or(Reject::Rnr)?;
        self.shell.device.counters.add(Counter::RdmaReadRespBytes, u64::from(block.total));
        if is_granted {
            self.give_read(now, index, Part::ReadGrant(index), OP_READ_GRANT, Source::LEN as u32);
        } else if block.total == 0 {
            self.give_read(now, index, Part::ReadData(index, 0), OP_READ_DATA, 0);
        } else {
            self.rdma.serving.push(peer, Waiting { index, serial });
        }
        Ok(())
    }

    /// Gives a few segments of a READ that has more.
    pub(super) fn feed_read_data(&mut self, now: Instant, waiting: Waiting) {
        let Waiting { index, serial } = waiting;
        let segment = self.segment_bytes();
        for _ in 0..SEGMENTS_PER_TURN {
            let Some(job) = self.rdma.jobs.get_mut(index) else { return };
            if job.is_fed() || job.serial != serial {
                return;
            }
            let at = job.next;
            let bytes = segment.min(job.block.total - at);
            job.next = at + bytes;
            let part = Part::ReadData(index, at / segment);
            self.give_read(now, index, part, OP_READ_DATA, bytes);
        }
        let Some(job) = self.rdma.jobs.get(index) else { return };
        if job.serial == serial && !job.is_fed() {
            self.rdma.serving.push(job.peer, waiting);
        }
    }

    pub(super) fn give_read(&mut self, now: Instant, index: u32, part: Part, op: u8, bytes: u32) {
        let Some(job) = self.rdma.jobs.get_mut(index) else { return };
        let message = Message {
            id: part.to_msg(),
            len: Block::LEN as u32 + bytes,
            op,
            flags: 0,
            qkey: job.qkey,
            imm: 0,
            rnr_retry: 7,
            is_one_sided: true,
            may_share: false,
        };
        let peer = job.peer;
        if self.endpoint.send(now, peer, message).is_ok() {
            job.in_engine += 1;
            self.rdma.entered(peer, part, false);
            return;
        }
        // The engine forgot the peer, or is closing.
        job.is_dead = true;
        if job.in_engine == 0 {
            self.rdma.jobs.remove(index);
        }
    }

    /// A part of job `index` has left the engine.
    pub(in crate::side::srd) fn job_part_done(&mut self, index: u32, part: Part, status: Status) {
        let Some(job) = self.rdma.jobs.get_mut(index) else { return };
        let peer = job.peer;
        job.in_engine -= 1;
        job.is_dead |= status != Status::Ok;
        if job.in_engine == 0 && job.is_fed() {
            self.rdma.jobs.remove(index);
        }
        self.rdma.left(peer, part, false);
    }

    /// Answers whether a READ is still being served (SRD-10.6); silence means its data is on its
    /// way.
    pub(in crate::side::srd) fn serve_probe(
        &mut self,
        now: Instant,
        arrival: &Arrival,
        payload: Payload<'_>,
    ) -> Result<(), Reject> {
        let (block, _) = Block::parse(payload).ok_or(Reject::BadStatus)?;
        let is_known = self
            .rdma
            .jobs
            .iter()
            .any(|job| job.peer == arrival.peer && job.block.tag == block.tag && !job.is_dead);
        if !is_known {
            let block = Block { tag: block.tag, ..Block::default() };
            let (peer, qkey) = (arrival.peer, arrival.imm);
            let (region, next, serial) = (None, 0, self.rdma.next_serial());
            let job = Job { peer, qkey, block, region, next, in_engine: 0, is_dead: false, serial };
            let index = self.rdma.jobs.insert(job).ok_or(Reject::Rnr)?;
            self.give_read(now, index, Part::ReadFail(index), OP_READ_FAIL, 0);
        }
        Ok(())
    }

    /// Block and bytes of a segment of job `index`.
    pub(super) fn read_data_of(&self, index: u32, segment_number: u32) -> (Block, Body) {
        let Some(job) = self.rdma.jobs.get(index) else {
            return (Block::default(), Body::Empty);
        };
        let segment = self.segment_bytes();
        let offset = segment_number * segment;
        let len = segment.min(job.block.total - offset) as usize;
        let Block { total, tag, addr, .. } = job.block;
        if total == 0 || job.is_readable() {
            let piece = Piece { addr: addr + u64::from(offset), len };
            (Block { addr: 0, key: 0, total, offset, tag }, Body::Bytes(piece))
        } else {
            let piece = Piece { addr: NOTHING.as_ptr() as usize as u64, len };
            let key = u32::from(Status::RemoteBadAddress.code());
            (Block { addr: 0, key, total, offset, tag }, Body::Bytes(piece))
        }
    }

    /// Block of what was asked of job `index`.
    pub(super) fn job_block(&self, index: u32) -> Block {
        self.rdma.jobs.get(index).map(|job| job.block).unwrap_or_default()
    }
}
