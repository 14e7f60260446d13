//! Which messages of a source have arrived: each number once.

use std::collections::VecDeque;

/// Further ahead nothing is believed: the number is damaged.
const AHEAD_MAX: u64 = 1 << 24;

/// The numbers of one source.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// All below have arrived.
    base: u64,
    /// From `base` on, a bit each.
    window: VecDeque<u64>,
    /// Messages that arrived for the first time.
    pub(super) taken: u64,
    /// One above the highest number.
    pub(super) end: u64,
    /// The most numbers by which a message was overtaken.
    pub(super) late_max: u64,
}

/// What a number is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fresh,
    Duplicate,
    Absurd,
}

impl Ledger {
    pub(super) fn take(&mut self, number: u64) -> Verdict {
        let Some(ahead) = number.checked_sub(self.base) else { return Verdict::Duplicate };
        if ahead >= AHEAD_MAX {
            return Verdict::Absurd;
        }
        let (place, bit) = ((ahead / 64) as usize, 1 << (ahead % 64));
        if place >= self.window.len() {
            self.window.resize(place + 1, 0);
        }
        if self.window[place] & bit != 0 {
            return Verdict::Duplicate;
        }
        self.window[place] |= bit;
        self.taken += 1;
        self.end = self.end.max(number + 1);
        self.late_max = self.late_max.max(self.end - 1 - number);
        while self.window.front() == Some(&u64::MAX) {
            self.window.pop_front();
            self.base += 64;
        }
        Verdict::Fresh
    }

    /// Numbers below the highest that did not arrive.
    pub(super) fn missing(&self) -> u64 {
        self.end - self.taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_order_is_taken_and_nothing_twice() {
        let mut ledger = Ledger::default();
        for number in (0..500).rev() {
            assert_eq!(ledger.take(number), Verdict::Fresh);
        }
        for number in 0..500 {
            assert_eq!(ledger.take(number), Verdict::Duplicate);
        }
        assert_eq!((ledger.taken, ledger.missing(), ledger.late_max), (500, 0, 499));
    }

    #[test]
    fn what_is_missing_is_counted() {
        let mut ledger = Ledger::default();
        for number in (0..1000).filter(|number| number % 10 != 3) {
            ledger.take(number);
        }
        assert_eq!(ledger.missing(), 100);
        assert_eq!(ledger.take(u64::MAX), Verdict::Absurd);
    }
}
