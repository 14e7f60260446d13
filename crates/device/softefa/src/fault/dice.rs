//! The dice: random decisions on the fate of each sent datagram.

use super::FaultSpec;
use super::damage;
use super::random::{Die, Random, Use};

/// The longest time for which a reordered datagram is held back.
const REORDER_MAX_NS: u64 = 300_000;

/// The fate of one datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    /// Number of copies sent: 0 = lost, 2 = duplicated.
    pub(crate) copies: u8,
    /// The additional time before the datagram leaves.
    pub(crate) delay_ns: u64,
    /// The datagram was held back to come after later ones.
    pub(crate) reordered: bool,
    /// The headers of the datagram are altered.
    pub(crate) mangled: bool,
    /// The payload of the datagram is altered.
    pub(crate) corrupted: bool,
}

impl Fate {
    /// The datagram leaves unaltered, at once.
    pub(crate) const UNHARMED: Self =
        Self { copies: 1, delay_ns: 0, reordered: false, mangled: false, corrupted: false };
}

/// Throws the dice for one queue pair.
#[derive(Debug)]
pub(crate) struct Dice {
    loss: Die,
    duplicates: Die,
    reordering: Die,
    mangling: Die,
    corruption: Die,
    delay_min_ns: u64,
    spread_ns: u64,
    delay: Random,
    holding: Random,
    damage: Random,
}

impl Dice {
    /// Makes the dice. `stream` tells queue pairs apart; equal specification and stream give equal
    /// fates.
    pub(crate) fn new(spec: &FaultSpec, stream: u64) -> Self {
        let random = |purpose| Random::new(spec.seed, stream, purpose);
        let die = |share_ppm, purpose| Die::new(share_ppm, random(purpose));
        Self {
            loss: die(spec.loss_ppm, Use::Loss),
            duplicates: die(spec.dup_ppm, Use::Duplicates),
            reordering: die(spec.reorder_ppm, Use::Reordering),
            mangling: die(spec.mangle_ppm, Use::Mangling),
            corruption: die(spec.corrupt_ppm, Use::Corruption),
            delay_min_ns: spec.delay_min_ns,
            spread_ns: spec.delay_max_ns - spec.delay_min_ns,
            delay: random(Use::Delay),
            holding: random(Use::Holding),
            // It is separate from the dice of both kinds of damage, whose sequences must not depend
            // on hits.
            damage: Random::new(spec.seed, !stream, Use::Mangling),
        }
    }

    /// Throws every die, so that the fate of a datagram does not depend on those before it.
    pub(crate) fn throw(&mut self) -> Fate {
        let lost = self.loss.hits();
        let doubled = self.duplicates.hits();
        let reordered = self.reordering.hits();
        let (mangled, corrupted) = (self.mangling.hits(), self.corruption.hits());
        let mut delay_ns = self.delay_min_ns + self.delay.below(self.spread_ns + 1);
        if reordered {
            delay_ns += 1 + self.holding.below(REORDER_MAX_NS);
        }
        if lost {
            return Fate::default();
        }
        Fate { copies: 1 + u8::from(doubled), delay_ns, reordered, mangled, corrupted }
    }

    /// Alters `bytes`, which are not empty.
    pub(crate) fn damage(&mut self, bytes: &mut [u8]) {
        damage::burst(bytes, &mut self.damage);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(spec: &str, stream: u64) -> Vec<Fate> {
        let mut dice = Dice::new(&spec.parse().unwrap(), stream);
        (0..1_000).map(|_| dice.throw()).collect()
    }

    #[test]
    fn the_same_seed_gives_the_same_fates() {
        let all = "loss=5%,dup=5%,reorder=20%,delay=1us..9us,mangle=5%,corrupt=5%,seed=3";
        assert_eq!(fates(all, 1), fates(all, 1));
        assert_ne!(fates(all, 1), fates(all, 2));
        assert_ne!(fates(all, 1), fates(&all.replace("seed=3", "seed=4"), 1));
    }

    #[test]
    fn another_fault_does_not_change_who_is_hit() {
        let lost = |spec: &str| -> Vec<bool> {
            fates(spec, 1).iter().map(|fate| fate.copies == 0).collect()
        };
        let alone = lost("loss=10%,seed=3");
        assert_eq!(alone, lost("loss=10%,reorder=30%,dup=3%,mangle=9%,delay=1us..2us,seed=3"));
        assert!(alone.iter().any(|lost| *lost));
    }

    #[test]
    fn another_fault_does_not_change_delays() {
        let delays = |spec: &str| -> Vec<u64> {
            let fates = fates(spec, 1).into_iter();
            fates.map(|fate| if fate.reordered { 0 } else { fate.delay_ns }).collect()
        };
        let alone = delays("delay=1us..9us,seed=3");
        let both = delays("delay=1us..9us,reorder=30%,seed=3");
        let is_same = |(one, other): (&u64, &u64)| *other == 0 || one == other;
        assert!(alone.iter().zip(&both).all(is_same));
        assert!(both.contains(&0) && both.iter().any(|own| *own > 0));
    }

    #[test]
    fn delays_stay_in_their_range() {
        for fate in fates("delay=50us+-20us", 1) {
            assert!((30_000..=70_000).contains(&fate.delay_ns), "{fate:?}");
        }
    }
}
