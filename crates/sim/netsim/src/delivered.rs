//! The set of messages of a flow that have arrived; only those that overtook others take memory.

use crate::id::MessageId;
use std::collections::VecDeque;

const BITS: u32 = u64::BITS;

#[derive(Debug, Default)]
pub(crate) struct Delivered {
    /// First number that the words cover, a multiple of 64. All messages with lower numbers have
    /// arrived.
    base: u32,
    /// One bit per message from `base` on.
    words: VecDeque<u64>,
    count: u32,
}

impl Delivered {
    /// Adds a message. Returns false when it had arrived before.
    pub(crate) fn insert(&mut self, message: MessageId) -> bool {
        let Some(offset) = message.0.checked_sub(self.base) else { return false };
        let (word, bit) = ((offset / BITS) as usize, 1 << (offset % BITS));
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        if self.words[word] & bit != 0 {
            return false;
        }
        self.words[word] |= bit;
        self.count += 1;
        while self.words.front() == Some(&u64::MAX) {
            self.words.pop_front();
            self.base += BITS;
        }
        true
    }

    pub(crate) fn contains(&self, message: MessageId) -> bool {
        let Some(offset) = message.0.checked_sub(self.base) else { return true };
        let word = self.words.get((offset / BITS) as usize);
        word.is_some_and(|word| word >> (offset % BITS) & 1 == 1)
    }

    /// Returns the number of messages that have arrived.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrives_once_in_any_order_and_old_ones_take_no_memory() {
        let mut delivered = Delivered::default();
        let order = (0..1000).map(|i| MessageId(i * 7 % 100 + i / 100 * 100));
        for (n, message) in (0..).zip(order) {
            assert!(!delivered.contains(message));
            assert!(delivered.insert(message) && !delivered.insert(message));
            assert_eq!((delivered.contains(message), delivered.count()), (true, n + 1));
            assert!(delivered.words.len() <= 4, "{}", delivered.words.len());
        }
        assert!(MessageId(0).range(1000).all(|message| delivered.contains(message)));
        let [next, later, between] = [1000, 5000, 4999].map(MessageId);
        assert!(!delivered.contains(next) && delivered.insert(later));
        assert!(!delivered.contains(between));
    }
}
