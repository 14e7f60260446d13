//! Segments that a receiver has: in order up to a point, and ranges beyond it (RFC 2018).

use crate::packet::Payload;
use std::collections::VecDeque;

/// Number of ranges that an acknowledgement has room for beside a time stamp.
pub(super) const SACKS_MAX: usize = 3;

/// Ranges of segments received out of order, each a first one and one past its last. Ranges with
/// the most recent arrivals come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sacks {
    ranges: [(u32, u32); SACKS_MAX],
    count: u8,
}

impl Sacks {
    /// Takes as many of the ranges as there is room for.
    pub(super) fn of(ranges: &[(u32, u32)]) -> Self {
        let mut sacks = Self::default();
        for (place, &range) in sacks.ranges.iter_mut().zip(ranges) {
            *place = range;
            sacks.count += 1;
        }
        sacks
    }

    pub(super) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.count)]
    }
}

#[derive(Debug, Default)]
pub(super) struct Reassembly {
    /// First segment that is missing.
    next: u32,
    /// Names of the segments from `next` on; `None` where one is missing.
    held: VecDeque<Option<Payload>>,
    /// Ranges of `held`, the most recently grown first.
    ranges: Vec<(u32, u32)>,
}

impl Reassembly {
    /// Returns the first segment that is missing.
    pub(super) fn next(&self) -> u32 {
        self.next
    }

    /// Returns whether some segment is missing before one that is there.
    pub(super) fn has_hole(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Takes a segment; `in_order` gets what can be handed to the application now. Returns false
    /// when it was there before.
    pub(super) fn insert(
        &mut self,
        seq: u32,
        name: Payload,
        mut in_order: impl FnMut(Payload),
    ) -> bool {
        if seq < self.next {
            return false;
        }
        let place = (seq - self.next) as usize;
        if place >= self.held.len() {
            self.held.resize(place + 1, None);
        }
        if self.held[place].replace(name).is_some() {
            return false;
        }
        while let Some(&Some(name)) = self.held.front() {
            self.held.pop_front();
            self.next += 1;
            in_order(name);
        }
        self.grow_range(seq);
        true
    }

    fn grow_range(&mut self, seq: u32) {
        let mut range = (seq, seq + 1);
        self.ranges.retain(|&(start, end)| {
            let touches = end == seq || start == seq + 1;
            if touches {
                range = (range.0.min(start), range.1.max(end));
            }
            !touches
        });
        if range.0 >= self.next {
            self.ranges.insert(0, range);
        }
    }

    /// Returns the ranges to report to the sender.
    pub(super) fn sacks(&self) -> Sacks {
        Sacks::of(&self.ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{FlowId, MessageId};

    fn take(at: &mut Reassembly, seq: u32) -> Vec<u32> {
        let mut names = Vec::new();
        let new = at.insert(seq, Payload { flow: FlowId(0), message: MessageId(seq) }, |name| {
            names.push(name.message.0);
        });
        assert!(new, "{seq} is new");
        names
    }

    #[test]
    fn hands_over_in_order_and_once() {
        let mut at = Reassembly::default();
        assert_eq!(take(&mut at, 0), [0]);
        assert_eq!(take(&mut at, 2), []);
        assert_eq!(take(&mut at, 4), []);
        for seq in [0, 2, 4] {
            let name = Payload { flow: FlowId(0), message: MessageId(seq) };
            assert!(!at.insert(seq, name, |_| panic!("again")));
        }
        assert_eq!(take(&mut at, 1), [1, 2]);
        assert_eq!(take(&mut at, 3), [3, 4]);
        assert_eq!((at.next(), at.has_hole(), at.sacks().ranges().len()), (5, false, 0));
    }

    #[test]
    fn the_most_recent_ranges_come_first() {
        let mut at = Reassembly::default();
        for seq in [2, 4, 6, 8] {
            take(&mut at, seq);
        }
        assert_eq!(at.sacks().ranges(), [(8, 9), (6, 7), (4, 5)]);
        take(&mut at, 3);
        assert_eq!(at.sacks().ranges(), [(2, 5), (8, 9), (6, 7)], "two grew together");
        take(&mut at, 0);
        take(&mut at, 1);
        assert_eq!((at.next(), at.sacks().ranges()), (5, &[(8, 9), (6, 7)][..]));
    }
}
