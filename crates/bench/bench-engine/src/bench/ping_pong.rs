//! Ping-pong whose round trips are counted, not timed one by one.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;

use super::latency::{GOES_ON, Latency, Pinger, is_over, one_endpoint};
use super::{RoundTrips, echo};
use crate::exchange::Control;
use crate::lanes::Lanes;
use crate::workload::prelude::*;

/// Round trips between two clock reads.
const ROUNDS_PER_CLOCK: u64 = 64;

/// A lane of it.
pub(crate) struct PingPong(Side);

impl Workload for PingPong {
    const SENDS_DEPTH: bool = false;

    fn depths(job: &JobSpec, side: Side, thread: usize) -> (usize, usize) {
        Latency::depths(job, side, thread)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self(task.side))
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.0 {
            Side::Client => count(part),
            Side::Server => echo::serve(part),
        }
    }

    fn serve(lanes: &Lanes, control: &mut Control) -> Result<(), Failure> {
        Latency::serve(lanes, control)
    }

    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        Latency::conclude(session, point)
    }
}

/// The client's side of a point.
fn count<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let [link] = links else { return Err(one_endpoint(links.len())) };
    let mut trips = RoundTrips::new()?;
    let mut pinger = Pinger::new(link, port, point);
    pinger.warm_up()?;
    let start = Instant::now();
    let mut took = Duration::ZERO;
    while !is_over(point, took, trips.count) {
        let rounds = match point.limit {
            Limit::DurationMs(_) => ROUNDS_PER_CLOCK,
            Limit::Iterations(n) => ROUNDS_PER_CLOCK.min(n - trips.count),
        };
        for _ in 0..rounds {
            trips.count += u64::from(pinger.round(GOES_ON)?);
        }
        took = start.elapsed();
    }
    trips.sum_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    pinger.finish(trips)
}
