//! How many wrong queue keys are looked at: a key has 32 bits, and a network carries that many
//! guesses within the hour (SRD-3.12).

use crate::Instant;

const SECOND_NS: u64 = 1_000_000_000;
/// Wrong keys in a second before openers must prove their addresses.
const FREE_MAX: u16 = 256;
/// Machines are told apart by this many classes, and one more is for addresses that have a context.
const MACHINES: usize = 16;
/// Addresses of a class are told apart by this many buckets.
const BUCKETS: usize = 64;
/// Wrong keys in a second that one bucket may try.
const WRONG_MAX: u8 = 2;
/// Wrong keys that are remembered.
const KEYS: usize = 64;

/// The bucket in which the wrong keys of an address are counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket(usize);

impl Bucket {
    /// Returns the bucket of an address with a context: nobody else can prove to have it.
    pub(super) fn of_peer(number: u64) -> Self {
        Self(MACHINES * BUCKETS + number as usize % BUCKETS)
    }

    /// Returns the bucket of another address, by numbers of its machine and of itself.
    pub(super) fn of_stranger(machine: u64, number: u64) -> Self {
        Self(machine as usize % MACHINES * BUCKETS + number as usize % BUCKETS)
    }
}

/// Wrong keys of the present second, and which they were. Nothing is allocated before the first.
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
    /// Keys may be looked at without proof.
    pub(super) fn has_free(&self, now: Instant) -> bool {
        self.of(now).is_none_or(|counts| counts.free < FREE_MAX)
    }

    /// A key of this bucket may be looked at.
    pub(super) fn has_room(&self, now: Instant, bucket: Bucket) -> bool {
        self.of(now).is_none_or(|counts| counts.buckets[bucket.0] < WRONG_MAX)
    }

    /// This key was wrong lately.
    pub(super) fn is_known(&self, key: u32) -> bool {
        self.0.as_ref().is_some_and(|counts| counts.keys[slot(key)] == Some(key))
    }

    /// A key was looked at and is wrong; `bucket` is where it counts, when nothing is free.
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

    /// Another key is the right one from now on.
    pub(super) fn forget_keys(&mut self) {
        if let Some(counts) = &mut self.0 {
            counts.keys.fill(None);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |_| size_of::<Counts>())
    }

    /// What was counted in the present second.
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

/// Where a key is remembered. Whoever wants to have one forgotten may, at the price of a guess.
fn slot(key: u32) -> usize {
    (crate::rng::mix(u64::from(key)) % KEYS as u64) as usize
}
