//! READs or WRITEs of the peer's memory. The initiator counts completions, since the peer does not
//! see the operations; the peer only makes progress, which providers need that emulate such
//! operations.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;
use bench_record::{Bandwidth, Distribution, ReceiverCount, TimesOf};

use super::stream::{Sender, finish};
use super::{RoundTrips, counted};
use crate::shared_clock::shared_s;
use crate::sleeper::Sleeper;
use crate::watch::Watch;
use crate::workload::prelude::*;

/// The number of rounds of the peer between two looks for the end.
const ROUNDS_PER_LOOK: u32 = 64;

/// A lane of the benchmark.
pub(crate) struct Rma(Side);

impl Workload for Rma {
    fn depths(job: &JobSpec, side: Side, _thread: usize) -> (usize, usize) {
        match side {
            Side::Client => (job.tx_depth, 1),
            Side::Server => (1, 1),
        }
    }

    fn window_bytes(job: &JobSpec, side: Side) -> usize {
        let size_bytes = job.max_size_bytes.max(1);
        match side {
            Side::Client => size_bytes,
            Side::Server => job.memory_bytes.max(size_bytes.saturating_mul(job.tx_depth)),
        }
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self(task.side))
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self.0 {
            Side::Client => initiate(part),
            Side::Server => serve(part.links, part.port),
        }
    }

    /// Waits until all threads have done their operations, then ends the threads of the server.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let (mut counts, mut all_times) = (Vec::new(), None);
        for measured in session.slow_results()? {
            if let Measured::Initiated(count, trips) = measured {
                counts.push(count);
                all_times = trips.or(all_times);
            }
        }
        session.counts(counts.iter().map(|count| count.total).collect())?;
        counted(point, &counts)?;
        // Several threads have no common distribution of times.
        let times = all_times.filter(|_| session.job().threads == 1);
        let times = times.as_ref().map(|trips| &trips.histogram);
        Ok(Point {
            rx_depth: 0,
            sent: counts.iter().map(|count| count.total).sum(),
            bandwidth: Some(Bandwidth::of(&counts, point.limit)),
            operation_time: times.and_then(|times| Distribution::of(times, 1)),
            times: times.and_then(|times| session.packed(TimesOf::Operations, times)),
            ..session.new_point(point)
        })
    }
}

/// The measured window of an initiator.
pub(crate) struct Window {
    pub(crate) point: PointSpec,
    /// The number of operations before the window, if a number of operations is asked for instead
    /// of a time.
    pub(crate) warmup_iterations: u64,
    pub(crate) started: Instant,
    /// The time at which the window opened, and the number of operations that had completed by
    /// then.
    pub(crate) opened: Option<(Instant, u64)>,
}

impl Window {
    /// Opens and closes the window. Returns true if it is over.
    #[inline]
    pub(crate) fn advance(&mut self, now: Instant, completed: u64) -> bool {
        let Some((opened, _)) = self.opened else {
            let warm = match self.point.limit {
                Limit::DurationMs(_) => {
                    now - self.started >= Duration::from_millis(self.point.warmup_ms)
                }
                Limit::Iterations(_) => completed >= self.warmup_iterations,
            };
            if warm {
                self.opened = Some((now, completed));
            }
            return false;
        };
        match self.point.limit {
            Limit::DurationMs(ms) => now - opened >= Duration::from_millis(ms),
            Limit::Iterations(_) => false,
        }
    }
}

