//! Round-trip times of a connection, and the timeout (RFC 6298).

/// The timeout before the first sample, in units of the shortest one.
const FIRST_FLOORS: u64 = 8;

/// A smoothed round-trip time and how much it varies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Rtt {
    smoothed_ns: u64,
    variation_ns: u64,
    is_measured: bool,
}

impl Rtt {
    /// Adds a sample: a packet that was sent once was answered after `ns`.
    pub(crate) fn sample(&mut self, ns: u64) {
        let ns = ns.max(1);
        if !self.is_measured {
            *self = Self { smoothed_ns: ns, variation_ns: ns / 2, is_measured: true };
            return;
        }
        let off_ns = self.smoothed_ns.abs_diff(ns);
        self.variation_ns = self.variation_ns - self.variation_ns / 4 + off_ns / 4;
        self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + ns / 8;
    }

    /// Returns the smoothed round-trip time, once there is a sample.
    pub(crate) fn smoothed_ns(&self) -> Option<u64> {
        self.is_measured.then_some(self.smoothed_ns)
    }

    /// Returns the time after which an answer is overdue; never less than `floor_ns`.
    pub(crate) fn timeout_ns(&self, floor_ns: u64) -> u64 {
        if !self.is_measured {
            return floor_ns.saturating_mul(FIRST_FLOORS);
        }
        self.smoothed_ns.saturating_add(self.variation_ns.saturating_mul(4)).max(floor_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-4.5.
    #[test]
    fn the_timeout_follows_what_is_measured() {
        let mut rtt = Rtt::default();
        assert_eq!((rtt.timeout_ns(1000), rtt.smoothed_ns()), (8000, None));
        rtt.sample(400);
        assert_eq!((rtt.timeout_ns(0), rtt.timeout_ns(5000)), (1200, 5000), "400 + 4 x 200");
        (0..100).for_each(|_| rtt.sample(8000));
        let smoothed = rtt.smoothed_ns().unwrap_or(0);
        assert!((7000..=8000).contains(&smoothed), "{smoothed}");
        assert!((7000..9000).contains(&rtt.timeout_ns(1000)), "{}", rtt.timeout_ns(1000));
        rtt.sample(u64::MAX);
        assert!(rtt.timeout_ns(0) > 1 << 60, "nothing overflows");
    }
}
