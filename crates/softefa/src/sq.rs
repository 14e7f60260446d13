//! Send queue: work requests between posting and completion.

use crate::local_copy::lease::Lease;
use crate::memory::Piece;
use crate::mr::{MrCache, Sge};
use crate::request::SendOp;
use crate::side::Transfer;
use crate::status::Status;

/// Entries of a send the device takes at most, over all profiles.
pub(crate) const SGE_MAX: usize = 2;
/// Inline bytes the device takes at most, over all profiles.
pub(crate) const INLINE_MAX: usize = 32;

/// One posted send.
#[derive(Debug, Clone)]
pub(crate) struct SendSlot {
    pub(crate) wr_id: u64,
    pub(crate) op: SendOp,
    /// Completes even when all went well.
    pub(crate) signaled: bool,
    pub(crate) len: u32,
    /// Toward whom the engine has it.
    pub(crate) peer: Option<srd::PeerId>,
    /// Where that is.
    pub(crate) to: srd::Address,
    /// Progress, when it is an RDMA operation.
    pub(crate) transfer: Transfer,
    /// Why the bytes could not be supplied, once that happened.
    pub(crate) fault: Option<Status>,
    /// Its bytes were gone when they were to be sent again (SRD-6.7).
    pub(crate) is_gone: bool,
    lkeys: [u32; SGE_MAX],
    pieces: [Piece; SGE_MAX],
    piece_count: u8,
    is_inline: bool,
    inline: [u8; INLINE_MAX],
}

impl SendSlot {
    pub(crate) fn from_sges(wr_id: u64, op: SendOp, signaled: bool, sges: &[Sge]) -> Self {
        assert!(sges.len() <= SGE_MAX);
        let mut slot = Self::empty(wr_id, op, signaled);
        for sge in sges {
            slot.pieces[slot.piece_count as usize] =
                Piece { addr: sge.addr, len: sge.len as usize };
            slot.lkeys[slot.piece_count as usize] = sge.lkey;
            slot.piece_count += 1;
            slot.len = slot.len.saturating_add(sge.len);
        }
        slot
    }

    pub(crate) fn from_inline(wr_id: u64, op: SendOp, signaled: bool, parts: &[&[u8]]) -> Self {
        let mut slot = Self::empty(wr_id, op, signaled);
        slot.is_inline = true;
        let mut at = 0;
        for part in parts {
            slot.inline[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most INLINE_MAX")]
        let len = at as u32;
        slot.len = len;
        slot
    }

    /// A stretch of the first entry; `None` when it does not lie inside.
    pub(crate) fn part_of_first(&self, offset: u32, len: u32) -> Option<Sge> {
        let first = &self.pieces[0];
        let end = u64::from(offset) + u64::from(len);
        let addr = first.addr + u64::from(offset);
        (end <= first.len as u64).then_some(Sge { addr, len, lkey: self.lkeys[0] })
    }

    /// The payload is a copy of ours.
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Whether the adapter may (still) read the payload.
    pub(crate) fn is_readable(&self, mrs: &mut MrCache) -> bool {
        let count = self.piece_count as usize;
        self.pieces[..count].iter().zip(&self.lkeys).all(|(piece, &lkey)| {
            let Ok(len) = u32::try_from(piece.len) else { return false };
            len == 0 || mrs.allows(&Sge { addr: piece.addr, len, lkey }, false)
        })
    }

    fn empty(wr_id: u64, op: SendOp, signaled: bool) -> Self {
        let pieces = [Piece { addr: 0, len: 0 }; SGE_MAX];
        Self {
            wr_id,
            op,
            signaled,
            len: 0,
            peer: None,
            to: srd::Address::default(),
            transfer: Transfer::default(),
            fault: None,
            is_gone: false,
            lkeys: [0; SGE_MAX],
            pieces,
            piece_count: 0,
            is_inline: false,
            inline: [0; INLINE_MAX],
        }
    }
}

/// Slots of a queue; their number bounds what is in flight. Never grows once created, so that the
/// wire may point at inline bytes.
#[derive(Debug)]
pub(crate) struct SendQueue {
    slots: Vec<Option<SendSlot>>,
    free: Vec<u32>,
    depth: u32,
    /// One for each slot, for work requests whose bytes others copy; none where that cannot be.
    leases: Box<[Lease]>,
    /// How many of them were begun and not ended.
    leased: u32,
}

impl SendQueue {
    /// With `has_leases`, bytes of its work requests may be copied by others.
    pub(crate) fn new(depth: u32, has_leases: bool) -> Self {
        let slots = Vec::with_capacity(depth as usize);
        let leases = (0..if has_leases { depth } else { 0 }).map(|_| Lease::new()).collect();
        Self { slots, free: Vec::new(), depth, leases, leased: 0 }
    }

    /// Keeps `slot` until [`SendQueue::complete`]; `None` when the queue is full.
    pub(crate) fn insert(&mut self, slot: SendSlot) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(slot);
            return Some(index);
        }
        let index = u32::try_from(self.slots.len()).ok().filter(|index| *index < self.depth)?;
        self.slots.push(Some(slot));
        Some(index)
    }

