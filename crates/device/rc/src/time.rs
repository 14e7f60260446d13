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
}