/// Runs the client's side of a point.
fn initiate<B: Backend>(part: Part<'_, B>) -> Outcome {
    let Part { links, port, point } = part;
    let mut sender = Sender::new(port.flow, point);
    let done = |links: &[Link<B>]| links.iter().map(|link| link.completed).sum::<u64>();
    let before = done(links);
    let mut window = Window {
        point,
        warmup_iterations: point.warmup_iterations(),
        started: Instant::now(),
        opened: None,
    };
    // Operations that come one at a time can be timed.
    let mut trips = RoundTrips::new()?;
    let is_timed = point.depth == 1 && links.len() == 1;
    let (mut last, mut seen) = (Instant::now(), 0);
    let mut watch = Watch::new(&port.signals, "waiting for the peer's memory");
    loop {
        let moved = sender.turn(links)?;
        let completed = done(links) - before;
        if completed == seen {
            if moved == 0 {
                watch.idle_on(links)?;
            }
            if sender.is_done() && links.iter().all(Link::is_idle) {
                break;
            }
            continue;
        }
        watch.progress();
        let now = Instant::now();
        if is_timed && window.opened.is_some() {
            trips.note(now - last);
        }
        (last, seen) = (now, completed);
        if window.advance(now, completed) {
            break;
        }
    }
    let (opened, at_start) = window.opened.unwrap_or((window.started, 0));
    let messages = seen.saturating_sub(at_start);
    let count = ReceiverCount {
        messages,
        bytes: messages * point.size_bytes as u64,
        seconds: (last - opened).as_secs_f64(),
        opened_s: shared_s(opened),
        total: sender.sent,
        ..ReceiverCount::default()
    };
    finish(links, &port.signals)?;
    Ok(Measured::Initiated(count, is_timed.then(|| Box::new(trips))))
}

/// Runs the server's side of a point: makes progress until the client has ended.
pub(crate) fn serve<B: Backend>(links: &mut [Link<B>], port: &Port) -> Outcome {
    until_told(links, port).map(|_| Measured::Answered)
}

/// Makes progress until the client has ended. Returns how many operations the client has done.
pub(super) fn until_told<B: Backend>(links: &mut [Link<B>], port: &Port) -> Result<u64, Failure> {
    let mut rounds = 0_u32;
    let mut sleeper = Sleeper::new();
    loop {
        let mut moved = 0;
        for link in links.iter_mut() {
            moved += link.poll()?;
        }
        if moved == 0 {
            sleeper.pause(links, &port.signals)?;
            // A round takes long on a side that sleeps.
            rounds |= if port.signals.sleeps() { ROUNDS_PER_LOOK - 1 } else { 0 };
        }
        rounds = rounds.wrapping_add(1);
        if rounds % ROUNDS_PER_LOOK == 0 {
            if let Some(sent) = port.sent()? {
                return Ok(sent);
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::backend::null::{Null, Peer};
    use crate::stream_job::datagrams_alone;

    /// Measures this many operations, `depth` of which end at once.
    fn initiated(operations: u64, depth: usize) -> Result<(), Failure> {
        let (port, job, _peer) = datagrams_alone();
        let null = Null::new(Peer::Takes, depth, 1, 8);
        let mut links = [Link::new(null, &job, Side::Client, 0).expect("a link")];
        let point =
            PointSpec { rx_depth: 1, ..PointSpec::new(8, depth, Limit::Iterations(operations)) };
        match initiate(Part { links: &mut links, port: &port, point }) {
            Ok(Measured::Initiated(count, _)) => counted(point, &[count]),
            other => panic!("{other:?}"),
        }
    }

    /// The client needs the processor that this side would take.
    #[test]
    fn an_idle_peer_gives_the_processor_away_where_threads_are_crowded() {
        let (mut port, job, _peer) = datagrams_alone();
        port.signals = port.signals.yielding();
        let null = Null::new(Peer::Takes, 1, 1, 8);
        let mut links = [Link::new(null, &job, Side::Server, 0).expect("a link")];
        serve(&mut links, &port).expect("it was told to end");
        assert!(port.signals.yields() > 0);
    }

    /// Without an operation in the window the rate would be 0 operations a second.
    #[test]
    fn a_window_that_opens_with_the_last_operation_is_no_measurement() {
        let failure = initiated(1, 128).expect_err("100 to warm up end with the last");
        assert_eq!(failure.exit_code(), 11);
        assert!(failure.to_string().contains("--iterations"), "{failure}");
        assert!(initiated(1, 1).is_ok());
        assert!(initiated(1000, 128).is_ok());
    }
}
