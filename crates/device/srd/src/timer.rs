//! A timer queue with one deadline per peer.
//!
//! A binary heap that knows the position of each peer's entry. A deadline that moves later is left
//! alone: the entry fires early, and the peer is asked for its real deadline then. So arming a
//! timer costs one comparison on the data path.

use crate::Instant;

const NOWHERE: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(crate) struct TimerQueue {
    heap: Vec<(Instant, u32)>,
    /// Position of each peer's entry in `heap`, by peer index.
    positions: Vec<u32>,
}

impl TimerQueue {
    /// Returns the earliest deadline; nothing is due before it.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.first().map(|entry| entry.0)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap.capacity() * size_of::<(Instant, u32)>() + self.positions.capacity() * 4
    }

    /// Returns whether `peer` will be popped no later than `at`.
    #[inline]
    pub(crate) fn is_armed(&self, peer: u32, at: Instant) -> bool {
        let positions = self.positions.get(peer as usize).copied().unwrap_or(NOWHERE);
        self.heap.get(positions as usize).is_some_and(|entry| entry.0 <= at)
    }

    /// Ensures that `peer` is popped no later than `at`.
    #[inline]
    pub(crate) fn arm(&mut self, peer: u32, at: Instant) {
        let index = peer as usize;
        if index >= self.positions.len() {
            self.positions.resize(index + 1, NOWHERE);
        }
        let positions = self.positions[index] as usize;
        if let Some(entry) = self.heap.get_mut(positions) {
            assert_eq!(entry.1, peer, "the place table names the peer's own entry");
            if entry.0 <= at {
                return;
            }
            entry.0 = at;
            self.sift_up(positions);
        } else {
            self.heap.push((at, peer));
            self.positions[index] = (self.heap.len() - 1) as u32;
            self.sift_up(self.heap.len() - 1);
        }
    }

    /// Removes and returns a peer whose deadline is not after `now`.
    pub(crate) fn pop_due(&mut self, now: Instant) -> Option<u32> {
        let &(at, peer) = self.heap.first()?;
        if at > now {
            return None;
        }
        self.remove(peer);
        Some(peer)
    }

    pub(crate) fn remove(&mut self, peer: u32) {
        let Some(positions) = self.positions.get_mut(peer as usize) else { return };
        let at = core::mem::replace(positions, NOWHERE) as usize;
        if at >= self.heap.len() {
            return;
        }
        self.heap.swap_remove(at);
        if let Some(moved) = self.heap.get(at) {
            self.positions[moved.1 as usize] = at as u32;
            self.sift_down(at);
            self.sift_up(at);
        }
    }

    fn sift_up(&mut self, mut at: usize) {
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= self.heap[at].0 {
                break;
            }
            self.swap(parent, at);
            at = parent;
        }
    }

    fn sift_down(&mut self, mut at: usize) {
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.heap.len() && self.heap[child].0 < self.heap[least].0 {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.swap(least, at);
            at = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.positions[self.heap[a].1 as usize] = a as u32;
        self.positions[self.heap[b].1 as usize] = b as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    fn at(ns: u64) -> Instant {
        Instant::from_ns(ns)
    }

    #[test]
    fn pops_in_order_whatever_was_done_to_it() {
        let mut rng = Rng::new(3);
        let mut timers = TimerQueue::default();
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..5000 {
            let peer = rng.below(50) as u32;
            let when = rng.below(1_000_000);
            if rng.chance(0.2) {
                timers.remove(peer);
                model.remove(&peer);
            } else {
                timers.arm(peer, at(when));
                let entry = model.entry(peer).or_insert(when);
                *entry = when.min(*entry);
            }
            assert_eq!(timers.next(), model.values().min().map(|&ns| at(ns)));
        }
        let mut last = Instant::ZERO;
        while let Some(next) = timers.next() {
            assert!(next >= last);
            last = next;
            let peer = timers.pop_due(next).unwrap();
            assert_eq!(model.remove(&peer).map(at), Some(next));
        }
        assert!(model.is_empty() && timers.pop_due(Instant::FAR).is_none());
    }
}
