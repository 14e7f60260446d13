//! The record of the datagrams of a session that have been taken (SRD-11.6).

use super::opener::Refusal;

/// A counter must be behind the highest by less than this. Sixteen paths of different length and
/// datagrams held back on purpose stay within it.
pub(super) const WINDOW: u64 = 8192;
const WORD_BITS: u64 = 64;
const WORDS: usize = (WINDOW / WORD_BITS) as usize;

/// The counters that have been taken, from `highest - WINDOW + 1` on, with one bit each. All below
/// count as taken.
#[derive(Debug)]
pub(super) struct Taken {
    highest: u64,
    /// The bits: counter c has bit c modulo [`WINDOW`].
    bits: Box<[u64; WORDS]>,
}

impl Taken {
    /// Makes the record of a session in which all counters up to `highest` are taken; 0 for a new
    /// session, whose first counter is 1.
    pub(super) fn up_to(highest: u64) -> Self {
        Self { highest, bits: Box::new([u64::MAX; WORDS]) }
    }

    pub(super) fn highest(&self) -> u64 {
        self.highest
    }

    /// Checks whether `counter` may still be taken.
    pub(super) fn check(&self, counter: u64) -> Result<(), Refusal> {
        if counter > self.highest {
            return Ok(());
        }
        if self.highest - counter >= WINDOW {
            return Err(Refusal::Late);
        }
        let (word, bit) = place(counter);
        if self.bits[word] & bit == 0 { Ok(()) } else { Err(Refusal::Replayed) }
    }

    /// Takes a counter that [`Taken::check`] let pass.
    pub(super) fn take(&mut self, counter: u64) {
        if counter > self.highest {
            self.advance(counter);
        }
        let (word, bit) = place(counter);
        self.bits[word] |= bit;
    }

    /// Makes room for the counters between the highest and a higher one.
    fn advance(&mut self, to: u64) {
        if to - self.highest >= WINDOW {
            self.bits.fill(0);
        } else {
            let mut next = self.highest + 1;
            while next <= to {
                let end = to.min(next | (WORD_BITS - 1));
                let (word, first) = place(next);
                let (_, last) = place(end);
                // The bits from `first` to `last`, both included.
                self.bits[word] &= !((last | (last - 1)) & !(first - 1));
                next = end + 1;
            }
        }
        self.highest = to;
    }
}

fn place(counter: u64) -> (usize, u64) {
    let word = (counter / WORD_BITS) as usize % WORDS;
    (word, 1 << (counter % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    fn take(taken: &mut Taken, counter: u64) -> Result<(), Refusal> {
        taken.check(counter).inspect(|()| taken.take(counter))
    }

    /// SRD-11.6: the last counter that is taken is as far behind as the window is wide.
    #[test]
    fn the_window_has_an_end() {
        let mut taken = Taken::up_to(0);
        assert_eq!(take(&mut taken, 1), Ok(()));
        assert_eq!(take(&mut taken, 1 + WINDOW), Ok(()));
        assert_eq!(take(&mut taken, 1), Err(Refusal::Late));
        assert_eq!(take(&mut taken, 2), Ok(()));
        assert_eq!(take(&mut taken, 2), Err(Refusal::Replayed));
        assert_eq!(take(&mut taken, 1 + 3 * WINDOW), Ok(()), "far ahead");
        assert_eq!(take(&mut taken, 1 + WINDOW), Err(Refusal::Late));
        assert_eq!(take(&mut taken, 2 + 2 * WINDOW), Ok(()));
    }

    #[test]
    fn what_was_known_is_taken() {
        let mut taken = Taken::up_to(10_000);
        for counter in [1, 1808, 1809, 9_999, 10_000] {
            assert!(taken.check(counter).is_err());
        }
        assert_eq!(take(&mut taken, 10_003), Ok(()));
        assert_eq!(take(&mut taken, 10_000), Err(Refusal::Replayed));
        assert_eq!(take(&mut taken, 10_002), Ok(()));
    }

    proptest! {
        /// For steps ahead and back of all sizes, a counter is taken exactly when it is new and
        /// within the window.
        #[test]
        fn each_counter_is_taken_once(steps in prop::collection::vec(
            prop_oneof![1i64..4, -70i64..70, -9000i64..9000, -20_000i64..20_000], 1..400))
        {
            let mut taken = Taken::up_to(0);
            let mut seen = HashSet::new();
            let (mut at, mut highest) = (1i64, 0u64);
            for step in steps {
                at = (at + step).max(1);
                let counter = at as u64;
                let is_late = counter + WINDOW <= highest;
                let expected = !is_late && seen.insert(counter);
                prop_assert_eq!(take(&mut taken, counter).is_ok(), expected, "{}", counter);
                highest = highest.max(counter);
            }
        }
    }
}
