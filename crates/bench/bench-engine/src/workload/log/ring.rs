//! The end of the primary's log: the groups that are not committed, or that a replica still lacks.

use std::time::Instant;

use bench_record::failure::Failure;

use crate::pattern;
use crate::workload::filled;

/// A group of records.
#[derive(Debug, Clone, Copy)]
struct Group {
    /// The number of the group's first record.
    first: u64,
    records: usize,
    /// The replicas that have the group, a bit each.
    acks: u64,
}

/// The groups by number: `begin <= committed <= end`.
pub(super) struct Ring {
    groups: Vec<Group>,
    /// The records of all places.
    memory: Vec<u8>,
    /// The time at which each record was due.
    due: Vec<Instant>,
    group: usize,
    record_bytes: usize,
    /// The oldest group that a replica may lack.
    begin: u64,
    /// The first group that is not committed.
    committed: u64,
    /// The next group.
    end: u64,
    /// The number of records in the next group so far.
    making: usize,
    /// The number of records in all groups.
    records: u64,
}

impl Ring {
    /// Makes room for `places` groups of at most `group` records.
    pub(super) fn new(places: usize, group: usize, record_bytes: usize) -> Result<Self, Failure> {
        let total_bytes = places.saturating_mul(group).saturating_mul(record_bytes);
        let what = format!(
            "{places} groups of {group} records of {record_bytes} bytes: give a smaller --depth or \
             --group"
        );
        let memory = filled(total_bytes, 0, what)?;
        Ok(Self {
            groups: vec![Group { first: 0, records: 0, acks: 0 }; places],
            memory,
            due: vec![Instant::now(); places * group],
            group,
            record_bytes,
            begin: 0,
            committed: 0,
            end: 0,
            making: 0,
            records: 0,
        })
    }

    #[inline]
    fn place(&self, number: u64) -> usize {
        (number % self.groups.len() as u64) as usize
    }

    /// Returns true if there is room for one more group, with at most `depth` uncommitted ones.
    #[inline]
    pub(super) fn has_room(&self, depth: usize) -> bool {
        self.end - self.committed < depth as u64 && self.end - self.begin < self.groups.len() as u64
    }

    /// Adds a record that was due at that moment to the group that is being made; there must be
    /// room for both.
    #[inline]
    pub(super) fn append(&mut self, due: Instant, fill: bool) {
        let place = self.place(self.end);
        if self.making == 0 {
            self.groups[place] = Group { first: self.records, records: 0, acks: 0 };
        }
        let record = place * self.group + self.making;
        self.making += 1;
        self.groups[place].records = self.making;
        self.due[record] = due;
        let bytes = &mut self.memory[record * self.record_bytes..][..self.record_bytes];
        match fill {
            true => pattern::fill(bytes, self.records),
            false => bytes[..8].copy_from_slice(&self.records.to_le_bytes()),
        }
        self.records += 1;
    }

    /// Completes the group that is being made.
    #[inline]
    pub(super) fn complete(&mut self) {
        self.making = 0;
        self.end += 1;
    }

    /// Returns the number of the next group.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Returns true if every replica has every group.
    pub(super) const fn is_empty(&self) -> bool {
        self.begin == self.end
    }

    /// Returns the number of the first record of a group, and the group's records.
    #[inline]
    pub(super) fn content(&self, number: u64) -> (u64, &[u8]) {
        let place = self.place(number);
        let Group { first, records, .. } = self.groups[place];
        let start = place * self.group * self.record_bytes;
        (first, &self.memory[start..start + records * self.record_bytes])
    }

    /// Notes that a replica has the group whose number has these low bits. Returns false if there
    /// is no such group, or the replica had it before.
    #[inline]
    pub(super) fn acknowledge(&mut self, low: u32, replica: usize) -> bool {
        let number = self.begin + u64::from(low.wrapping_sub(self.begin as u32));
        if number >= self.end {
            return false;
        }
        let place = self.place(number);
        let bit = 1 << replica;
        let is_new = self.groups[place].acks & bit == 0;
        self.groups[place].acks |= bit;
        is_new
    }

    /// Commits the oldest uncommitted group if `needed` replicas have it. Returns the times at
    /// which its records were due.
    #[inline]
    pub(super) fn commit(&mut self, needed: u32) -> Option<&[Instant]> {
        if self.committed == self.end {
            return None;
        }
        let place = self.place(self.committed);
        let Group { records, acks, .. } = self.groups[place];
        if acks.count_ones() < needed {
            return None;
        }
        self.committed += 1;
        let start = place * self.group;
        Some(&self.due[start..start + records])
    }

    /// Forgets committed groups that all replicas have.
    #[inline]
    pub(super) fn forget(&mut self, replicas: usize) {
        while self.begin < self.committed
            && self.groups[self.place(self.begin)].acks.count_ones() as usize == replicas
        {
            self.begin += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(ring: &mut Ring, records: usize) {
        for _ in 0..records {
            ring.append(Instant::now(), false);
        }
        ring.complete();
    }

    #[test]
    fn groups_are_committed_in_the_order_of_their_numbers() {
        let mut ring = Ring::new(4, 2, 8).expect("a ring");
        append(&mut ring, 2);
        append(&mut ring, 1);
        assert_eq!((ring.end(), ring.content(1).0), (2, 2));
        assert!(ring.acknowledge(1, 0) && ring.acknowledge(1, 1));
        assert!(ring.commit(2).is_none(), "the first is not there yet");
        assert!(ring.acknowledge(0, 1) && ring.commit(2).is_none());
        assert!(ring.acknowledge(0, 0));
        assert_eq!(ring.commit(2).map(<[_]>::len), Some(2));
        assert_eq!(ring.commit(2).map(<[_]>::len), Some(1));
        assert!(ring.commit(2).is_none());
        ring.forget(2);
        assert!(ring.is_empty());
    }

    #[test]
    fn a_slow_replica_holds_up_only_a_full_ring() {
        let mut ring = Ring::new(3, 1, 8).expect("a ring");
        for number in 0..3 {
            assert!(ring.has_room(1));
            append(&mut ring, 1);
            assert!(!ring.has_room(1) && ring.has_room(2) == (number < 2));
            assert!(ring.acknowledge(number, 0) && ring.commit(1).is_some());
            ring.forget(2);
        }
        assert!(!ring.has_room(1), "the other replica lacks all of it");
        assert_eq!(ring.content(2), (2, &2_u64.to_le_bytes()[..]));
        assert!(ring.acknowledge(0, 1));
        ring.forget(2);
        assert!(ring.has_room(1) && !ring.is_empty());
    }

    #[test]
    fn what_was_not_shipped_or_is_there_already_is_not_acknowledged() {
        let mut ring = Ring::new(2, 1, 8).expect("a ring");
        assert!(!ring.acknowledge(0, 0));
        append(&mut ring, 1);
        assert!(ring.acknowledge(0, 0));
        assert!(
            !ring.acknowledge(0, 0) && !ring.acknowledge(1, 0) && !ring.acknowledge(u32::MAX, 0)
        );
    }
}
