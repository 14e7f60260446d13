//! Refused messages as ranges, in the order of their sequence numbers.

use crate::wire::DropRange;
use crate::{PSN_WINDOW, Psn, Status};

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

    /// Adds one number, joining it to the range before it when both say the same. A number that
    /// is listed already is left as it is.
    pub(crate) fn add(&mut self, psn: Psn, status: Status, retry: bool) {
        let at = self.ranges.partition_point(|range| range.psn.ahead_of(psn) <= 0);
        if let Some(before) = at.checked_sub(1).map(|i| &mut self.ranges[i]) {
            if psn.ahead_of(before.end()) < 0 {
                return;
            }
            let same = before.end() == psn && before.status == status && before.retry == retry;
            if same && u32::from(before.count) < PSN_WINDOW {
                before.count += 1;
                return;
            }
        }
        self.ranges.insert(at, DropRange { psn, count: 1, status, retry });
    }

    /// Forgets what is below `psn`.
    pub(crate) fn forget_below(&mut self, psn: Psn) {
        let done = self.ranges.partition_point(|range| range.end().ahead_of(psn) <= 0);
        self.ranges.drain(..done);
    }

    /// Forgets the first `n` ranges.
    pub(crate) fn forget_first(&mut self, n: usize) {
        self.ranges.drain(..n.min(self.ranges.len()));
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
            list.add(Psn(psn), Status::Rnr, false);
        }
        list.add(Psn(6), Status::BadLength, false);
        let shape: Vec<_> = list.iter().map(|r| (r.psn.0, r.count)).collect();
        assert_eq!(shape, [(u32::MAX, 3), (3, 1), (5, 1), (6, 1)]);
        list.forget_below(Psn(1));
        assert_eq!(list.len(), 4);
        list.forget_below(Psn(4));
        assert_eq!(list.iter().next().map(|r| r.psn), Some(Psn(5)));
        list.forget_first(9);
        assert!(list.is_empty());
    }
}
