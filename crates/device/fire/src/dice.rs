//! Random numbers that repeat (SplitMix64).

/// A generator.
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// One whose numbers depend on `seed` and `purpose` alone.
    pub(crate) fn new(seed: u64, purpose: &str) -> Self {
        let salt = purpose.bytes().fold(seed, |sum, byte| mix(sum ^ u64::from(byte)));
        Self(salt)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`, which is not 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.roll() % end.max(1)
    }
}

/// Spreads every bit over all others.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_purposes_differ() {
        let rolls = |seed, purpose| {
            let mut dice = Dice::new(seed, purpose);
            (0..4).map(|_| dice.roll()).collect::<Vec<_>>()
        };
        assert_eq!(rolls(1, "a"), rolls(1, "a"));
        assert_ne!(rolls(1, "a"), rolls(1, "b"));
        assert_ne!(rolls(1, "a"), rolls(2, "a"));
    }
}
