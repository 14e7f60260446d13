//! Limits how many wrong queue keys are checked: a key has 32 bits, and a network carries that many
//! guesses in an hour (SRD-3.12).

use crate::Instant;

const SECOND_NS: u64 = 1_000_000_000;
/// Wrong keys per second after which openers must prove their addresses.
const FREE_MAX: u16 = 256;
/// The number of classes for machines; one more class is for addresses that have a context.
const MACHINES: usize = 16;
/// The number of buckets in a class.
const BUCKETS: usize = 64;
/// Wrong keys per second that are checked for one bucket.
const WRONG_MAX: u8 = 2;
/// The number of wrong keys that are remembered.
const KEYS: usize = 64;

/// The bucket in which the wrong keys of an address are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(usize);

impl Bucket {
    /// Returns the bucket of an address that has a context: only its owner can prove to have it.
    pub(super) fn of_peer(number: u64) -> Self {
        Self(MACHINES * BUCKETS + number as usize % BUCKETS)
    }

    /// Returns the bucket of any other address, from hashes of its machine and of the address
    /// itself.
    pub(super) fn of_stranger(machine: u64, number: u64) -> Self {
        Self(machine as usize % MACHINES * BUCKETS + number as usize % BUCKETS)
    }
}

/// The wrong keys of the current second. Nothing is allocated before the first.
#[derive(Debug, Default)]
pub(super) struct Guesses(Option<Box<Counts>>);

#[derive(Debug)]
struct Counts {
    second: u64,
    free: u16,
    buckets: [u8; (MACHINES + 1) * BUCKETS],
    keys: [Option<u32>; KEYS],
}

impl Guesses {
    /// Returns whether keys may still be checked without proof of the address.
    pub(super) fn has_free_checks(&self, now: Instant) -> bool {
        self.of(now).is_none_or(|counts| counts.free < FREE_MAX)
    }

    /// Returns whether another key of this bucket may be checked.
    pub(super) fn has_room(&self, now: Instant, bucket: Bucket) -> bool {
        self.of(now).is_none_or(|counts| counts.buckets[bucket.0] < WRONG_MAX)
    }

    /// Returns whether this key was found to be wrong lately.
    pub(super) fn is_known(&self, key: u32) -> bool {
        self.0.as_ref().is_some_and(|counts| counts.keys[slot(key)] == Some(key))
    }

    /// Records that a key was wrong, and counts it in `bucket` once the free checks are used up.
    pub(super) fn note_wrong(&mut self, now: Instant, key: u32, bucket: Option<Bucket>) {
        let counts = self.0.get_or_insert_with(Counts::new);
        let second = now.as_ns() / SECOND_NS;
        if counts.second != second {
            (counts.second, counts.free) = (second, 0);
            counts.buckets.fill(0);
        }
        counts.keys[slot(key)] = Some(key);
        match bucket {
            Some(bucket) => counts.buckets[bucket.0] += 1,
            None => counts.free += 1,
        }
    }

    /// Forgets the wrong keys, because the right one has changed.
    pub(super) fn forget_keys(&mut self) {
        if let Some(counts) = &mut self.0 {
            counts.keys.fill(None);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |_| size_of::<Counts>())
    }

    /// Returns the counts of the current second, if there are any.
    fn of(&self, now: Instant) -> Option<&Counts> {
        self.0.as_deref().filter(|counts| counts.second == now.as_ns() / SECOND_NS)
    }
}

impl Counts {
    fn new() -> Box<Self> {
        let buckets = [0; (MACHINES + 1) * BUCKETS];
        Box::new(Self { second: 0, free: 0, buckets, keys: [None; KEYS] })
    }
}

/// Returns the slot that remembers a key. An attacker can evict a key from it, but each try costs a
/// guess.
fn slot(key: u32) -> usize {
    (crate::rng::mix(u64::from(key)) % KEYS as u64) as usize
}
