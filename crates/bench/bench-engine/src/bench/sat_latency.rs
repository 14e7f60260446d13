//! A ping-pong of the first thread, while the others load the fabric with streams.

use super::bandwidth::{self, Bandwidth};
use super::latency::{self, Latency};
use crate::exchange::{Control, Message};
use crate::lanes::Lanes;
use crate::server;
use crate::workload::prelude::*;

/// A lane of the benchmark.
pub(crate) enum SatLatency {
    /// The lane of the first thread.
    Timed(Latency),
    /// The lanes of the other threads.
    Load(Bandwidth),
}

impl Workload for SatLatency {
    // The depth is that of the load.
    const SENDS_DEPTH: bool = false;

    fn depths(job: &JobSpec, side: Side, thread: usize) -> (usize, usize) {
        match thread {
            0 => Latency::depths(job, side, thread),
            _ => Bandwidth::depths(job, side, thread),
        }
    }

    /// Returns true for the ping-pong only: its course would be mixed with that of the load.
    fn has_course(thread: usize) -> bool {
        thread == 0
    }

    fn own(task: &Task, point: PointSpec) -> PointSpec {
        let size_bytes = task.job.load_size_bytes;
        match task.thread {
            0 => PointSpec { rate_per_s: 0, ..point },
            _ => PointSpec { size_bytes, validate: false, ..point },
        }
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(match task.thread {
            0 => Self::Timed(Latency::new(task)?),
            _ => Self::Load(Bandwidth::new(task)?),
        })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self {
            Self::Timed(latency) => latency.run(part),
            Self::Load(stream) => stream.run(part),
        }
    }

    fn serve(lanes: &Lanes, control: &mut Control) -> Result<(), Failure> {
        lanes.windows_closed(1)?;
        // The load lasts until the ping-pong is over.
        lanes.first_results(1)?;
        control.send(&Message::WindowDone)?;
        server::count_stream(lanes, control, 1)
    }

    /// Waits for the ping-pong, and for the streams beside it.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let mut all = session.results()?;
        let streams = all.split_off(1.min(all.len()));
        let trips = latency::of_all(session, all, point)?;
        let mut sent = vec![0];
        sent.extend(streams.iter().map(Measured::sent));
        let load = bandwidth::arrived(session, point, sent)?.bandwidth;
        let (depth, rx_depth) = (point.depth, session.new_point(point).rx_depth);
        // The processor time of the process includes that of the load.
        Ok(Point { load, depth, rx_depth, client_cpu_us: None, ..trips })
    }
}
