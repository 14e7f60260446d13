//! Receive queue: posted buffers in the order they will be used.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::datagram::Payload;
use crate::memory::{self, Gone};
use crate::mr::{MrCache, Sge};

/// Entries of a receive a device takes at most, over all profiles.
pub(crate) const SGE_MAX: usize = 32;
/// A receive that comes soon is so many behind the first: what a fetch takes is what their copies
/// take.
const SOON: usize = 6;
/// The number of entries that every receive has room for: what an EFA takes.
const SHORT_SGES: usize = 3;

/// One posted receive.
#[derive(Debug, Clone)]
pub(crate) struct RecvWqe {
    pub(crate) wr_id: u64,
    short: [Sge; SHORT_SGES],
    sge_count: u8,
    /// All of them, when they have no room in `short`.
    long: Option<Arc<[Sge]>>,
    /// Room in bytes.
    pub(crate) capacity: u32,
}

impl RecvWqe {
    const VACANT: Self = Self {
        wr_id: 0,
        short: [Sge { addr: 0, len: 0, lkey: 0 }; SHORT_SGES],
        sge_count: 0,
        long: None,
        capacity: 0,
    };

    pub(crate) fn new(wr_id: u64, sges: &[Sge]) -> Self {
        let mut wqe = Self::VACANT;
        wqe.set(wr_id, sges);
        wqe
    }

    /// Makes a vacant one a receive with these entries.
    #[inline]
    fn set(&mut self, wr_id: u64, sges: &[Sge]) {
        self.wr_id = wr_id;
        if sges.len() > SHORT_SGES {
            self.long = Some(Arc::from(sges));
        }
        for (short, sge) in self.short.iter_mut().zip(sges) {
            *short = *sge;
        }
        self.capacity = sges.iter().fold(0u32, |sum, sge| sum.saturating_add(sge.len));
        #[expect(clippy::cast_possible_truncation, reason = "at most SGE_MAX")]
        let sge_count = sges.len() as u8;
        self.sge_count = sge_count;
    }

    #[inline]
    fn sges(&self) -> &[Sge] {
        match &self.long {
            None => &self.short[..SHORT_SGES.min(self.sge_count as usize)],
            Some(long) => long,
        }
    }

    /// Returns true if the regions still allow writing.
    pub(crate) fn is_writable(&self, mrs: &mut MrCache) -> bool {
        let mut sges = self.sges().iter();
        sges.all(|sge| sge.len == 0 || mrs.allows(sge, true))
    }

    /// Returns true if the entries for `len` bytes from byte `offset` on still allow writing. RoCE
    /// adapters check no others.
    #[inline]
    pub(crate) fn is_writable_at(&self, mrs: &mut MrCache, offset: usize, len: usize) -> bool {
        let first = &self.short[0];
        if offset + len <= first.len as usize {
            return len == 0 || mrs.allows(first, true);
        }
        let mut at = 0;
        self.sges().iter().all(|sge| {
            let begin = at;
            at += sge.len as usize;
            let is_touched = begin < offset + len && offset < at;
            !is_touched || mrs.allows(sge, true)
        })
    }

    /// Scatters `data` over the buffer from byte `offset` on; the caller checked the room. After
    /// [`Gone`] a part of it may be there.
    pub(crate) fn fill(&self, mut offset: usize, mut data: Payload<'_>) -> Result<(), Gone> {
        assert!(offset + data.len() <= self.capacity as usize);
        let first = &self.short[0];
        if offset + data.len() <= first.len as usize {
            return data.copy_to(first.addr + offset as u64);
        }
        for sge in self.sges() {
            let len = sge.len as usize;
            if offset >= len {
                offset -= len;
                continue;
            }
            let (now, later) = data.split_at(len - offset);
            now.copy_to(sge.addr + offset as u64)?;
            (offset, data) = (0, later);
        }
        Ok(())
    }
}

/// Why no receive takes a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoReceive {
    NotPosted,
    TooShort,
}

impl NoReceive {
    /// Whether the `next` one takes a message of `len` bytes.
    pub(crate) fn check(next: Option<&RecvWqe>, len: usize) -> Result<(), Self> {
        let next = next.ok_or(Self::NotPosted)?;
        if len > next.capacity as usize { Err(Self::TooShort) } else { Ok(()) }
    }
}

/// Posted receives; grows with use up to its depth, so that an idle queue costs nothing and a
/// short one stays in cache.
#[derive(Debug)]
pub(crate) struct RecvQueue {
    posted: VecDeque<RecvWqe>,
    depth: u32,
}

impl RecvQueue {
    pub(crate) fn new(depth: u32) -> Self {
        Self { posted: VecDeque::new(), depth }
    }

    /// Posts a receive, written where it will lie; `false` when the queue is full.
    #[must_use]
    #[inline]
    pub(crate) fn post(&mut self, wr_id: u64, sges: &[Sge]) -> bool {
        if self.posted.len() >= self.depth as usize {
            return false;
        }
        self.posted.push_back(RecvWqe::VACANT);
        if let Some(wqe) = self.posted.back_mut() {
            wqe.set(wr_id, sges);
        }
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.posted.len()
    }

    pub(crate) fn front(&self) -> Option<&RecvWqe> {
        self.posted.front()
    }

    pub(crate) fn pop(&mut self) -> Option<RecvWqe> {
        self.posted.pop_front()
    }

    /// Takes the first one out, which has been used. Memory of one that comes soon is fetched:
    /// libraries post thousands of buffers that no cache holds.
    #[inline]
    pub(crate) fn drop_first(&mut self) {
        if let Some(soon) = self.posted.get(SOON) {
            // A short message with the header of a library has two lines.
            memory::prefetch(soon.short[0].addr);
            memory::prefetch(soon.short[0].addr.wrapping_add(64));
        }
        drop(self.posted.pop_front());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_scattered_in_order_from_the_offset() {
        let (mut a, mut b) = ([0u8; 4], [0u8; 8]);
        let sge = |bytes: &mut [u8]| Sge {
            addr: bytes.as_mut_ptr() as usize as u64,
            len: u32::try_from(bytes.len()).unwrap(),
            lkey: 0,
        };
        let wqe = RecvWqe::new(1, &[sge(&mut a), sge(&mut b)]);
        assert_eq!(wqe.capacity, 12);
        wqe.fill(3, b"xyz"[..].into()).unwrap();
        assert_eq!((&a, &b), (b"\0\0\0x", b"yz\0\0\0\0\0\0"));
    }

    #[test]
    fn depth_is_a_limit() {
        let mut queue = RecvQueue::new(1);
        assert!(queue.post(1, &[]));
        assert!(!queue.post(2, &[]));
        assert_eq!(queue.pop().unwrap().wr_id, 1);
    }
}
