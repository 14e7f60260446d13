//! Round-trip time and retransmission timeout (RFC 6298).

use crate::time::Time;

/// Maximum retransmission timeout.
const RTO_MAX_PS: u64 = 60 * 1_000_000_000_000;

#[derive(Clone, Copy, Debug)]
pub(super) struct Rtt {
    smoothed_ps: u64,
    variation_ps: u64,
    least_ps: u64,
    rto_min_ps: u64,
    /// Number of timeouts since something new was acknowledged; each doubles the next one.
    backoff: u32,
}

impl Rtt {
    /// Starts from the round-trip time `first_ps` that the handshake measured.
    pub(super) fn new(first_ps: u64, rto_min_ps: u64) -> Self {
        Self {
            smoothed_ps: first_ps,
            variation_ps: first_ps / 2,
            least_ps: first_ps,
            rto_min_ps,
            backoff: 0,
        }
    }

    /// Takes a measurement (section 2.3).
    pub(super) fn sample(&mut self, rtt_ps: u64) {
        self.least_ps = self.least_ps.min(rtt_ps);
        let deviation_ps = self.smoothed_ps.abs_diff(rtt_ps);
        self.variation_ps = (3 * self.variation_ps + deviation_ps) / 4;
        self.smoothed_ps = (7 * self.smoothed_ps + rtt_ps) / 8;
    }

    /// Ends the doubling of the timeout, because something new was acknowledged.
    pub(super) fn reset_backoff(&mut self) {
        self.backoff = 0;
    }

    /// Doubles the next timeout, because one has passed (section 5.5).
    pub(super) fn timed_out(&mut self) {
        self.backoff += 1;
    }

    /// Returns whether no timeout has passed since something new was acknowledged.
    pub(super) fn has_no_backoff(&self) -> bool {
        self.backoff == 0
    }

    pub(super) fn smoothed_ps(&self) -> u64 {
        self.smoothed_ps
    }

    pub(super) fn least_ps(&self) -> u64 {
        self.least_ps
    }

    pub(super) fn rto_ps(&self) -> u64 {
        let rto_ps = (self.smoothed_ps + 4 * self.variation_ps).max(self.rto_min_ps);
        rto_ps.saturating_mul(1 << self.backoff.min(20)).min(RTO_MAX_PS)
    }

    /// Returns the time at which a packet sent now is given up.
    pub(super) fn deadline(&self, now: Time) -> Time {
        now.plus_ps(self.rto_ps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000_000;

    #[test]
    fn follows_the_formulas_of_rfc_6298() {
        let mut rtt = Rtt::new(8 * MS, 0);
        assert_eq!((rtt.smoothed_ps, rtt.variation_ps), (8 * MS, 4 * MS), "2.2");
        assert_eq!(rtt.rto_ps(), 24 * MS);
        rtt.sample(16 * MS);
        assert_eq!((rtt.smoothed_ps, rtt.variation_ps), (9 * MS, 5 * MS), "2.3");
        assert_eq!(rtt.rto_ps(), 29 * MS);
    }

    #[test]
    fn doubles_in_silence_between_its_bounds() {
        let mut rtt = Rtt::new(10_000_000, 50 * MS);
        for doublings in 0..5 {
            assert_eq!(rtt.rto_ps(), (50 * MS) << doublings);
            rtt.timed_out();
        }
        (0..30).for_each(|_| rtt.timed_out());
        assert_eq!(rtt.rto_ps(), RTO_MAX_PS);
        rtt.reset_backoff();
        assert_eq!(rtt.rto_ps(), 50 * MS);
    }
}
