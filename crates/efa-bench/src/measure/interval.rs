//! Confidence intervals over blocks, by resampling (Efron 1979, the percentile method).

use serde::{Deserialize, Serialize};

use super::Random;

/// Resamples: enough for a stable 2.5th percentile.
const RESAMPLES: usize = 2000;

/// Where the middle of the blocks is with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// Half of its width, in percent of `middle`.
    pub(crate) fn half_width_percent(self, middle: f64) -> f64 {
        if middle > 0.0 { (self.high - self.low) * 50.0 / middle } else { f64::INFINITY }
    }
}

/// The middle one of sorted values, or the mean of the middle two.
fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], sorted[middle])
    } else {
        sorted[middle]
    }
}

/// The 95 % interval of the median; `None` of fewer than three values, which say nothing.
pub(crate) fn median_interval(values: &[f64], seed: u64) -> Option<Interval> {
    if values.len() < 3 {
        return None;
    }
    let mut random = Random::new(seed);
    let mut sample = vec![0.0; values.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            for place in &mut sample {
                *place = values[random.below(values.len())];
            }
            sample.sort_by(f64::total_cmp);
            median(&sample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let at = |share: f64| medians[((RESAMPLES - 1) as f64 * share).round() as usize];
    Some(Interval { low: at(0.025), high: at(0.975) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_holds_the_true_median_about_as_often_as_it_says() {
        // Sums of uniform numbers around 6.
        let mut random = Random::new(11);
        let mut held = 0;
        for round in 0..200 {
            let values: Vec<f64> = (0..25).map(|_| (0..12).map(|_| random.unit()).sum()).collect();
            let interval = median_interval(&values, round).expect("enough values");
            held += u32::from(interval.low <= 6.0 && 6.0 <= interval.high);
        }
        assert!((180..=200).contains(&held), "{held} of 200");
    }

    #[test]
    fn equal_blocks_leave_no_doubt_and_two_say_nothing() {
        let interval = median_interval(&[5.0; 7], 1).expect("enough values");
        assert_eq!(interval, Interval { low: 5.0, high: 5.0 });
        assert_eq!(median_interval(&[5.0; 2], 1), None);
        let interval = Interval { low: 99.0, high: 103.0 };
        assert!((interval.half_width_percent(100.0) - 2.0).abs() < 1e-12);
        assert_eq!(interval.half_width_percent(0.0), f64::INFINITY);
    }

    #[test]
    fn one_disturbed_block_of_five_does_not_move_the_middle() {
        let interval = median_interval(&[10.0, 10.1, 9.9, 10.0, 500.0], 1).expect("enough");
        assert!(interval.low > 9.8 && interval.high <= 500.0, "{interval:?}");
    }
}
