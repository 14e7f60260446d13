//! The event queue: a timing wheel for what happens soon, a heap for what happens late.
//!
//! Events leave in the order of time, and of insertion at the same time, so that a run repeats.
//! A link's next arrival is microseconds away and goes to the end of a bucket's list without a
//! comparison; a bucket is sorted once, when its turn comes. `examples/event_queue.rs` measures it
//! beside a binary heap.

mod chunks;

use crate::time::Time;
use chunks::{Chunks, List};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Logarithm of a bucket's span: 2^13 ps (8 ns), a fortieth of a packet at 100 Gbit/s.
const BUCKET_LOG2: u32 = 13;
/// Number of buckets. All of them span 34 us: more than a hop, less than most time-outs.
const BUCKETS: usize = 4096;
const WORDS: usize = BUCKETS / 64;

/// An event in a bucket. The order of the list is that of insertion.
#[derive(Clone, Copy, Debug)]
struct Near<T> {
    event: T,
    /// Time since the bucket's begin.
    offset_ps: u16,
}

/// An event in a heap.
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
}

/// Orders the earliest as the greatest, which `BinaryHeap` pops first.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// The bucket whose turn it is.
#[derive(Debug)]
struct Turn<T> {
    /// Number of the bucket since the start of time.
    number: u64,
    events: Vec<T>,
    /// Order of the events: time since the bucket's begin, and the place in `events`, as one
    /// number.
    order: Vec<u64>,
    /// Place in `order` of the next event; those before it have left.
    next: usize,
    /// Events that were added since the turn began; at the same time they come after `events`.
    late: BinaryHeap<Entry<T>>,
}

impl<T: Copy> Turn<T> {
    fn is_over(&self) -> bool {
        self.next == self.order.len() && self.late.is_empty()
    }

    #[inline]
    fn pop(&mut self) -> Option<(Time, T)> {
        let key = self.order.get(self.next).copied();
        let at = key.map(|key| Time::from_ps((self.number << BUCKET_LOG2) + (key >> 32)));
        if let Some(late) = self.late.peek() {
            if at.is_none_or(|at| late.at() < at) {
                return self.late.pop().map(|late| (late.at(), late.event));
            }
        }
        self.next += 1;
        Some((at?, self.events[key? as u32 as usize]))
    }

    /// Takes over the events of a bucket. The turn before is over.
    fn begin(&mut self, number: u64, bucket: &mut List, chunks: &mut Chunks<Near<T>>) {
        self.number = number;
        self.events.clear();
        self.order.clear();
        self.next = 0;
        chunks.drain(bucket, |near| {
            self.order.push(u64::from(near.offset_ps) << 32 | self.events.len() as u64);
            self.events.push(near.event);
        });
        self.order.sort_unstable();
    }
}

/// A queue of events by time.
#[derive(Debug)]
pub struct Wheel<T> {
    turn: Turn<T>,
    /// Later buckets, unsorted, by number modulo their count.
    buckets: Vec<List>,
    chunks: Chunks<Near<T>>,
    /// One bit per bucket, set while it holds something.
    occupied: [u64; WORDS],
    /// Events beyond the last bucket.
    far: BinaryHeap<Entry<T>>,
    /// Number of events that were put into a heap so far.
    serial: u64,
    len: usize,
}

impl<T: Copy> Default for Wheel<T> {
    fn default() -> Self {
        Self {
            turn: Turn {
                number: 0,
                events: Vec::new(),
                order: Vec::new(),
                next: 0,
                late: BinaryHeap::new(),
            },
            buckets: vec![List::EMPTY; BUCKETS],
            chunks: Chunks::new(),
            occupied: [0; WORDS],
            far: BinaryHeap::new(),
            serial: 0,
            len: 0,
        }
    }
}

impl<T: Copy> Wheel<T> {
    /// Returns the number of events waiting.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no event waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds an event. If it is earlier than the one popped last, it is popped next.
    #[inline]
    pub fn push(&mut self, at: Time, event: T) {
        self.len += 1;
        let bucket = bucket_of(at);
        if bucket.wrapping_sub(self.turn.number + 1) < BUCKETS as u64 - 1 {
            self.put(at, event);
        } else {
            self.push_ordered(at, event);
        }
    }

    /// Adds an event of the current turn, or of one beyond the last bucket.
    fn push_ordered(&mut self, at: Time, event: T) {
        self.serial += 1;
        let entry = Entry::new(at, self.serial, event);
        let is_late = bucket_of(at) <= self.turn.number;
        let heap = if is_late { &mut self.turn.late } else { &mut self.far };
        heap.push(entry);
    }

    /// Takes the earliest event out.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, T)> {
        if self.turn.is_over() && !self.advance() {
            return None;
        }
        self.len -= 1;
        self.turn.pop()
    }

    /// Adds an event to its bucket. Events of the far heap were added before all others, or they
    /// would be there already: the order stays that of insertion.
    #[inline]
    fn put(&mut self, at: Time, event: T) {
        let slot = bucket_of(at) as usize % BUCKETS;
        let offset_ps = (at.as_ps() % (1 << BUCKET_LOG2)) as u16;
        self.chunks.push(&mut self.buckets[slot], Near { event, offset_ps });
        self.occupied[slot / 64] |= 1 << (slot % 64);
    }

    /// Advances to the next bucket that holds something. Returns false when there is none.
    fn advance(&mut self) -> bool {
        let near = self.next_occupied();
        let far = self.far.peek().map(|entry| bucket_of(entry.at()));
        let Some(number) = near.into_iter().chain(far).min() else { return false };
        while let Some(entry) = self.far.peek() {
            if bucket_of(entry.at()) - number >= BUCKETS as u64 {
                break;
            }
            if let Some(entry) = self.far.pop() {
                self.put(entry.at(), entry.event);
            }
        }
        let slot = number as usize % BUCKETS;
        self.occupied[slot / 64] &= !(1 << (slot % 64));
        self.turn.begin(number, &mut self.buckets[slot], &mut self.chunks);
        true
    }

    /// Returns the first bucket after the current one that holds something.
    fn next_occupied(&self) -> Option<u64> {
        let start = (self.turn.number as usize + 1) % BUCKETS;
        for i in 0..=WORDS {
            let word = (start / 64 + i) % WORDS;
            let mut bits = self.occupied[word];
            if i == 0 {
                bits &= !0 << (start % 64);
            }
            if bits != 0 {
                let slot = word * 64 + bits.trailing_zeros() as usize;
                let ahead = (slot + BUCKETS - start) % BUCKETS;
                return Some(self.turn.number + 1 + ahead as u64);
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
