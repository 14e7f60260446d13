//! A ramp of rates: the rate of an open loop doubles until its tail is beyond a bound. Then the
//! interval between the last rate within the bound and the first one beyond is halved until both
//! are close to each other.
//!
//! Each step is a separate point, in the record with all its blocks. Its tail counts from the
//! moments at which operations were due, and includes operations that were not done when the window
//! closed: a fabric that falls behind cannot hide it by being asked less.

use bench_record::failure::Failure;
use bench_record::spec::{Limit, PointSpec};
use bench_record::{Point, Ramp};
use report::Progress;

use crate::interrupt;

/// The number of operations that the first step should have in a block: 10 of them lie beyond p99.
const FIRST_OPERATIONS: f64 = 1_000.0;
/// The ratio of the rate beyond the bound to the rate within it at which the ramp ends.
const NEAR: f64 = 1.1;
/// The least number of operations in a block that has a p99.
const OPERATIONS_MIN: f64 = 100.0;
const RATE_MAX: u64 = 1_000_000_000;
/// The most steps: doublings from the lowest rate to the highest, and halvings between two rates.
const STEPS_MAX: usize = 40;
/// The number of steps that a ramp usually takes.
pub(crate) const STEPS_USUAL: usize = 12;

/// The search for the highest rate within the bound.
#[derive(Debug, Clone, Copy)]
struct Search {
    first: u64,
    /// The lowest rate that is measured: lower ones have too few operations for a tail.
    least: u64,
    held: Option<u64>,
    beyond: Option<u64>,
    steps: usize,
}

impl Search {
    const fn from(first: u64, least: u64) -> Self {
        Self { first, least, held: None, beyond: None, steps: 0 }
    }

    /// Returns the rate to measure now; `None` if the search is over.
    fn next(&self) -> Option<u64> {
        if self.steps >= STEPS_MAX {
            return None;
        }
        match (self.held, self.beyond) {
            (None, None) => Some(self.first),
            (Some(held), None) => Some(held.saturating_mul(2)).filter(|rate| *rate <= RATE_MAX),
            (None, Some(beyond)) => Some(beyond / 2).filter(|rate| *rate >= self.least),
            (Some(held), Some(beyond)) => {
                let is_near = beyond as f64 <= held as f64 * NEAR || beyond - held < 2;
                (!is_near).then_some(held.midpoint(beyond))
            }
        }
    }

    const fn note(&mut self, rate: u64, is_held: bool) {
        self.steps += 1;
        if is_held {
            self.held = Some(rate);
        } else {
            self.beyond = Some(rate);
        }
    }
}

/// Returns the rate that makes this many operations in a block.
fn rate_of(operations: f64, spec: PointSpec) -> u64 {
    let Limit::DurationMs(ms) = spec.limit else { return 1 };
    let seconds = ms.max(1) as f64 / 1e3;
    ((operations / seconds).ceil() as u64).clamp(1, RATE_MAX)
}

/// Climbs from each of these points; `measure` is told whether the block is the first one of its
/// step. Returns a point for each step, and the failure that ended the climb early.
pub(crate) fn climb(
    specs: &[PointSpec],
    ramp: Ramp,
    blocks: usize,
    progress: &mut Progress,
    mut measure: impl FnMut(PointSpec, bool, &mut Progress) -> Result<Point, Failure>,
) -> (Vec<Point>, Option<Failure>) {
    let mut found = Vec::new();
    for spec in specs {
        let named = Some(spec.rate_per_s).filter(|rate| *rate > 0);
        let first = named.unwrap_or_else(|| rate_of(FIRST_OPERATIONS, *spec));
        let least = rate_of(OPERATIONS_MIN, *spec);
        let mut search = Search::from(first.max(least), least);
        while let Some(rate_per_s) = search.next() {
            let step = PointSpec { rate_per_s, ..*spec };
            if search.steps >= STEPS_USUAL {
                progress.extend(blocks);
            }
            let (all, failure) = step_blocks(step, ramp, blocks, progress, &mut measure);
            let point = Point::middle_by(all, Point::p99_from_due_us);
            let p99_us = point.as_ref().and_then(Point::p99_from_due_us);
            found.extend(point);
            if failure.is_some() {
                return (found, failure);
            }
            search.note(rate_per_s, p99_us.is_some_and(|own| own < ramp.p99_us));
        }
        progress.skip(blocks * STEPS_USUAL.saturating_sub(search.steps));
    }
    (found, None)
}

