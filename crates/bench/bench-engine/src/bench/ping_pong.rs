//! Ping-pong whose round trips are counted, but not timed one by one.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;

use super::latency::{GOES_ON, Latency, Pinger, is_over, one_endpoint};
use super::{RoundTrips, echo};
use crate::exchange::Control;
use crate::lanes::Lanes;
use crate::workload::prelude::*;

/// The number of round trips between two clock reads.
const ROUNDS_PER_CLOCK: u64 = 64;

/// A lane of the benchmark.
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

/// Runs the client's side of a point.
fn count<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let [link] = links else { return Err(one_endpoint(links.len())) };
    let mut trips = RoundTrips::new()?;
    let mut pinger = Pinger::new(link, port, point);
    pinger.warm_up()?;
    let (start, wasted_before) = (Instant::now(), pinger.wasted);
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
    // Round trips on which a datagram was lost do not count, nor does their time.
    let counted = took.saturating_sub(pinger.wasted - wasted_before);
    trips.sum_ns = u64::try_from(counted.as_nanos()).unwrap_or(u64::MAX);
    pinger.finish(trips)
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::datagrams_alone;

    /// The shortest silence after which a datagram counts as lost.
    const SILENCE: Duration = Duration::from_millis(100);

    /// The time of such a round trip must not count, because the round trip does not count either.
    #[test]
    fn the_time_of_a_lost_round_trip_is_left_out_with_it() {
        let (port, job, _peer) = datagrams_alone();
        // After 100 messages to warm up, the lost message is one that is counted.
        let null = Null::new(Peer::Loses { first: 130, last: 130 }, 32, 8, 1);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let point = PointSpec::new(1, 1, Limit::Iterations(40));
        let start = Instant::now();
        let trips = match count(Part { links: &mut links, port: &port, point }) {
            Ok(Measured::RoundTrips(trips)) => trips,
            other => panic!("{other:?}"),
        };
        let took = start.elapsed();
        assert_eq!((trips.count, trips.lost), (40, 1));
        assert_eq!(trips.sent, links[0].backend().taken);
        assert!(Duration::from_nanos(trips.sum_ns) + SILENCE <= took, "{trips:?} of {took:?}");
    }
}
