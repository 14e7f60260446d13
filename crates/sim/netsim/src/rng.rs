//! Randomness of a run: one seed, one generator per purpose, the same numbers on every machine.

use std::f64::consts::{LN_2, SQRT_2};

/// `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Its
/// numbers are part of the golden tables, which a library's next version must not change.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

/// The purpose of a generator.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// Losses and marks on links.
    Network,
    /// Salts that switches hash besides the 5-tuple.
    PathHash,
    /// Seeds of the engines of SRD.
    EngineSeeds,
    /// The workloads, which fork it again.
    Workloads,
    /// Senders, receivers and sizes of transfers, forked from the workloads'.
    Transfers,
    /// Begin of transfers with jitter, forked from the workloads'.
    Starts,
}

impl Purpose {
    /// Returns its number, part of the golden tables. The generator of a run and that of its
    /// workloads each count from anew.
    const fn number(self) -> u64 {
        match self {
            Self::Transfers => 0,
            Self::Network | Self::Starts => 1,
            Self::PathHash => 2,
            Self::EngineSeeds => 3,
            Self::Workloads => 4,
        }
    }
}

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a generator of its own for one purpose, so that drawing more there changes nothing
    /// here.
    pub(crate) fn fork(&self, purpose: Purpose) -> Self {
        Self(mix(self.0 ^ mix(purpose.number() + 1)))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// Draws a number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no numbers");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// Draws a number in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Draws a number from the exponential distribution with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -ln(self.unit())
    }

    /// Returns true in `ppm` of a million cases.
    pub(crate) fn chance_ppm(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// Puts items into a random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
}

/// Computes the natural logarithm of a number above 0, by the series of the inverse hyperbolic
/// tangent: the mathematics library's last bit differs among systems, and runs are the same
/// everywhere.
fn ln(x: f64) -> f64 {
    const FRACTION_BITS: u32 = 52;
    const BIAS: u64 = 1023;
    let bits = x.to_bits();
    let fraction = f64::from_bits(bits & ((1 << FRACTION_BITS) - 1) | BIAS << FRACTION_BITS);
    let (fraction, more) = if fraction > SQRT_2 { (fraction / 2.0, 1.0) } else { (fraction, 0.0) };
    let exponent = (bits >> FRACTION_BITS) as f64 - BIAS as f64 + more;
    let s = (fraction - 1.0) / (fraction + 1.0);
    let series = (0..12).rev().fold(0.0, |sum, k| sum * s * s + 1.0 / f64::from(2 * k + 1));
    exponent * LN_2 + 2.0 * s * series
}

/// Spreads every bit of `z` over all bits.
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_independent_and_repeat() {
        let root = Rng::new(7);
        let fork = |purpose| root.fork(purpose);
        let [mut a, mut again] = [Purpose::Network; 2].map(fork);
        let mut b = fork(Purpose::PathHash);
        assert_ne!(a.next(), b.next());
        again.next();
        assert_eq!(a.next(), again.next());
        let mut order: Vec<u32> = (0..100).collect();
        a.shuffle(&mut order);
        assert_ne!(order, (0..100).collect::<Vec<_>>());
        order.sort_unstable();
        assert_eq!(order, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn logarithms_are_right_and_exponential_numbers_have_mean_1() {
        for x in [1.0, 0.999_999, 0.75, 0.5, 0.3, 1e-9, 2f64.powi(-53)] {
            let (own, library) = (ln(x), f64::ln(x));
            assert!((own - library).abs() <= 3e-16 * library.abs().max(1.0), "{x}: {own}");
        }
        // The bits themselves: they are the same everywhere.
        assert_eq!(ln(0.3).to_bits(), 0xBFF3_4378_FCBD_A720);
        let mut rng = Rng::new(1);
        let mean = (0..100_000).map(|_| rng.exponential()).sum::<f64>() / 100_000.0;
        assert!((mean - 1.0).abs() < 0.01, "{mean}");
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance_ppm(10_000)).count();
        assert!((850..1150).contains(&hits), "{hits} of 100,000 at 1 %");
        assert!(!rng.chance_ppm(0) && rng.chance_ppm(1_000_000));
        assert!((0..1000).all(|_| (f64::MIN_POSITIVE..=1.0).contains(&rng.unit())));
    }
}
