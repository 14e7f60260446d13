//! Refused messages as ranges, in the order of their sequence numbers.

use crate::wire::DropRange;
use crate::{PSN_WINDOW, Psn, Status};

/// The largest number of ranges in one list (SRD-6.8).
pub(crate) const RANGES_PER_PEER: usize = 1024;
/// An emptied list keeps memory for this many ranges.
const RANGES_KEPT: usize = 16;

/// How far a list may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ListGrowth {
    /// Only within its allocated memory.
    Allocated,
    /// Up to the limit of one list.
    Limited,
    /// In any case: the number is the sender's oldest, and the list cannot shrink before that is
    /// answered. There is only one such number.
    Forced,
}

#[derive(Debug, Default)]
pub(crate) struct RangeList {
    ranges: Vec<DropRange>,
}

impl RangeList {
    pub(crate) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.ranges.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = DropRange> + '_ {
        self.ranges.iter().copied()
    }

    /// Adds one number, joined to the range before it when status and kind are the same. A number
    /// that is listed already is left as it is. False when there is no room.
    pub(crate) fn add(
        &mut self,
        psn: Psn,
        status: Status,
        retry: bool,
        growth: ListGrowth,
    ) -> bool {
        let at = self.ranges.partition_point(|range| range.psn.ahead_of(psn) <= 0);
        if let Some(before) = at.checked_sub(1).map(|i| &mut self.ranges[i]) {
            if psn.ahead_of(before.end()) < 0 {
                return true;
            }
            let same = before.end() == psn && before.status == status && before.retry == retry;
            if same && u32::from(before.count) < PSN_WINDOW {
                before.count += 1;
                return true;
            }
        }
        let (len, capacity) = (self.ranges.len(), self.ranges.capacity());
        let fits = match growth {
            ListGrowth::Allocated => len < capacity.min(RANGES_PER_PEER),
            ListGrowth::Limited => len < RANGES_PER_PEER,
            ListGrowth::Forced => true,
        };
        if !fits {
            return false;
        }
        if len >= RANGES_PER_PEER {
            self.ranges.reserve_exact(1);
        }
        self.ranges.insert(at, DropRange { psn, count: 1, status, retry });
        true
    }

    /// Forgets the ranges below `psn`.
    pub(crate) fn forget_below(&mut self, psn: Psn) {
        let done = self.ranges.partition_point(|range| range.end().ahead_of(psn) <= 0);
        self.forget_first(done);
    }

    /// Forgets the first `n` ranges.
    pub(crate) fn forget_first(&mut self, n: usize) {
        self.ranges.drain(..n.min(self.ranges.len()));
        if self.ranges.is_empty() && self.ranges.capacity() > RANGES_KEPT {
            self.ranges.shrink_to(RANGES_KEPT);
        }
    }

    pub(crate) fn capacity(&self) -> usize {
        self.ranges.capacity()
    }

    pub(crate) fn shrink(&mut self) {
        self.ranges.shrink_to_fit();
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.ranges.capacity() * size_of::<DropRange>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joins_splits_and_forgets() {
        let mut list = RangeList::default();
        for psn in [u32::MAX, 0, 1, 5, 3, 1] {
            assert!(list.add(Psn(psn), Status::Rnr, false, ListGrowth::Limited));
        }
        assert!(list.add(Psn(6), Status::BadLength, false, ListGrowth::Limited));
        let shape: Vec<_> = list.iter().map(|r| (r.psn.0, r.count)).collect();
        assert_eq!(shape, [(u32::MAX, 3), (3, 1), (5, 1), (6, 1)]);
        list.forget_below(Psn(1));
        assert_eq!(list.len(), 4);
        list.forget_below(Psn(4));
        assert_eq!(list.iter().next().map(|r| r.psn), Some(Psn(5)));
        list.forget_first(9);
        assert!(list.is_empty());
    }
    /// SRD-6.8.
    #[test]
    fn has_an_end() {
        let mut list = RangeList::default();
        let add = |list: &mut RangeList, psn, room| list.add(Psn(psn), Status::Rnr, false, room);
        assert!(!add(&mut list, 0, ListGrowth::Allocated), "no memory of its own");
        let added = (1..2000).filter(|i| add(&mut list, i * 2, ListGrowth::Limited)).count();
        assert_eq!((added, list.capacity()), (RANGES_PER_PEER, RANGES_PER_PEER));
        assert!(add(&mut list, 2049, ListGrowth::Allocated), "a range may become longer");
        assert!(add(&mut list, 0, ListGrowth::Forced), "the oldest is always answered");
        assert_eq!(list.capacity(), RANGES_PER_PEER + 1);
        list.forget_below(Psn(5000));
        assert!(list.is_empty() && list.capacity() <= RANGES_KEPT);
    }
}
