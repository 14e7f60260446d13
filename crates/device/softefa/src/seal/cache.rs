//! A bounded map that evicts entries that were not used recently.

use std::collections::HashMap;
use std::hash::Hash;

#[derive(Debug)]
struct Slot<K, V> {
    key: K,
    value: V,
    was_used: bool,
}

/// A map of at most `max` entries. The entry that is evicted is one that was not looked up since
/// the hand last passed it (second chance), which costs a look-up no more than setting a flag.
#[derive(Debug)]
pub(super) struct Cache<K, V> {
    index: HashMap<K, usize>,
    slots: Vec<Slot<K, V>>,
    max: usize,
    /// The slot that is checked next for eviction.
    hand: usize,
    /// The slot that was found last, because bursts look up one entry again and again.
    last: usize,
}

impl<K: Copy + Eq + Hash, V> Cache<K, V> {
    /// Makes an empty map; `max` is at least 1.
    pub(super) fn new(max: usize) -> Self {
        Self { index: HashMap::new(), slots: Vec::new(), max, hand: 0, last: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn clear(&mut self) {
        self.index.clear();
        self.slots.clear();
    }

    /// Looks an entry up without counting it as a use.
    pub(super) fn peek(&self, key: &K) -> Option<&V> {
        self.index.get(key).map(|place| &self.slots[*place].value)
    }

    pub(super) fn get(&mut self, key: &K) -> Option<&mut V> {
        let is_last = self.slots.get(self.last).is_some_and(|slot| slot.key == *key);
        let place = if is_last { self.last } else { *self.index.get(key)? };
        self.last = place;
        let slot = &mut self.slots[place];
        slot.was_used = true;
        Some(&mut slot.value)
    }

    /// Adds an entry whose key is not in the map, and returns the entry that was evicted for it.
    pub(super) fn insert(&mut self, key: K, value: V) -> Option<(K, V)> {
        let slot = Slot { key, value, was_used: true };
        if self.slots.len() < self.max {
            self.last = self.slots.len();
            self.slots.push(slot);
            self.index.insert(key, self.last);
            return None;
        }
        while std::mem::take(&mut self.slots[self.hand].was_used) {
            self.hand = (self.hand + 1) % self.slots.len();
        }
        self.last = self.hand;
        self.hand = (self.hand + 1) % self.slots.len();
        let gone = std::mem::replace(&mut self.slots[self.last], slot);
        self.index.remove(&gone.key);
        self.index.insert(key, self.last);
        Some((gone.key, gone.value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays() {
        let mut cache = Cache::new(3);
        for key in 0..3 {
            assert_eq!(cache.insert(key, key * 10), None);
        }
        // All entries were used: the first round clears their flags, the second finds the oldest.
        assert_eq!(cache.insert(3, 30), Some((0, 0)));
        assert_eq!(cache.get(&1), Some(&mut 10));
        assert_eq!(cache.insert(4, 40), Some((2, 20)));
        assert!(cache.get(&0).is_none() && cache.get(&2).is_none());
        assert_eq!([1, 3, 4].map(|key| *cache.get(&key).unwrap()), [10, 30, 40]);
        assert_eq!(cache.len(), 3);
    }

    #[test]
    fn one_entry_is_enough() {
        let mut cache = Cache::new(1);
        assert_eq!(cache.insert('a', 1), None);
        assert_eq!(cache.insert('b', 2), Some(('a', 1)));
        assert_eq!(cache.get(&'a'), None);
        assert_eq!(cache.peek(&'b'), Some(&2));
        cache.clear();
        assert!(cache.len() == 0 && cache.get(&'b').is_none());
    }
}
