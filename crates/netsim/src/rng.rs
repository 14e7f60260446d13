//! Randomness of a run: one seed, one generator per purpose, the same numbers on every machine.

/// `SplitMix64` (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014). Its
/// numbers are part of the golden tables, which a library's next version must not change.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator of its own for one purpose, so that drawing more there changes nothing here.
    pub(crate) fn fork(&self, purpose: u64) -> Self {
        Self(mix(self.0 ^ mix(purpose.wrapping_add(1))))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `bound`, which is not zero.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "an empty range has no numbers");
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number in (0, 1].
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// True in `ppm` of a million cases.
    pub(crate) fn chance_ppm(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    /// A random order (Fisher and Yates).
    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }
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
        let (mut a, mut b, mut again) = (root.fork(1), root.fork(2), root.fork(1));
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
    fn chances_are_what_they_say() {
        let mut rng = Rng::new(1);
        let hits = (0..100_000).filter(|_| rng.chance_ppm(10_000)).count();
        assert!((850..1150).contains(&hits), "{hits} of 100,000 at 1 %");
        assert!(!rng.chance_ppm(0) && rng.chance_ppm(1_000_000));
        assert!((0..1000).all(|_| (f64::MIN_POSITIVE..=1.0).contains(&rng.unit())));
    }
}
