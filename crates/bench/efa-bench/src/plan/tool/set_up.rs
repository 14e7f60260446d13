//! Takes the set-up out of the mean of a program that counts it in.
//!
//! `fi_pingpong` does: `efa` allocates its receive buffers while the first message comes, which
//! takes 90 ms here.

use bench_record::failure::Failure;
use bench_record::{Latency, Point, Run};

/// The number of runs of which the shortest is taken for what the set-up needs: a busy machine may
/// stop a program while it sets up, for 90 ms instead of 0.1.
const RUNS_OF_FIRST: usize = 3;
/// The least number of iterations; fewer seldom outweigh the set-up.
pub(super) const ITERATIONS_MIN: u64 = 20_000;
/// The number of times that the iterations are doubled if the set-up outweighs them.
const DOUBLINGS: u32 = 6;

/// Measures a run of `iterations` after the `first`, whose time is left out; `run` measures the
/// number of iterations that it is given.
pub(super) fn left_out(
    first: u64,
    iterations: u64,
    run: impl Fn(u64) -> Result<Run, Failure>,
) -> Result<Run, Failure> {
    let sum_us = |run: &Run, count: u64| {
        let latency = run.points.first().and_then(|point| point.latency);
        let wrong = || Failure::Check("set_up_iterations: the program prints no mean".to_owned());
        Ok(latency.ok_or_else(wrong)?.mean_us * count as f64)
    };
    let firsts = (0..RUNS_OF_FIRST).map(|_| sum_us(&run(first)?, first));
    let firsts_us = firsts.collect::<Result<Vec<f64>, Failure>>()?;
    let first_us = firsts_us.into_iter().fold(f64::INFINITY, f64::min);
    for doublings in 0..=DOUBLINGS {
        let count = iterations << doublings;
        let whole = run(first + count)?;
        let all_us = sum_us(&whole, first + count)?;
        if let Some(mean_us) = after_the_first(first_us, all_us, count) {
            return Ok(with_mean(whole, mean_us, count));
        }
    }
    Err(Failure::Check(format!(
        "its first {first} iterations took {first_us:.0} us, more than {} after them: measure more \
         iterations",
        iterations << DOUBLINGS
    )))
}

/// The mean of the `count` iterations after the first, if they took longer than those. What differs
/// in the first from run to run would be too great a part of the mean otherwise.
fn after_the_first(first_us: f64, all_us: f64, count: u64) -> Option<f64> {
    let rest_us = all_us - first_us;
    (rest_us > first_us).then(|| rest_us / count as f64)
}

fn with_mean(run: Run, mean_us: f64, count: u64) -> Run {
    let latency = Latency { round_trips: Some(count), mean_us, distribution: None };
    let with = |point: Point| Point { latency: Some(latency), ..point };
    Run { points: run.points.into_iter().map(with).collect(), ..run }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bench_record::spec::Benchmark;

    /// The set-up of libfabric's shm took 170 ms once, on a busy machine, and 20,000 round trips
    /// with their set-up 15: 4 us below zero for each was no figure.
    #[test]
    fn round_trips_that_a_set_up_outweighs_are_no_figure() {
        assert_eq!(after_the_first(84_772.0, 7_400.0, 20_000), None);
        assert_eq!(after_the_first(45_000.0, 83_000.0, 20_000), None);
        assert_eq!(after_the_first(45_000.0, 121_000.0, 40_000), Some(1.9));
    }

    #[test]
    fn iterations_are_doubled_until_they_outweigh_the_set_up() {
        // 10 ms of set-up, then 1 us each.
        let run = |count: u64| {
            let mean_us = (10_000.0 + count as f64) / count as f64;
            let latency = Latency { mean_us, ..Latency::default() };
            let point = Point { latency: Some(latency), ..Point::new(64, 1) };
            Ok(Run::new("tool", Benchmark::Latency, vec![point]))
        };
        let found = left_out(100, 4_000, run).expect("a figure");
        let latency = found.points[0].latency.expect("a mean");
        assert_eq!(latency.round_trips, Some(16_000));
        assert!((latency.mean_us - (26_100.0 - 10_100.0) / 16_000.0).abs() < 1e-9, "{latency:?}");
        assert!(left_out(100, 10, run).is_err());
    }
}
