//! The event queue: a timing wheel for what happens soon, a heap for what happens late.
//!
//! Events leave in the order of time, and of insertion at the same time, so that a run repeats.
//! A link's next arrival is microseconds away and goes into a bucket without a comparison; a
//! bucket is sorted once, when its turn comes. `examples/event_queue.rs` measures it beside a
//! binary heap.

use crate::time::Time;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A bucket spans 2^13 ps (8 ns), a fortieth of a packet at 100 Gbit/s;
const BUCKET_LOG2: u32 = 13;
/// all of them 34 us: more than a hop, less than most time-outs.
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;

#[derive(Clone, Copy, Debug)]
struct Entry<T> {
    /// Time, then order of insertion, as one number: comparing it takes two instructions.
    key: u128,
    event: T,
}

impl<T> Entry<T> {
    fn new(at: Time, serial: u64, event: T) -> Self {
        Self { key: u128::from(at.as_ps()) << 64 | u128::from(serial), event }
    }

    fn at(&self) -> Time {
        Time::from_ps((self.key >> 64) as u64)
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }

    fn lt(&self, other: &Self) -> bool {
        other.key < self.key
    }
}

/// The earliest is the greatest: what `BinaryHeap` pops first, what stands last in a vector.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Events by time.
#[derive(Debug)]
pub struct Wheel<T> {
    /// The bucket whose turn it is, the earliest event last.
    current: Vec<Entry<T>>,
    /// Number of the current bucket since the start of time.
    turn: u64,
    /// Later buckets, unsorted, by number modulo their count.
    buckets: Vec<Vec<Entry<T>>>,
    /// Memory of buckets whose turn is over: only those near the current one hold much at a time.
    spare: Vec<Vec<Entry<T>>>,
    /// One bit per bucket that holds something.
    occupied: [u64; WORDS],
    /// Events beyond the last bucket.
    far: BinaryHeap<Entry<T>>,
    serial: u64,
    len: usize,
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            current: Vec::new(),
            turn: 0,
            buckets: (0..BUCKETS).map(|_| Vec::new()).collect(),
            spare: Vec::new(),
            occupied: [0; WORDS],
            far: BinaryHeap::new(),
            serial: 0,
            len: 0,
        }
    }
}

impl<T: Copy> Wheel<T> {
    /// Events waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Nothing is going to happen.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. One that is earlier than what was popped last is popped next.
    #[inline]
    pub fn push(&mut self, at: Time, event: T) {
        self.serial += 1;
        self.len += 1;
        let entry = Entry::new(at, self.serial, event);
        let bucket = bucket_of(at);
        if bucket <= self.turn {
            let place = self.current.partition_point(|other| *other < entry);
            self.current.insert(place, entry);
        } else if bucket - self.turn < BUCKETS as u64 {
            self.put(bucket, entry);
        } else {
            self.far.push(entry);
        }
    }

    /// Takes the earliest event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        if self.current.is_empty() && !self.advance() {
            return None;
        }
        let entry = self.current.pop()?;
        self.len -= 1;
        Some((entry.at(), entry.event))
    }

    fn put(&mut self, bucket: u64, entry: Entry<T>) {
        let slot = bucket as usize % BUCKETS;
        let place = &mut self.buckets[slot];
        if place.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *place = spare;
        }
        place.push(entry);
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Goes on to the next bucket that holds something. False when there is none.
    fn advance(&mut self) -> bool {
        let near = self.next_occupied();
        let far = self.far.peek().map(|entry| bucket_of(entry.at()));
        let Some(turn) = near.into_iter().chain(far).min() else { return false };
        self.turn = turn;
        while let Some(entry) = self.far.peek()
            && bucket_of(entry.at()) - turn < BUCKETS as u64
        {
            if let Some(entry) = self.far.pop() {
                self.put(bucket_of(entry.at()), entry);
            }
        }
        let slot = turn as usize % BUCKETS;
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        let next = std::mem::take(&mut self.buckets[slot]);
        self.spare.push(std::mem::replace(&mut self.current, next));
        self.current.sort_unstable();
        true
    }

    /// The first bucket after the current one that holds something.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.turn as usize + 1) % BUCKETS;
        for i in 0..=WORDS {
            let word = (start / 64 + i) % WORDS;
            let mut bits = self.occupied[word];
            if i == 0 {
                bits &= !0 << (start % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + BUCKETS - start) % BUCKETS;
                return Some(self.turn + 1 + ahead as u64);
            }
        }
        None
    }
}

fn bucket_of(at: Time) -> u64 {
    at.as_ps() >> BUCKET_LOG2
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeMap;

    #[test]
    fn pops_what_an_ordered_map_pops() {
        let mut rng = Rng::new(11);
        let (mut wheel, mut model) = (Wheel::default(), BTreeMap::new());
        let mut now = Time::ZERO;
        for serial in 0..200_000u64 {
            // Now, within a bucket, within the wheel, beyond it, far beyond it.
            let span = [1, 1 << 10, 1 << 24, 1 << 28, 1 << 43][rng.below(5) as usize];
            let at = now.plus_ps(rng.below(span));
            wheel.push(at, serial);
            model.insert((at, serial), ());
            while rng.below(100) < 45 {
                let expected = model.pop_first().map(|((at, serial), ())| (at, serial));
                assert_eq!(wheel.pop(), expected);
                assert_eq!(wheel.len(), model.len());
                now = expected.map_or(now, |(at, _)| at);
            }
        }
        while let Some(((at, serial), ())) = model.pop_first() {
            assert_eq!(wheel.pop(), Some((at, serial)));
        }
        assert_eq!(wheel.pop(), None);
        assert!(wheel.is_empty());
    }
}
