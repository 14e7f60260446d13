//! Places of objects that have keys.

use std::collections::VecDeque;
use std::sync::Arc;

/// The number of low bits of a key's number that are the place. The bits above distinguish the
/// successive owners of a place.
const PLACE_BITS: u32 = 18;
/// The largest number of places in a table.
pub(super) const PLACES_MAX: u32 = 1 << PLACE_BITS;
/// The number of free places that are kept unused as long as there are fresh ones, so that a stale
/// key stays invalid for long.
const RESTING: usize = 64;

/// The numbers that the keys of a table stand for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    /// The bits that the table may use.
    pub(super) mask: u32,
    /// The bits that are set in all numbers, outside of the mask.
    pub(super) mark: u32,
}

#[derive(Debug)]
struct Slot<T> {
    /// The number of the key of the last owner.
    plain: u32,
    owner: Option<Arc<T>>,
}

/// A table of objects.
#[derive(Debug)]
pub(super) struct Slots<T> {
    all: Vec<Slot<T>>,
    free: VecDeque<u32>,
    max: u32,
    numbers: Numbers,
}

impl<T> Slots<T> {
    pub(super) fn new(max: u32, numbers: Numbers) -> Self {
        assert!(max <= PLACES_MAX);
        Self { all: Vec::new(), free: VecDeque::new(), max, numbers }
    }

    /// Returns the largest number of objects.
    pub(super) fn max(&self) -> u32 {
        self.max
    }

    /// Gives an object a place and the number of its key; `None` if all places are in use.
    pub(super) fn add(&mut self, owner: impl FnOnce(u32) -> Arc<T>) -> Option<Arc<T>> {
        let fresh = self.all.len();
        let place = if fresh < self.max as usize && self.free.len() < RESTING {
            #[expect(clippy::cast_possible_truncation, reason = "below max, which is a u32")]
            let place = fresh as u32;
            self.all.push(Slot { plain: place, owner: None });
            place
        } else {
            self.free.pop_front()?
        };
        let slot = &mut self.all[place as usize];
        slot.plain = (slot.plain + PLACES_MAX) & self.numbers.mask | self.numbers.mark;
        let owner = owner(slot.plain);
        slot.owner = Some(Arc::clone(&owner));
        Some(owner)
    }

    /// Returns the object whose key stands for `plain`.
    pub(super) fn get(&self, plain: u32) -> Option<&Arc<T>> {
        let slot = self.all.get(place_of(plain))?;
        slot.owner.as_ref().filter(|_| slot.plain == plain)
    }

    /// Puts another object in the place of the one whose key stands for `plain`.
    pub(super) fn replace(&mut self, plain: u32, owner: Arc<T>) {
        self.slot(plain).owner = Some(owner);
    }

    /// Frees the place of the object whose key stands for `plain`.
    pub(super) fn remove(&mut self, plain: u32) {
        self.slot(plain).owner = None;
        #[expect(clippy::cast_possible_truncation, reason = "at most PLACE_BITS")]
        self.free.push_back(place_of(plain) as u32);
    }

    fn slot(&mut self, plain: u32) -> &mut Slot<T> {
        let slot = &mut self.all[place_of(plain)];
        assert_eq!(slot.plain, plain, "an object leaves once");
        slot
    }
}

fn place_of(plain: u32) -> usize {
    (plain & (PLACES_MAX - 1)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_mark_and_do_not_come_back_at_once() {
        let numbers = Numbers { mask: 0x7f_ffff, mark: 0x80_0000 };
        let mut slots = Slots::new(1, numbers);
        let mut seen = Vec::new();
        for _ in 0..32 {
            let plain = *slots.add(Arc::new).unwrap();
            assert!(slots.add(Arc::new).is_none(), "there is one place");
            assert_eq!(plain & !0x7f_ffff, 0x80_0000, "{plain:#x}");
            assert_eq!(slots.get(plain).map(|owner| **owner), Some(plain));
            slots.remove(plain);
            assert!(slots.get(plain).is_none());
            seen.push(plain);
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 32, "every generation differs");
    }
}
