//! The partition of a tuple, and the sum that shows that all tuples of a partition have come.

use bench_record::failure::Failure;

use crate::measure::Random;
use crate::pattern;

/// Returns the hash of a key.
#[inline]
pub(super) const fn hash(key: u64) -> u64 {
    Random::new(key).next()
}

/// Returns the owner of tuples with this hash.
#[inline]
pub(super) fn owner(hash: u64, partitions: usize) -> usize {
    ((u128::from(hash) * partitions as u128) >> 64) as usize
}

/// A sum of tuples, in any order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) tuples: u64,
    /// The sum of the hashes of the tuples.
    pub(super) hashes: u64,
}

impl Sum {
    #[inline]
    pub(super) const fn note(&mut self, hash: u64) {
        self.tuples += 1;
        self.hashes = self.hashes.wrapping_add(hash);
    }
}

/// One node's partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Partition {
    pub(super) number: usize,
    /// The number of partitions.
    pub(super) partitions: usize,
    pub(super) tuple_bytes: usize,
    /// True if all bytes of each tuple are checked, not only its key.
    pub(super) validate: bool,
}

impl Partition {
    /// Takes the tuples of a buffer.
    #[inline]
    pub(super) fn take(&self, buffer: &[u8], sum: &mut Sum) -> Result<(), Failure> {
        let tuples = buffer.chunks_exact(self.tuple_bytes);
        if buffer.is_empty() || !tuples.remainder().is_empty() {
            return Err(damaged("is no whole number of tuples"));
        }
        for tuple in tuples {
            let key = pattern::number(tuple).unwrap_or_default();
            let hash = hash(key);
            if owner(hash, self.partitions) != self.number {
                return Err(damaged("holds a tuple of another partition"));
            }
            if self.validate && pattern::check(tuple) != Ok(Some(key)) {
                return Err(damaged("holds other bytes than were sent"));
            }
            sum.note(hash);
        }
        Ok(())
    }
}

pub(super) fn damaged(what: &str) -> Failure {
    Failure::Data(format!("a buffer of tuples {what}: the fabric damages data"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTITIONS: usize = 5;

    /// Makes a buffer of tuples of one partition.
    fn buffer(tuple_bytes: usize) -> Vec<u8> {
        let keys = (0..1000).filter(|key| owner(hash(*key), PARTITIONS) == 3);
        let mut buffer = Vec::new();
        for key in keys {
            let mut tuple = vec![0; tuple_bytes];
            pattern::fill(&mut tuple, key);
            buffer.extend(tuple);
        }
        buffer
    }

    #[test]
    fn keys_are_spread_over_all_partitions() {
        let mut counts = [0_u32; PARTITIONS];
        (0..100_000).for_each(|key| counts[owner(hash(key), PARTITIONS)] += 1);
        assert!(counts.iter().all(|count| (19_000..21_000).contains(count)), "{counts:?}");
        assert_eq!((owner(0, 7), owner(u64::MAX, 7)), (0, 6));
    }

    #[test]
    fn tuples_are_summed_whatever_their_order_and_damage_is_noticed() {
        let partition =
            Partition { number: 3, partitions: PARTITIONS, tuple_bytes: 24, validate: true };
        let mut tuples = buffer(24);
        let (mut sum, mut other) = (Sum::default(), Sum::default());
        partition.take(&tuples, &mut sum).expect("whole");
        assert_eq!(sum.tuples, tuples.len() as u64 / 24);
        let (front, back) = tuples.split_at(48);
        partition.take(back, &mut other).expect("whole");
        partition.take(front, &mut other).expect("whole");
        assert_eq!(sum, other);
        assert!(partition.take(&tuples[..30], &mut sum).is_err(), "part of a tuple");
        assert!(partition.take(&[], &mut sum).is_err(), "nothing");
        for bit in 0..24 * 8 {
            tuples[bit / 8] ^= 1 << (bit % 8);
            assert!(partition.take(&tuples, &mut other).is_err(), "bit {bit}");
            tuples[bit / 8] ^= 1 << (bit % 8);
        }
        let strangers = Partition { number: 2, ..partition };
        assert!(strangers.take(&tuples, &mut other).is_err());
    }

    #[test]
    fn a_key_that_stays_in_its_partition_changes_the_sum() {
        let partition =
            Partition { number: 3, partitions: PARTITIONS, tuple_bytes: 8, validate: false };
        let mut tuples = buffer(8);
        let mut sum = Sum::default();
        partition.take(&tuples, &mut sum).expect("whole");
        let second = tuples[8..16].to_vec();
        tuples[..8].copy_from_slice(&second);
        let mut other = Sum::default();
        partition.take(&tuples, &mut other).expect("of this partition");
        assert_eq!(sum.tuples, other.tuples);
        assert_ne!(sum.hashes, other.hashes);
    }
}