/// Measures the blocks of a step. Stops when so many are beyond the bound that the middle one is,
/// too.
fn step_blocks(
    step: PointSpec,
    ramp: Ramp,
    blocks: usize,
    progress: &mut Progress,
    measure: &mut impl FnMut(PointSpec, bool, &mut Progress) -> Result<Point, Failure>,
) -> (Vec<Point>, Option<Failure>) {
    let mut all: Vec<Point> = Vec::new();
    let is_beyond = |point: &Point| point.p99_from_due_us().is_none_or(|own| own >= ramp.p99_us);
    while all.len() < blocks && all.iter().filter(|own| is_beyond(own)).count() * 2 <= blocks {
        let is_first = all.is_empty();
        let measured = interrupt::check().and_then(|()| measure(step, is_first, progress));
        match measured {
            Ok(point) => all.push(point),
            Err(error) => return (all, Some(error)),
        }
    }
    progress.skip(blocks - all.len());
    (all, None)
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Arrivals;
    use bench_record::{Distribution, OpenLoop};

    use super::*;

    const RAMP: Ramp = Ramp { p99_us: 1_000.0 };

    fn spec(rate_per_s: u64) -> PointSpec {
        PointSpec { rate_per_s, ..PointSpec::new(64, 8, Limit::DurationMs(200)) }
    }

    fn answered(spec: PointSpec, p99_us: Option<f64>) -> Point {
        let response = p99_us.map(|p99_us| Distribution { p99_us, ..Distribution::default() });
        let found = OpenLoop {
            arrivals: Arrivals::Poisson,
            offered_per_s: spec.rate_per_s as f64,
            answered_per_s: 1.0,
            unposted: 0,
            response,
            service: response,
        };
        let rate_per_s = spec.rate_per_s;
        Point { rate_per_s, open_loop: Some(found), ..Point::new(spec.size_bytes, spec.depth) }
    }

    /// Climbs with the tail that `p99_us` returns for each rate. Returns the rate and the number of
    /// blocks of each step.
    fn climbed(first: u64, mut p99_us: impl FnMut(u64) -> Option<f64>) -> Vec<(u64, usize)> {
        let mut progress = Progress::new(0, true);
        let mut measured = Vec::new();
        let (points, failure) =
            climb(&[spec(first)], RAMP, 3, &mut progress, |spec, is_first, _| {
                match measured.last_mut() {
                    Some((rate, count)) if *rate == spec.rate_per_s && !is_first => *count += 1,
                    _ => measured.push((spec.rate_per_s, 1)),
                }
                Ok(answered(spec, p99_us(spec.rate_per_s)))
            });
        assert!(failure.is_none());
        assert_eq!(points.len(), measured.len());
        measured
    }

    #[test]
    fn the_knee_is_found_from_below_and_from_above() {
        for (first, knee) in [(1_000, 50_000), (1_000_000, 50_000), (0, 7_000), (600, 600)] {
            let steps = climbed(first, |rate| Some(if rate <= knee { 30.0 } else { 9_999.0 }));
            let held = steps.iter().map(|(rate, _)| *rate).filter(|rate| *rate <= knee).max();
            let beyond = steps.iter().map(|(rate, _)| *rate).filter(|rate| *rate > knee).min();
            let (held, beyond) = (held.expect("held") as f64, beyond.expect("beyond") as f64);
            assert!(beyond / held <= NEAR && steps.len() <= 20, "{first}, {knee}: {steps:?}");
            // Two of three blocks decide that a rate is beyond the bound.
            for (rate, blocks) in steps {
                assert_eq!(blocks, if rate <= knee { 3 } else { 2 }, "{rate}");
            }
        }
    }

    /// A block in which no operation was due must not be taken for one without answers.
    #[test]
    fn a_ramp_begins_where_there_is_a_tail() {
        let steps = climbed(1, |rate| (rate >= 500).then_some(1.0));
        assert_eq!(steps.first(), Some(&(500, 3)), "of 200 ms, 100 operations");
        assert!(steps.len() > 10, "{steps:?}");
    }

    #[test]
    fn ramps_end_where_there_is_no_knee() {
        let steps = climbed(1_000, |_| Some(1.0));
        assert!(steps.len() < STEPS_MAX && steps.iter().all(|(rate, _)| *rate <= RATE_MAX));
        // Without answers even the lowest rate is beyond the bound.
        let steps = climbed(1_000, |_| None);
        // A block of 200 ms needs at least 100 operations.
        assert!(steps.iter().all(|(rate, _)| *rate >= 500), "{steps:?}");
        assert!(steps.len() < STEPS_MAX, "{steps:?}");
    }

    #[test]
    fn one_disturbed_block_of_three_decides_nothing() {
        let mut count = 0;
        let steps = climbed(1_000, |rate| {
            count += 1;
            Some(if rate > 50_000 || count % 3 == 1 { 9_999.0 } else { 30.0 })
        });
        let held = steps.iter().filter(|(_, blocks)| *blocks == 3).map(|(rate, _)| *rate).max();
        assert!(held.is_some_and(|rate| rate > 45_000), "{steps:?}");
    }

    #[test]
    fn what_was_measured_before_a_failure_is_kept() {
        let mut progress = Progress::new(0, true);
        let mut left = 7;
        let (points, failure) = climb(&[spec(1_000)], RAMP, 3, &mut progress, |spec, _, _| {
            left -= 1;
            if left == 0 { Err(Failure::Interrupted) } else { Ok(answered(spec, Some(1.0))) }
        });
        let rates: Vec<u64> = points.iter().map(|point| point.rate_per_s).collect();
        assert_eq!(rates, [1_000, 2_000]);
        assert!(matches!(failure, Some(Failure::Interrupted)));
    }
}
