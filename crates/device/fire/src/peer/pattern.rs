//! Contents of messages: every word is determined by source, number and position.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::rng::mix;

/// The source of memory that is only read.
pub(super) const EXPOSED: u64 = u64::MAX;

/// Returns the words of message `number` of `source`, without end.
fn contents(source: u64, number: u64) -> impl Iterator<Item = u64> {
    let key = mix(number ^ source.rotate_left(40));
    [number, source].into_iter().chain((2..).map(move |index| key.wrapping_add(index)))
}

/// Writes message `number` of `source`.
pub(super) fn fill(words: &[AtomicU64], source: u64, number: u64) {
    words
        .iter()
        .zip(contents(source, number))
        .for_each(|(at, word)| at.store(word, Ordering::Relaxed));
}

/// Returns the source and number that the message contains.
pub(super) fn origin(words: &[AtomicU64]) -> Option<(u64, u64)> {
    let at = |index: usize| words.get(index).map(|word| word.load(Ordering::Relaxed));
    Some((at(1)?, at(0)?))
}

/// Returns the index of the first word that is wrong.
pub(super) fn first_mismatch(words: &[AtomicU64], source: u64, number: u64) -> Option<usize> {
    let mut pairs = words.iter().zip(contents(source, number));
    pairs.position(|(at, word)| at.load(Ordering::Relaxed) != word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_counts() {
        let words: Vec<AtomicU64> = (0..32).map(|_| AtomicU64::new(0)).collect();
        fill(&words, 3, 77);
        assert_eq!((origin(&words), first_mismatch(&words, 3, 77)), (Some((3, 77)), None));
        assert_eq!(first_mismatch(&words, 4, 77), Some(1));
        for index in 0..words.len() {
            words[index].fetch_xor(1 << 40, Ordering::Relaxed);
            assert_eq!(first_mismatch(&words, 3, 77), Some(index));
            words[index].fetch_xor(1 << 40, Ordering::Relaxed);
        }
    }
}
