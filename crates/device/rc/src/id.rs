//! Small identifiers with one meaning each, and the arithmetic of sequence numbers.

/// The host's name for a work request; the engine only hands it back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WrId(pub u64);

/// Packet sequence number on the wire: 24 bits, wraps (RC-2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Psn(u32);

impl Psn {
    /// The bits a number has.
    pub const MASK: u32 = 0x00FF_FFFF;

    /// Returns the number in the lower 24 bits of `value`.
    #[must_use]
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// Returns the number, below 2^24.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// A sequence number that does not wrap: the value of a [`Psn`] inside the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Seq(u64);

/// The number of packets that may be in flight at once, and the range that counts as behind
/// (RC-2.2).
pub(crate) const HALF: u64 = 1 << 23;

impl Seq {
    /// Returns the number with which a connection begins; far enough from 0 for all that count as
    /// behind.
    pub(crate) const fn first(psn: Psn) -> Self {
        Self((1 << 24) | psn.0 as u64)
    }

    pub(crate) const fn psn(self) -> Psn {
        Psn::new(self.0 as u32)
    }

    /// Returns the number nearest to `self` that `psn` may mean: less than 2^23 ahead, or up to
    /// 2^23 behind.
    pub(crate) const fn near(self, psn: Psn) -> Self {
        let ahead = (psn.0.wrapping_sub(self.0 as u32) << 8) as i32 >> 8;
        Self(self.0.wrapping_add_signed(ahead as i64))
    }

    /// Returns the number as a mark that only grows.
    pub(crate) const fn mark(self) -> u64 {
        self.0
    }

    pub(crate) const fn plus(self, n: u64) -> Self {
        Self(self.0 + n)
    }

    pub(crate) const fn before(self) -> Self {
        Self(self.0 - 1)
    }

    /// Returns how far `self` is ahead of `origin`; 0 when it is not.
    pub(crate) const fn since(self, origin: Self) -> u64 {
        self.0.saturating_sub(origin.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-2.1, RC-2.2.
    #[test]
    fn numbers_keep_their_order_across_the_wrap() {
        let last = Seq::first(Psn::new(Psn::MASK));
        let next = last.plus(1);
        assert_eq!(next.psn(), Psn::new(0));
        assert_eq!(last.near(Psn::new(0)), next);
        assert_eq!(next.near(Psn::new(Psn::MASK)), last);
        assert_eq!((next.since(last), last.since(next)), (1, 0));
    }

    /// RC-2.2: half of all numbers are behind, one less is ahead.
    #[test]
    fn the_far_half_is_behind() {
        let here = Seq::first(Psn::new(5));
        let ahead = here.plus(HALF - 1);
        assert_eq!(here.near(ahead.psn()), ahead);
        assert_eq!(here.plus(HALF).near(here.psn()), here);
        assert_eq!(here.near(here.plus(HALF).psn()).plus(2 * HALF), here.plus(HALF));
    }
}
