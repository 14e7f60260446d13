//! Repeatable random numbers.

/// The step of SplitMix64: 2^64 over the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of a sequence. Each use has its own sequence, so that one does not shift another.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    Loss,
    Duplicates,
    Reordering,
    Delay,
    Mangling,
    Corruption,
    NotReady,
    InternalError,
    AckLoss,
    Complaints,
    Jumps,
    /// The times for which reordered datagrams are held back.
    Holding,
}

/// The generator SplitMix64 (Steele et al., 2014).
#[derive(Debug, Clone)]
pub(super) struct Random(u64);

impl Random {
    /// Makes a sequence. `stream` tells queue pairs apart; equal arguments give equal sequences.
    pub(super) fn new(seed: u64, stream: u64, purpose: Use) -> Self {
        // The seed and the stream are mixed, because plain sums would give shifted copies of one
        // sequence.
        Self(mix(mix(mix(seed) ^ stream).wrapping_add(purpose as u64)))
    }

    /// Returns a number below `bound`. The bias of the high product is at most `bound` / 2^64.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        ((u128::from(mix(self.0)) * u128::from(bound)) >> 64) as u64
    }
}

/// A die that hits a share of its throws.
#[derive(Debug, Clone)]
pub(super) struct Die {
    share_ppm: u32,
    random: Random,
}

impl Die {
    pub(super) fn new(share_ppm: u32, random: Random) -> Self {
        Self { share_ppm, random }
    }

    /// Returns true if the die may hit at all.
    #[inline]
    pub(super) fn is_thrown(&self) -> bool {
        self.share_ppm > 0
    }

    /// Throws the die. It costs one branch if the share is 0.
    #[inline]
    pub(super) fn hits(&mut self) -> bool {
        self.is_thrown() && self.random.below(1_000_000) < u64::from(self.share_ppm)
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Returns the number of a queue pair's stream of fates, from its ordinal number in its process.
/// Processes are distinguished by their command lines, so that the two ends of a test do not lose
/// datagrams in step, and a repeated test has the same fates.
pub(crate) fn stream_of(ordinal: u64) -> u64 {
    let mut hash = ordinal;
    for byte in std::env::args_os().flat_map(|arg| arg.into_encoded_bytes()) {
        hash = mix(hash ^ u64::from(byte)).wrapping_add(GOLDEN);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_met_and_repeatable() {
        let die = |stream| Die::new(100_000, Random::new(3, stream, Use::Loss));
        let count = |stream| {
            let mut die = die(stream);
            (0..10_000).filter(|_| die.hits()).count()
        };
        assert_eq!(count(1), count(1));
        assert!((900..1_100).contains(&count(1)), "{}", count(1));
    }

    #[test]
    fn streams_and_uses_are_no_shifted_copies() {
        let first: Vec<_> = draws(Random::new(3, 1, Use::Loss), 104);
        for other in [Random::new(3, 2, Use::Loss), Random::new(3, 1, Use::Mangling)] {
            let other = draws(other, 100);
            for shift in 0..4 {
                assert_ne!(first[shift..shift + 100], other[..], "shifted by {shift}");
            }
        }
        assert_ne!(stream_of(0), stream_of(1));
    }

    fn draws(mut random: Random, count: usize) -> Vec<u64> {
        (0..count).map(|_| random.below(1_000)).collect()
    }
}
