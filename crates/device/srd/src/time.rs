//! The engine's clock reading.

/// A point on the host's monotonic clock, in nanoseconds since an origin the host chooses.
///
/// All instants given to one [`Endpoint`](crate::Endpoint) must come from one clock and never
/// decrease; an earlier instant than before is treated as "no time has passed".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

impl Instant {
    /// The clock's origin.
    pub const ZERO: Self = Self(0);
    /// Later than any instant a host gives: "never".
    pub const FAR: Self = Self(u64::MAX);

    /// Returns the instant `ns` nanoseconds after the origin.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the origin.
    #[must_use]
    pub const fn as_ns(self) -> u64 {
        self.0
    }

    /// Returns the instant `ns` later, at most [`Instant::FAR`].
    #[must_use]
    pub const fn plus_ns(self, ns: u64) -> Self {
        Self(self.0.saturating_add(ns))
    }

    /// Nanoseconds from `earlier` to `self`, zero when `earlier` is not earlier.
    #[must_use]
    pub const fn ns_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The wire's timestamp: ticks of 16 ns, wrapping after 68 s (SRD-2.5).
    pub(crate) const fn as_ticks(self) -> u32 {
        (self.0 >> 4) as u32
    }

    /// The first instant with the same ticks.
    pub(crate) const fn start_of_tick(self) -> Self {
        Self(self.0 & !15)
    }

    /// The latest instant not after `self` whose ticks are `ticks`.
    pub(crate) const fn expand_ticks(self, ticks: u32) -> Self {
        let age_ticks = self.as_ticks().wrapping_sub(ticks);
        Self(self.start_of_tick().0.saturating_sub((age_ticks as u64) << 4))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates() {
        let t = Instant::from_ns(100);
        assert_eq!(t.plus_ns(5).ns_since(t), 5);
        assert_eq!(t.ns_since(t.plus_ns(5)), 0);
        assert_eq!(Instant::FAR.plus_ns(1), Instant::FAR);
    }

    #[test]
    fn ticks_survive_the_wrap() {
        let sent = Instant::from_ns((u64::from(u32::MAX) << 4) + 3);
        let now = sent.plus_ns(1_000_000);
        let seen = now.expand_ticks(sent.as_ticks());
        assert!(sent.ns_since(seen) < 16 && seen <= sent);
    }
}
