//! The send queue: work requests between posting and completion.

mod long;
mod transfer;

use std::net::SocketAddr;

use crate::address::NOWHERE;
use crate::lease::Lease;
use crate::memory::Piece;
use crate::mr::{MrCache, Sge};
use crate::numbering::Numbering;
use crate::request::{SendData, SendOp, SendWr, Target};
use crate::status::Status;

use long::Long;

pub(crate) use long::Part;
pub(crate) use transfer::Transfer;

/// The most entries of a send, over all device profiles.
pub(crate) const SGE_MAX: usize = 32;
/// The most inline bytes of a send, over all device profiles.
pub(crate) const INLINE_MAX: usize = 512;
/// The entries for which every slot has room: what an EFA takes.
const SHORT_SGES: usize = 2;
/// The inline bytes for which every slot has room: what an EFA takes.
const SHORT_INLINE_BYTES: usize = 32;

/// A posted send, in the only form that it has between posting and completion.
///
/// A queue of slots is larger than the first-level cache, so the fields are in the order of use:
/// sending a short message touches the first line, completing it one more, posting it three.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct SendSlot {
    wr_id: u64,
    /// The pieces of memory in which the payload lies.
    pieces: [Piece; SHORT_SGES],
    lkeys: [u32; SHORT_SGES],
    pub(crate) len: u32,
    piece_count: u8,
    /// The slot holds a work request.
    is_live: bool,
    /// It has a completion even if it succeeds.
    signaled: bool,
    /// Whether the payload is a copy of ours, in `inline` or in `long`.
    is_inline: bool,
    is_long: bool,
    /// Its memory was gone when it had to be repeated (SRD-6.7).
    pub(crate) is_gone: bool,
    /// The reason why it fails on this side, once there is one; most often its bytes cannot be
    /// read.
    pub(crate) fault: Option<Status>,
    pub(crate) is_fenced: bool,
    pub(crate) is_solicited: bool,
    pub(crate) op: SendOp,
    /// The peer to which the engine sends it.
    pub(crate) peer: Option<srd::PeerId>,
    pub(crate) dest_qpn: u32,
    /// The queue key of the remote queue pair.
    pub(crate) qkey: u32,
    /// The peer's shared receive queue, for XRC only.
    pub(crate) remote_srq: u32,
    /// The address and port of the remote queue pair, on a queue pair of datagrams.
    pub(crate) to: SocketAddr,
    inline: [u8; SHORT_INLINE_BYTES],
    /// The storage that replaces the slot's own, when `is_long`.
    long: Option<Box<Long>>,
    /// The progress of an RDMA operation.
    pub(crate) transfer: Transfer,
}

const _: () = assert!(size_of::<SendSlot>() == 4 * 64);

/// The fields of a finished work request that its completion needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    pub(crate) len: u32,
    pub(crate) signaled: bool,
    /// The reason why it failed, which overrides that of the engine.
    pub(crate) fault: Option<Status>,
    /// See [`SendSlot::is_gone`].
    pub(crate) is_gone: bool,
}

impl SendSlot {
    const VACANT: Self = Self {
        is_live: false,
        wr_id: 0,
        op: SendOp::Send,
        signaled: false,
        is_fenced: false,
        is_solicited: false,
        remote_srq: 0,
        len: 0,
        to: SocketAddr::new(NOWHERE, 0),
        dest_qpn: 0,
        qkey: 0,
        peer: None,
        transfer: Transfer::NONE,
        fault: None,
        is_gone: false,
        lkeys: [0; SHORT_SGES],
        pieces: [Piece { addr: 0, len: 0 }; SHORT_SGES],
        piece_count: 0,
        is_inline: false,
        inline: [0; SHORT_INLINE_BYTES],
        long: None,
        is_long: false,
    };

    /// Fills in `wr`, whose shape was checked: at most [`SGE_MAX`] entries or [`INLINE_MAX`] bytes,
    /// `len` in all. It is written in place, because the slot is too long to be moved for each
    /// message.
    fn take(&mut self, wr: &SendWr<'_>, signaled: bool, len: u32, numbering: Numbering) {
        self.is_live = true;
        (self.wr_id, self.signaled, self.len) = (wr.wr_id, signaled, len);
        // Most are this, and it is one word.
        if let SendOp::Send = wr.op {
            self.op = SendOp::Send;
        } else {
            self.op = wr.op;
        }
        (self.is_fenced, self.is_solicited) = (wr.fenced, wr.solicited);
        self.remote_srq = wr.remote_srq;
        if let Some(Target { ah, qpn, qkey }) = wr.target {
            self.to = numbering.way_to(ah.addr(), qpn);
            (self.dest_qpn, self.qkey) = (qpn, qkey);
        }
        // Who waits for its predecessor knows it by its serial.
        self.transfer.serial = 0;
        (self.peer, self.fault, self.is_gone) = (None, None, false);
        match wr.data {
            SendData::Sges(sges) => {
                self.is_inline = false;
                self.take_sges(sges);
            }
            SendData::Inline(parts) => {
                self.is_inline = true;
                self.take_inline(parts, len as usize);
            }
        }
    }

