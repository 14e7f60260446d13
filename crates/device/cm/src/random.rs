//! Numbers that strangers cannot guess.

use siphasher::sip::SipHasher24;
use std::hash::Hasher as _;

/// The seed of an agent's ids: it must be secret, and different on each host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(pub [u8; 16]);

impl Seed {
    /// Returns a seed for tests and simulations, which is easily guessed.
    #[must_use]
    pub const fn from_u64(number: u64) -> Self {
        Self((number as u128).to_be_bytes())
    }
}

/// SipHash-2-4 of a counter under the seed: numbers that were seen do not reveal others (CM-3.1).
#[derive(Debug)]
pub(crate) struct Random {
    seed: Seed,
    drawn: u64,
}

impl Random {
    pub(crate) fn new(seed: Seed) -> Self {
        Self { seed, drawn: 0 }
    }

    pub(crate) fn next(&mut self) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.seed.0);
        hasher.write_u64(self.drawn);
        self.drawn += 1;
        hasher.finish()
    }

    /// Draws a packet sequence number.
    pub(crate) fn psn(&mut self) -> u32 {
        self.next() as u32 & 0x00FF_FFFF
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let draw = |seed| -> Vec<u64> {
            let mut random = Random::new(Seed::from_u64(seed));
            (0..4).map(|_| random.next()).collect()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
        assert_ne!(draw(1)[0], draw(1)[1]);
    }
}
