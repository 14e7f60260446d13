//! The sequence numbers that are consumed: all below `cum`, and a bitmap above it (SRD-4.3).

use crate::{PSN_WINDOW, Psn};

const WORDS: usize = PSN_WINDOW as usize / 64;

#[derive(Debug)]
pub(crate) struct Dedup {
    cum: Psn,
    /// One past the highest consumed number.
    end: Psn,
    /// Bit `psn % PSN_WINDOW`; only numbers in `cum..cum + PSN_WINDOW` are ever set.
    bits: Option<Box<[u64; WORDS]>>,
}

impl Dedup {
    pub(crate) fn new(cum: Psn) -> Self {
        Self { cum, end: cum, bits: None }
    }

    /// Returns the lowest number that is not consumed.
    #[inline]
    pub(crate) fn cum(&self) -> Psn {
        self.cum
    }

    /// Returns whether nothing above `cum` is consumed.
    #[inline]
    pub(crate) fn is_gapless(&self) -> bool {
        self.cum == self.end
    }

    /// Returns the distance from `cum` to one past the highest consumed number.
    pub(crate) fn span(&self) -> u32 {
        self.end.ahead_of(self.cum) as u32
    }

    /// Returns how far `psn`, which is not consumed, is behind the highest consumed number; 0 when
    /// it is ahead of all.
    #[inline]
    pub(crate) fn behind(&self, psn: Psn) -> u32 {
        self.end.ahead_of(psn).max(1) as u32 - 1
    }

    #[inline]
    pub(crate) fn contains(&self, psn: Psn) -> bool {
        if psn.ahead_of(self.cum) < 0 {
            return true;
        }
        if psn.ahead_of(self.end) >= 0 {
            return false;
        }
        let (word, bit) = place(psn);
        self.bits.as_ref().is_some_and(|bits| bits[word] >> bit & 1 == 1)
    }

    /// Consumes `psn`, which is new and inside the window.
    #[inline]
    pub(crate) fn insert(&mut self, psn: Psn) {
        let ahead = psn.ahead_of(self.cum);
        assert!((0..PSN_WINDOW as i32).contains(&ahead), "psn inside the window");
        if ahead == 0 && self.is_gapless() {
            self.cum = psn.plus(1);
            self.end = self.cum;
            return;
        }
        self.insert_beyond(psn);
    }

    fn insert_beyond(&mut self, psn: Psn) {
        let bits = self.bits.get_or_insert_with(|| Box::new([0; WORDS]));
        let (word, bit) = place(psn);
        assert!(bits[word] >> bit & 1 == 0, "a number is consumed once");
        bits[word] |= 1 << bit;
        if psn.plus(1).ahead_of(self.end) > 0 {
            self.end = psn.plus(1);
        }
        if psn == self.cum {
            self.advance();
        }
    }

    /// Moves `cum` over consumed numbers, word by word.
    fn advance(&mut self) {
        let Some(bits) = self.bits.as_mut() else { return };
        while self.cum != self.end {
            let (word, bit) = place(self.cum);
            let run = (bits[word] >> bit).trailing_ones();
            if run == 0 {
                return;
            }
            bits[word] &= !(mask(run) << bit);
            self.cum = self.cum.plus(run);
        }
    }

    /// Consumes every number below `psn`, which is ahead of `cum`: the sender has resolved them.
    pub(crate) fn slide_to(&mut self, psn: Psn) {
        let ahead = psn.ahead_of(self.cum);
        assert!(ahead > 0, "the window only moves forward");
        if psn.ahead_of(self.end) >= 0 {
            if let Some(bits) = self.bits.as_mut() {
                if self.cum != self.end {
                    bits.fill(0);
                }
            }
            self.cum = psn;
            self.end = psn;
            return;
        }
        if let Some(bits) = self.bits.as_mut() {
            while self.cum != psn {
                let (word, bit) = place(self.cum);
                let run = (64 - bit).min(psn.ahead_of(self.cum) as u32);
                bits[word] &= !(mask(run) << bit);
                self.cum = self.cum.plus(run);
            }
        }
        self.advance();
    }

    /// Returns the 64 bits that start at `cum + offset`.
    pub(crate) fn word(&self, offset: u32) -> u64 {
        let Some(bits) = self.bits.as_ref() else { return 0 };
        let (word, bit) = place(self.cum.plus(offset));
        let low = bits[word] >> bit;
        // Bits beyond the window's end wrap to numbers below `cum + 64`; the caller masks them.
        if bit == 0 { low } else { low | bits[(word + 1) % WORDS] << (64 - bit) }
    }

    /// Frees the bitmap when it is not needed.
    pub(crate) fn shrink(&mut self) {
        if self.is_gapless() {
            self.bits = None;
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        if self.bits.is_some() { WORDS * 8 } else { 0 }
    }
}

#[inline]
fn place(psn: Psn) -> (usize, u32) {
    ((psn.0 % PSN_WINDOW / 64) as usize, psn.0 % 64)
}

#[inline]
fn mask(bits: u32) -> u64 {
    if bits >= 64 { u64::MAX } else { (1 << bits) - 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn agrees_with_a_set_of_numbers() {
        let mut rng = Rng::new(11);
        let start = u32::MAX - 20_000;
        let mut dedup = Dedup::new(Psn(start));
        // The model counts from zero so that the wrap is only in the code under test.
        let (mut cum, mut above) = (0u32, BTreeSet::new());
        for _ in 0..60_000 {
            let far = rng.chance(0.1);
            let offset = rng.below(if far { 8192 } else { 90 }) as u32;
            let (psn, number) = (Psn(start.wrapping_add(cum + offset)), cum + offset);
            assert_eq!(dedup.contains(psn), above.contains(&number));
            if rng.chance(0.002) {
                dedup.slide_to(psn.plus(1));
                cum = number + 1;
                above.retain(|&n| n >= cum);
            } else if !dedup.contains(psn) {
                dedup.insert(psn);
                above.insert(number);
            }
            while above.remove(&cum) {
                cum += 1;
            }
            assert_eq!(dedup.cum(), Psn(start.wrapping_add(cum)));
            assert_eq!(dedup.span(), above.last().map_or(0, |&last| last + 1 - cum));
            let word = dedup.word(offset / 2) & mask(dedup.span().saturating_sub(offset / 2));
            let want = (0..64).filter(|i| above.contains(&(cum + offset / 2 + i)));
            assert_eq!(word, want.fold(0, |w, i| w | 1 << i));
        }
        assert!(cum > 20_000, "the run wrapped: {cum}");
    }

    #[test]
    fn in_order_arrivals_need_no_memory() {
        let mut dedup = Dedup::new(Psn(u32::MAX));
        for i in 0..10_000 {
            dedup.insert(Psn(u32::MAX).plus(i));
        }
        assert_eq!(dedup.heap_bytes(), 0);
        dedup.insert(Psn(u32::MAX).plus(10_001));
        assert_eq!(dedup.heap_bytes(), 1024);
    }
}
