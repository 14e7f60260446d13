//! The completion times of bursts over the best possible time.

use std::time::Duration;

use bench_record::Bursts;
use report::jain;

/// The times of a point's bursts.
pub(super) struct Times {
    /// The times of the burst that is on its way, in µs.
    us: Vec<f64>,
    bursts: u64,
    transfers: u64,
    sum_us: f64,
    /// The sum over bursts of their shortest times.
    min_us: f64,
    /// The sum over bursts of their longest times.
    max_us: f64,
    /// The sum over bursts of the fairness of their rates.
    jain: f64,
    /// The longest time of any burst.
    worst_us: f64,
}

impl Times {
    /// Makes times with room for the transfers of a burst.
    pub(super) fn new(flows: usize) -> Self {
        Self {
            us: Vec::with_capacity(flows),
            bursts: 0,
            transfers: 0,
            sum_us: 0.0,
            min_us: 0.0,
            max_us: 0.0,
            jain: 0.0,
            worst_us: 0.0,
        }
    }

    /// Notes that a transfer of the burst has ended.
    #[inline]
    pub(super) fn note(&mut self, took: Duration) {
        self.us.push(took.as_nanos() as f64 / 1e3);
    }

    /// Notes that the last transfer of a burst has ended; bursts of the warm-up do not count.
    pub(super) fn end_burst(&mut self, counts: bool) {
        if counts && !self.us.is_empty() {
            let max_us = self.us.iter().copied().fold(0.0, f64::max);
            self.bursts += 1;
            self.transfers += self.us.len() as u64;
            self.sum_us += self.us.iter().sum::<f64>();
            self.min_us += self.us.iter().copied().fold(f64::INFINITY, f64::min);
            self.max_us += max_us;
            self.worst_us = self.worst_us.max(max_us);
            // All transfers have the same length: their mean rates are in proportion to their
            // inverse times.
            self.jain += jain(self.us.iter().map(|us| 1.0 / us.max(f64::MIN_POSITIVE)));
        }
        self.us.clear();
    }

    /// Returns the number of bursts that count.
    pub(super) const fn bursts(&self) -> u64 {
        self.bursts
    }

    /// Returns the times over the best possible time of a burst; `None` if no burst has ended
    /// within the window.
    pub(super) fn summary(&self, ideal_us: f64) -> Option<Bursts> {
        let per_burst = |sum: f64| sum / self.bursts as f64;
        let mean_us = self.sum_us / self.transfers as f64;
        (self.bursts > 0).then(|| Bursts {
            bursts: self.bursts,
            ideal_us,
            mean_us,
            min_to_ideal: per_burst(self.min_us) / ideal_us,
            mean_to_ideal: mean_us / ideal_us,
            max_to_ideal: per_burst(self.max_us) / ideal_us,
            worst_to_ideal: self.worst_us / ideal_us,
            jain: per_burst(self.jain),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_judged_by_their_slowest_transfer() {
        let mut times = Times::new(2);
        let mut burst = |us: [u64; 2], counts| {
            us.iter().for_each(|us| times.note(Duration::from_micros(*us)));
            times.end_burst(counts);
        };
        burst([1, 1000], false);
        burst([100, 200], true);
        burst([200, 200], true);
        let found = times.summary(100.0).expect("two bursts");
        assert_eq!((found.bursts, found.mean_us), (2, 175.0));
        assert_eq!((found.min_to_ideal, found.mean_to_ideal), (1.5, 1.75));
        assert_eq!((found.max_to_ideal, found.worst_to_ideal), (2.0, 2.0));
        // The rates of one burst are 2 and 1: 9 / (2 x 5); those of the next are equal.
        assert!((found.jain - 0.95).abs() < 1e-9);
        assert!(Times::new(1).summary(1.0).is_none());
    }
}
