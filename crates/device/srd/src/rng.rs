//! The engine's random numbers: a seeded generator, so that a run can be repeated.

/// Odd, so that the state takes every value once before it repeats.
pub(crate) const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// `SplitMix64` over a seed, for choices that an attacker may predict. Unpredictable numbers come
/// from [`Secret`](crate::secret::Secret).
#[derive(Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no numbers");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// True with probability `p`.
    pub(crate) fn chance(&mut self, p: f64) -> bool {
        p > 0.0 && (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64) < p
    }
}

/// Scrambles a number; a permutation of all 64-bit values.
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stays_in_range_and_repeats() {
        let (mut a, mut b) = (Rng::new(5), Rng::new(5));
        let mut hits = 0;
        for _ in 0..1000 {
            assert!(a.below(7) < 7);
            assert_eq!(a.next(), {
                b.below(7);
                b.next()
            });
            hits += u32::from(a.chance(0.25));
            b.next();
        }
        assert!((150..350).contains(&hits), "{hits} of 1000 at one in four");
        assert!(!a.chance(0.0) && a.chance(1.0));
    }
}