    #[inline]
    fn take_inline(&mut self, parts: &[&[u8]], len: usize) {
        self.is_long = len > SHORT_INLINE_BYTES;
        if self.is_long {
            return self.long.get_or_insert_default().take_inline(parts);
        }
        let mut at = 0;
        for part in parts {
            self.inline[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        self.pieces[0] = Piece { addr: self.inline.as_ptr() as usize as u64, len: at };
        self.piece_count = 1;
    }

    #[inline]
    fn take_sges(&mut self, sges: &[Sge]) {
        self.is_long = sges.len() > SHORT_SGES;
        if self.is_long {
            return self.long.get_or_insert_default().take_sges(sges);
        }
        for ((piece, lkey), sge) in self.pieces.iter_mut().zip(&mut self.lkeys).zip(sges) {
            *piece = Piece { addr: sge.addr, len: sge.len as usize };
            *lkey = sge.lkey;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most SHORT_SGES")]
        let count = sges.len() as u8;
        self.piece_count = count;
    }

    fn ended(&self) -> Ended {
        let &Self { wr_id, op, len, signaled, fault, is_gone, .. } = self;
        Ended { wr_id, op, len, signaled, fault, is_gone }
    }

    /// Returns true if all bytes of the READ have arrived.
    pub(crate) fn is_read_whole(&self) -> bool {
        self.transfer.answered && self.transfer.placed == self.len
    }

    /// Returns a range of the first entry; `None` if it does not lie inside.
    pub(crate) fn part_of_first(&self, offset: u32, len: u32) -> Option<Sge> {
        let first = &self.pieces[0];
        let end = u64::from(offset) + u64::from(len);
        let addr = first.addr + u64::from(offset);
        (end <= first.len as u64).then_some(Sge { addr, len, lkey: self.lkeys[0] })
    }

    /// Returns true if the payload is a copy of ours.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Returns true if the adapter may (still) read the payload.
    #[inline]
    pub(crate) fn is_readable(&self, mrs: &mut MrCache) -> bool {
        self.is_inline || self.sges().all(|sge| sge.len == 0 || mrs.allows(&sge, false))
    }

    /// Returns the payload if it lies in one piece that the adapter may (still) read, and the work
    /// request does not fail on this side.
    #[inline]
    pub(crate) fn readable_piece(&self, mrs: &mut MrCache) -> Option<Piece> {
        if self.is_long || self.piece_count != 1 || self.fault.is_some() {
            return None;
        }
        let piece = self.pieces[0];
        let sge = Sge { addr: piece.addr, len: self.len, lkey: self.lkeys[0] };
        (self.is_inline || mrs.allows(&sge, false)).then_some(piece)
    }

    /// Returns true if the adapter may (still) write the result of a READ or an atomic.
    pub(crate) fn is_writable(&self, mrs: &mut MrCache) -> bool {
        !self.is_inline && self.sges().all(|sge| sge.len == 0 || mrs.allows(&sge, true))
    }

    /// Returns the entries; inline bytes have none.
    #[inline]
    fn sges(&self) -> impl Iterator<Item = Sge> {
        let lkeys = match &self.long {
            Some(long) if self.is_long => &long.lkeys[..],
            _ => &self.lkeys[..],
        };
        let sge = |(piece, &lkey): (&Piece, &u32)| {
            // Never longer: it was an entry.
            Sge { addr: piece.addr, len: u32::try_from(piece.len).unwrap_or(u32::MAX), lkey }
        };
        self.payload().iter().zip(lkeys).map(sge)
    }

    /// Returns the pieces of memory in which the payload lies.
    #[inline]
    fn payload(&self) -> &[Piece] {
        if self.is_long {
            if let Some(long) = &self.long {
                return &long.pieces;
            }
        }
        &self.pieces[..SHORT_SGES.min(self.piece_count as usize)]
    }
}

/// The slots of a queue; their number bounds what is in flight. The queue never grows, so that the
/// wire may point at inline bytes.
#[derive(Debug)]
pub(crate) struct SendQueue {
    slots: Vec<SendSlot>,
    free: Vec<u32>,
    depth: u32,
    numbering: Numbering,
    /// One lease for each slot, for work requests whose bytes others copy; empty if that is not
    /// possible.
    leases: Box<[Lease]>,
    /// The number of leases that have begun and not ended.
    leased: u32,
}

impl SendQueue {
    /// Makes a send queue. With `has_leases`, others may copy the bytes of its work requests.
    pub(crate) fn new(depth: u32, has_leases: bool, numbering: Numbering) -> Self {
        let slots = Vec::with_capacity(depth as usize);
        let leases = (0..if has_leases { depth } else { 0 }).map(|_| Lease::new()).collect();
        Self { slots, free: Vec::new(), depth, numbering, leases, leased: 0 }
    }

    /// Stores `wr`, of `len` bytes, until [`SendQueue::complete`]; `None` if the queue is full.
    #[inline]
    pub(crate) fn insert(&mut self, wr: &SendWr<'_>, signaled: bool, len: u32) -> Option<u32> {
        let index = match self.free.pop() {
            Some(index) => index,
            None => self.grow()?,
        };
        self.slots[index as usize].take(wr, signaled, len, self.numbering);
        Some(index)
    }

    fn grow(&mut self) -> Option<u32> {
        let index = u32::try_from(self.slots.len()).ok().filter(|index| *index < self.depth)?;
        self.slots.push(SendSlot::VACANT);
        Some(index)
    }

    /// Frees the slot of a finished work request.
    #[inline]
    pub(crate) fn complete(&mut self, index: u32) -> Option<Ended> {
        let slot = self.get_mut(index)?;
        slot.is_live = false;
        let ended = slot.ended();
        self.free.push(index);
        if self.leased > 0 {
            self.end_lease(index);
        }
        Some(ended)
    }

    /// Begins the lease of work request `index`: others may copy its bytes until it ends.
    pub(crate) fn begin_lease(&mut self, index: u32) {
        if let Some(lease) = self.leases.get(index as usize) {
            lease.begin();
            self.leased += 1;
        }
    }

    /// Returns the lease of work request `index`, whether it has ended or not.
    pub(crate) fn lease(&self, index: u32) -> Option<&Lease> {
        self.leases.get(index as usize)
    }

    /// Ends the lease of work request `index`, so that later copies do not count. Returns true if
    /// it had not ended before.
    pub(crate) fn end_lease(&mut self, index: u32) -> bool {
        let is_new = self.lease(index).is_some_and(|lease| lease.is_live() && lease.end());
        self.leased -= u32::from(is_new);
        is_new
    }

    /// Ends the leases of all bytes of region `key`.
    pub(crate) fn end_leases_of(&mut self, key: u32) {
        if self.leased == 0 {
            return;
        }
        for index in 0..self.end() {
            if self.get(index).is_some_and(|slot| slot.lkeys[0] == key) {
                self.end_lease(index);
            }
        }
    }

    #[inline]
    pub(crate) fn get(&self, index: u32) -> Option<&SendSlot> {
        self.slots.get(index as usize).filter(|slot| slot.is_live)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut SendSlot> {
        self.slots.get_mut(index as usize).filter(|slot| slot.is_live)
    }

    /// The slots that were ever used are below this index.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Returns where the payload of a work request lies.
    #[inline]
    pub(crate) fn payload(&self, index: u32) -> impl Iterator<Item = Piece> + Clone {
        self.get(index).map_or(&[][..], SendSlot::payload).iter().copied()
    }

    /// Returns where a part of the payload lies.
    #[inline]
    pub(crate) fn part(&self, index: u32, offset: u32, len: u32) -> Part<'_> {
        Part::new(self.get(index).map_or(&[][..], SendSlot::payload), offset, len)
    }

    /// Returns at most `len` bytes of the payload from `offset` on, for payloads of one entry.
    pub(crate) fn stretch(&self, index: u32, offset: u32, len: u32) -> Option<Piece> {
        let all = self.payload(index).next()?;
        let rest = all.len.checked_sub(offset as usize)?;
        Some(Piece { addr: all.addr + u64::from(offset), len: rest.min(len as usize) })
    }

    /// Iterates over the work requests that have not ended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SendSlot> {
        self.slots.iter().filter(|slot| slot.is_live)
    }

    /// Iterates over the peers with a work request in flight; a peer may come more than once.
    pub(crate) fn peers(&self) -> impl Iterator<Item = srd::PeerId> {
        self.iter().filter_map(|slot| slot.peer)
    }

    /// Empties the queue.
    pub(crate) fn drain(&mut self) -> Vec<Ended> {
        self.free.clear();
        for index in 0..self.end() {
            self.end_lease(index);
        }
        let ended = self.iter().map(SendSlot::ended).collect();
        self.slots.clear();
        ended
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Ah, Config, Device, DeviceSpec};

    fn ah() -> Arc<Ah> {
        let spec = "rdmap0s6=127.0.0.1".parse::<DeviceSpec>().unwrap();
        let device = Device::open(&spec, &Config::default()).unwrap();
        device.alloc_pd().unwrap().create_ah(device.gid()).unwrap()
    }

    fn insert(queue: &mut SendQueue, ah: &Ah, wr_id: u64, data: SendData<'_>) -> Option<u32> {
        let (op, len) = (SendOp::Send, data.len_bytes());
        let (signaled, more) = (true, false);
        let target = Some(Target { ah, qpn: 1, qkey: 2 });
        let (fenced, solicited) = (false, false);
        let wr =
            SendWr { wr_id, op, data, signaled, fenced, solicited, target, remote_srq: 0, more };
        queue.insert(&wr, true, len)
    }

    #[test]
    fn depth_bounds_what_is_in_flight() {
        let (ah, mut queue) = (ah(), SendQueue::new(2, false, Numbering::Port));
        let insert = |queue: &mut _, id| insert(queue, &ah, id, SendData::Sges(&[]));
        let first = insert(&mut queue, 1).unwrap();
        assert!(insert(&mut queue, 2).is_some());
        assert!(insert(&mut queue, 3).is_none());
        assert_eq!(queue.complete(first).unwrap().wr_id, 1);
        assert!(queue.complete(first).is_none(), "completed twice");
        assert_eq!(insert(&mut queue, 3), Some(first));
    }

    #[test]
    fn a_slot_keeps_nothing_of_its_predecessor() {
        let (ah, mut queue) = (ah(), SendQueue::new(1, false, Numbering::Port));
        let sges = [Sge { addr: 4096, len: 8, lkey: 5 }, Sge { addr: 8192, len: 9, lkey: 6 }];
        let index = insert(&mut queue, &ah, 1, SendData::Sges(&sges)).unwrap();
        let slot = queue.get_mut(index).unwrap();
        (slot.fault, slot.is_gone) = (Some(Status::LocalInvalidLkey), true);
        slot.transfer.serial = 7;
        assert_eq!(queue.complete(index).unwrap().fault, Some(Status::LocalInvalidLkey));
        assert!(queue.get(index).is_none());
        assert_eq!(insert(&mut queue, &ah, 2, SendData::Inline(&[b"abc"])), Some(index));
        let slot = queue.get(index).unwrap();
        assert_eq!((slot.fault, slot.is_gone, slot.len), (None, false, 3));
        assert_eq!(slot.transfer.serial, 0, "what waits for the predecessor takes it for that");
        assert_eq!(queue.payload(index).map(|piece| piece.len).collect::<Vec<_>>(), [3]);
        assert_eq!(queue.complete(index).unwrap().fault, None);
    }

    #[test]
    fn leases_end_with_their_work_requests() {
        let (ah, mut queue) = (ah(), SendQueue::new(3, true, Numbering::Port));
        let insert = |queue: &mut _, lkey| {
            insert(queue, &ah, 1, SendData::Sges(&[Sge { addr: 4096, len: 8, lkey }]))
        };
        for lkey in [5, 6, 7] {
            let index = insert(&mut queue, lkey).unwrap();
            queue.begin_lease(index);
        }
        let live = |queue: &SendQueue| [0, 1, 2].map(|index| queue.leases[index].is_live());
        assert_eq!(live(&queue), [true; 3]);
        queue.end_leases_of(6);
        assert_eq!(live(&queue), [true, false, true]);
        queue.complete(0);
        assert_eq!(live(&queue), [false, false, true]);
        let again = insert(&mut queue, 8).unwrap();
        assert!(again == 0 && !queue.leases[0].is_live(), "it has to ask for one");
        queue.drain();
        assert_eq!((live(&queue), queue.leased), ([false; 3], 0));
    }

    #[test]
    fn inline_bytes_are_taken_at_posting() {
        let mut queue = SendQueue::new(1, false, Numbering::Port);
        let index = insert(&mut queue, &ah(), 7, SendData::Inline(&[b"ab", b"cde"])).unwrap();
        let pieces: Vec<Piece> = queue.payload(index).collect();
        let mut bytes = Vec::new();
        crate::memory::copy_out(pieces[0].addr, pieces[0].len, &mut bytes).unwrap();
        assert_eq!((pieces.len(), bytes.as_slice()), (1, &b"abcde"[..]));
    }
}