    /// Takes a finished work request out.
    pub(crate) fn complete(&mut self, index: u32) -> Option<SendSlot> {
        let slot = self.slots.get_mut(index as usize)?.take()?;
        self.free.push(index);
        if self.leased > 0 {
            self.end_lease(index);
        }
        Some(slot)
    }

    /// Others may copy the bytes of work request `index` until it ends.
    pub(crate) fn begin_lease(&mut self, index: u32) {
        if let Some(lease) = self.leases.get(index as usize) {
            lease.begin();
            self.leased += 1;
        }
    }

    /// The lease of work request `index`, ended or not.
    pub(crate) fn lease(&self, index: u32) -> Option<&Lease> {
        self.leases.get(index as usize)
    }

    /// Nothing that is copied of work request `index` from now on counts; whether that is new.
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

    pub(crate) fn get(&self, index: u32) -> Option<&SendSlot> {
        self.slots.get(index as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut SendSlot> {
        self.slots.get_mut(index as usize)?.as_mut()
    }

    /// Slots that were ever used are below this.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    /// Where the payload of a work request lies.
    pub(crate) fn payload(&self, index: u32) -> impl Iterator<Item = Piece> + Clone {
        let slot = self.get(index);
        let inline = slot.filter(|slot| slot.is_inline).map(|slot| Piece {
            addr: slot.inline.as_ptr() as usize as u64,
            len: slot.len as usize,
        });
        let count = slot.map_or(0, |slot| slot.piece_count as usize);
        let pieces = slot.map_or([Piece { addr: 0, len: 0 }; SGE_MAX], |slot| slot.pieces);
        inline.into_iter().chain(pieces.into_iter().take(count))
    }

    /// At most `len` bytes of the payload from `offset` on; for payloads of one entry.
    pub(crate) fn stretch(&self, index: u32, offset: u32, len: u32) -> Option<Piece> {
        let all = self.payload(index).next()?;
        let rest = all.len.checked_sub(offset as usize)?;
        Some(Piece { addr: all.addr + u64::from(offset), len: rest.min(len as usize) })
    }

    /// Work requests that have not ended.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SendSlot> {
        self.slots.iter().flatten()
    }

    /// Peers with a work request in flight, some of them more than once.
    pub(crate) fn peers(&self) -> impl Iterator<Item = srd::PeerId> {
        self.iter().filter_map(|slot| slot.peer)
    }

    /// Empties the queue.
    pub(crate) fn drain(&mut self) -> Vec<SendSlot> {
        self.free.clear();
        for index in 0..self.end() {
            self.end_lease(index);
        }
        self.slots.drain(..).flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_bounds_what_is_in_flight() {
        let mut queue = SendQueue::new(2, false);
        let slot = |id| SendSlot::from_sges(id, SendOp::Send, true, &[]);
        let first = queue.insert(slot(1)).unwrap();
        assert!(queue.insert(slot(2)).is_some());
        assert!(queue.insert(slot(3)).is_none());
        assert_eq!(queue.complete(first).unwrap().wr_id, 1);
        assert!(queue.complete(first).is_none(), "completed twice");
        assert_eq!(queue.insert(slot(3)), Some(first));
    }

    #[test]
    fn leases_end_with_their_work_requests() {
        let mut queue = SendQueue::new(3, true);
        let of = |lkey| {
            let sge = Sge { addr: 4096, len: 8, lkey };
            SendSlot::from_sges(1, SendOp::Send, true, &[sge])
        };
        for lkey in [5, 6, 7] {
            let index = queue.insert(of(lkey)).unwrap();
            queue.begin_lease(index);
        }
        let live = |queue: &SendQueue| [0, 1, 2].map(|index| queue.leases[index].is_live());
        assert_eq!(live(&queue), [true; 3]);
        queue.end_leases_of(6);
        assert_eq!(live(&queue), [true, false, true]);
        queue.complete(0);
        assert_eq!(live(&queue), [false, false, true]);
        let again = queue.insert(of(8)).unwrap();
        assert!(again == 0 && !queue.leases[0].is_live(), "it has to ask for one");
        queue.drain();
        assert_eq!((live(&queue), queue.leased), ([false; 3], 0));
    }

    #[test]
    fn inline_bytes_are_taken_at_posting() {
        let mut queue = SendQueue::new(1, false);
        let index =
            queue.insert(SendSlot::from_inline(7, SendOp::Send, true, &[b"ab", b"cde"])).unwrap();
        let pieces: Vec<Piece> = queue.payload(index).collect();
        let mut bytes = Vec::new();
        crate::memory::copy_out(pieces[0].addr, pieces[0].len, &mut bytes).unwrap();
        assert_eq!((pieces.len(), bytes.as_slice()), (1, &b"abcde"[..]));
    }
}
