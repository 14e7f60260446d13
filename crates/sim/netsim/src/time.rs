//! Virtual time: integer picoseconds since the start of a run.

use std::fmt;

const PS_PER_NS: u64 = 1000;
/// Start of the engines' clocks: they take their clock's origin to mean "never".
const ENGINE_START_NS: u64 = 1_000_000_000;

/// A point in virtual time. One byte at 800 Gbit/s is 10 ps, so all the rates offered are exact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The start of a run.
    pub const ZERO: Self = Self(0);
    /// A point later than anything that happens: "never".
    pub const FAR: Self = Self(u64::MAX);

    /// Returns the point `ps` picoseconds after the start.
    #[must_use]
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Returns the point `us` microseconds after the start.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// Returns the picoseconds since the start.
    #[must_use]
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Returns the point `ps` picoseconds later.
    #[must_use]
    pub const fn plus_ps(self, ps: u64) -> Self {
        Self(self.0.saturating_add(ps))
    }

    /// Returns the picoseconds from `earlier` to `self`, zero when `earlier` is not earlier.
    #[must_use]
    pub const fn ps_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// Returns what an engine's clock shows, rounded down to its nanoseconds.
    pub(crate) const fn to_engine_ns(self) -> u64 {
        ENGINE_START_NS + self.0 / PS_PER_NS
    }

    /// Returns the first point at which an engine's clock shows `ns`.
    pub(crate) const fn from_engine_ns(ns: u64) -> Self {
        Self(ns.saturating_sub(ENGINE_START_NS).saturating_mul(PS_PER_NS))
    }
}

/// Shows microseconds with nanoseconds, for messages.
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:03} us", self.0 / 1_000_000, self.0 / PS_PER_NS % 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_clock_never_runs_ahead() {
        for ps in [0, 1, 999, 1000, 123_456_789] {
            let time = Time::from_ps(ps);
            let back = Time::from_engine_ns(time.to_engine_ns());
            assert!(back <= time && time.ps_since(back) < PS_PER_NS);
            assert_eq!(back.to_engine_ns(), time.to_engine_ns());
        }
        assert_eq!(Time::from_us(12).plus_ps(3_456_789).to_string(), "15.456 us");
    }
}
