//! The messages of a source that have arrived, each number once.

use std::collections::VecDeque;

/// A number further ahead than this is taken for damaged.
const AHEAD_MAX: u64 = 1 << 24;

/// The numbers of one source.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// All numbers below this one have arrived.
    base: u64,
    /// A bit for each number from `base` on.
    window: VecDeque<u64>,
    /// Messages that arrived for the first time.
    pub(super) taken: u64,
    /// One past the highest number.
    pub(super) end: u64,
    /// The most numbers by which a message was overtaken.
    pub(super) late_max: u64,
}

/// The result of recording a number.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fresh,
    Duplicate,
    Implausible,
}

impl Ledger {
    pub(super) fn record(&mut self, number: u64) -> Verdict {
        let Some(ahead) = number.checked_sub(self.base) else { return Verdict::Duplicate };
        if ahead >= AHEAD_MAX {
            return Verdict::Implausible;
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

    /// Returns how many numbers below the highest did not arrive.
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
            assert_eq!(ledger.record(number), Verdict::Fresh);
        }
        for number in 0..500 {
            assert_eq!(ledger.record(number), Verdict::Duplicate);
        }
        assert_eq!((ledger.taken, ledger.missing(), ledger.late_max), (500, 0, 499));
    }

    #[test]
    fn what_is_missing_is_counted() {
        let mut ledger = Ledger::default();
        for number in (0..1000).filter(|number| number % 10 != 3) {
            ledger.record(number);
        }
        assert_eq!(ledger.missing(), 100);
        assert_eq!(ledger.record(u64::MAX), Verdict::Implausible);
    }
}
