//! The faults of a device as other processes see them: words of the counters file. In the first
//! word commands count how often they have changed the requested faults. In the others the process
//! publishes the faults in force, and the number that it had dealt before them.

use std::sync::atomic::{AtomicU64, Ordering};

use super::Counter;
use crate::generation::Generation;
use crate::host;
use crate::mapped::Words;

/// The counters of faults that were dealt.
pub const DEALT: [Counter; 11] = [
    Counter::FaultLost,
    Counter::FaultReordered,
    Counter::FaultDuplicated,
    Counter::FaultBlackholed,
    Counter::FaultMangled,
    Counter::FaultCorrupted,
    Counter::FaultRnr,
    Counter::FaultInternal,
    Counter::FaultAckLost,
    Counter::FaultNak,
    Counter::FaultPsnGap,
];

/// Positions of the words.
mod place {
    pub(super) const CHANGES: usize = 0;
    pub(super) const PATHS: usize = 1;
    pub(super) const SOURCE: usize = 2;
    pub(super) const FROM: usize = 3;
    pub(super) const SINCE: usize = 4;
    pub(super) const DEALT: usize = 5;
}

/// The number of words of a device.
pub(super) const WORDS: usize = place::DEALT + DEALT.len();

/// The origin of a fault: who asked for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FaultSource {
    /// `--fault`, when the run was started, or no request at all.
    #[default]
    Start,
    /// A step of `--fault-script`.
    Script,
    /// `softefa fault set`.
    Command,
}

impl FaultSource {
    const ALL: [Self; 3] = [Self::Start, Self::Script, Self::Command];

    /// Returns the origin as a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Script => "script",
            Self::Command => "command",
        }
    }
}

/// The faults of a device as its process publishes them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultStatus {
    /// The origin of the faults in force.
    pub source: FaultSource,
    /// The time at which they were to begin, which distinguishes them from others of the same
    /// source.
    pub from_ns: u64,
    /// The time at which the device took them over, in nanoseconds since 1970.
    pub since_epoch_ns: u64,
    /// The number of paths that the device sends over.
    pub paths: u16,
    /// The number of faults that the device had dealt before, in the order of [`DEALT`].
    before: [u64; DEALT.len()],
}

impl FaultStatus {
    /// Reads the status from these words.
    pub(super) fn of_words(words: &[u64]) -> Self {
        let source = usize::try_from(words[place::SOURCE]).ok();
        let source = source.and_then(|source| FaultSource::ALL.get(source).copied());
        let mut before = [0; DEALT.len()];
        before.copy_from_slice(&words[place::DEALT..WORDS]);
        Self {
            source: source.unwrap_or(FaultSource::Start),
            from_ns: words[place::FROM],
            since_epoch_ns: words[place::SINCE],
            paths: u16::try_from(words[place::PATHS]).unwrap_or(u16::MAX),
            before,
        }
    }

    /// Returns the names of the counters of faults, and by how much each has grown since the faults
    /// in force began. `now` returns the present values of the process.
    #[must_use]
    pub fn dealt(&self, now: impl Fn(Counter) -> u64) -> Vec<(&'static str, u64)> {
        let grown = |(counter, before): (&Counter, &u64)| {
            (counter.name(), now(*counter).saturating_sub(*before))
        };
        DEALT.iter().zip(&self.before).map(grown).collect()
    }
}

/// The words of a device of this process.
#[derive(Debug, Clone)]
pub(crate) struct FaultWords {
    words: Words,
    made: Generation,
}

impl FaultWords {
    /// Makes words that no other process sees.
    pub(crate) fn private() -> Self {
        Self::at(Words::own(WORDS))
    }

    /// Uses these [`WORDS`].
    pub(super) fn at(words: Words) -> Self {
        Self { words, made: Generation::current() }
    }

    /// Returns how often a command has changed the requested faults.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        // The changes themselves are read through system calls, which no load passes.
        self.words[place::CHANGES].load(Ordering::Relaxed)
    }

    /// Publishes the number of paths.
    pub(crate) fn set_paths(&self, paths: u16) {
        self.words[place::PATHS].store(paths.into(), Ordering::Relaxed);
    }

    /// Publishes the faults in force from now on; `dealt` is the number dealt before, in the order
    /// of [`DEALT`].
    pub(crate) fn set(&self, source: FaultSource, from_ns: u64, dealt: [u64; DEALT.len()]) {
        // A child shares the file with its parent.
        if !self.made.is_current() {
            return;
        }
        let store = |at: usize, value| self.words[at].store(value, Ordering::Relaxed);
        store(place::SOURCE, source as u64);
        store(place::FROM, from_ns);
        store(place::SINCE, host::epoch_ns());
        dealt.iter().enumerate().for_each(|(at, count)| store(place::DEALT + at, *count));
    }
}

/// Tells the process to which the words belong that the requested faults have changed.
pub(super) fn announce(words: &[AtomicU64]) {
    words[place::CHANGES].fetch_add(1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_dealt_counts_from_the_beginning_of_the_fault() {
        let words = FaultWords::private();
        words.set_paths(4);
        words.set(FaultSource::Command, 7, [3; DEALT.len()]);
        let seen: Vec<u64> = words.words.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let status = FaultStatus::of_words(&seen);
        assert_eq!((status.source, status.from_ns, status.paths), (FaultSource::Command, 7, 4));
        assert!(status.since_epoch_ns > 1 << 60);
        let dealt = status.dealt(|counter| if counter == Counter::FaultLost { 10 } else { 0 });
        assert_eq!(dealt[0], ("fault_lost", 7));
        assert!(dealt[1..].iter().all(|(_, count)| *count == 0), "{dealt:?}");
        announce(&words.words);
        assert_eq!(words.changes(), 1);
    }

    #[test]
    fn words_that_make_no_sense_are_borne() {
        let status = FaultStatus::of_words(&[u64::MAX; WORDS]);
        assert_eq!((status.source, status.paths), (FaultSource::Start, u16::MAX));
    }
}
