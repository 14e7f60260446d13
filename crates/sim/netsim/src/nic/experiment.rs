//! Benchmarks as programs on the model, and their measurements.

use super::model::Model;
use super::node::Node;
use super::profile::{Api, Profile};
use super::program::{Program, Stream};
use crate::id::ThreadId;
use crate::percentile::nearest_rank;

const MS: u64 = 1_000_000_000;
/// Virtual time before anything is counted.
const WARM_UP_PS: u64 = MS;
const STREAM_PS: u64 = 12 * MS;
/// Additional warm-up for each message of a window, which may complete as a whole.
const WARM_UP_PER_MESSAGE_PS: u64 = 2_000_000;
/// Additional measuring time for each message of a window.
const STREAM_PER_MESSAGE_PS: u64 = 20_000_000;
const PING_PONG_PS: u64 = 100 * MS;
const LOADED_PS: u64 = 150 * MS;
/// Length of a request for a READ.
const REQUEST_BYTES: u32 = 64;

/// The kind of calls that a program makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Calls {
    Verbs,
    Library,
    RemoteMemory,
}

/// The window of a stream, and how it is kept full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Window {
    pub(super) depth: u32,
    pub(super) refill: u32,
    pub(super) poll_max: u32,
    pub(super) moderation: u32,
}

/// The communication pattern of a benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Pattern {
    /// Messages in one direction: threads, each with queue pairs of its own.
    Stream { window: Window, threads: u32, queue_pairs: u32 },
    /// Answered requests in one direction.
    Read { window: Window },
    /// One message to and fro.
    PingPong { is_reliable: bool },
    /// One message to and fro beside streams that wait after each message.
    Loaded { window: Window, threads: u32, bytes: u32, wait_ns: u32 },
}

/// A benchmark with all that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Experiment {
    pub(super) calls: Calls,
    pub(super) size_bytes: u32,
    pub(super) pattern: Pattern,
}

/// Half round trips in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latency {
    pub(super) min_us: f64,
    pub(super) mean_us: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// The measurements of a benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Measured {
    /// Messages of the streams per second, in millions.
    pub(super) mmsg_per_s: f64,
    /// Latency of the ping-pong.
    pub(super) latency: Latency,
}

impl Experiment {
    /// Runs the benchmark: the same numbers for the same seed.
    pub(super) fn run(&self, profile: &Profile, seed: u64) -> Measured {
        let mut model = Model::new(profile, seed);
        let api = api(profile, self.calls);
        match self.pattern {
            Pattern::Stream { window, threads, queue_pairs } => {
                let stream = stream(self.size_bytes, window, 0);
                let senders = add_streams(&mut model, &stream, api, threads, queue_pairs);
                measure(&mut model, &senders, stream_times(window))
            }
            Pattern::Read { window } => {
                let requests = stream(REQUEST_BYTES, window, 0);
                let stream = Stream { answer_bytes: Some(self.size_bytes), ..requests };
                let pair = model.add_pairs(1, true);
                let reader = model.add_thread(Node::First, Program::Stream(stream), api, pair);
                let server = Program::Server { bytes: self.size_bytes };
                model.add_thread(Node::Second, server, api, pair);
                measure(&mut model, &[reader], stream_times(window))
            }
            Pattern::PingPong { is_reliable } => {
                add_ping_pong(&mut model, self.size_bytes, api, is_reliable);
                measure(
                    &mut model,
                    &[],
                    Times { warm_up_ps: WARM_UP_PS, measured_ps: PING_PONG_PS },
                )
            }
            Pattern::Loaded { window, threads, bytes, wait_ns } => {
                let load = stream(bytes, window, u64::from(wait_ns) * 1000);
                let senders = add_streams(&mut model, &load, api, threads, 1);
                add_ping_pong(&mut model, self.size_bytes, api, true);
                measure(
                    &mut model,
                    &senders,
                    Times { warm_up_ps: WARM_UP_PS, measured_ps: LOADED_PS },
                )
            }
        }
    }
}

fn api(profile: &Profile, calls: Calls) -> &Api {
    let library = profile.library.as_ref().unwrap_or(&profile.verbs);
    match calls {
        Calls::Verbs => &profile.verbs,
        Calls::Library => library,
        Calls::RemoteMemory => profile.remote_memory.as_ref().unwrap_or(library),
    }
}

fn stream(bytes: u32, window: Window, wait_ps: u64) -> Stream {
    let Window { depth, refill, poll_max, moderation } = window;
    Stream { bytes, depth, refill, poll_max, moderation, wait_ps, answer_bytes: None }
}

/// Adds threads that send on the first host, and receiving ones on the other where those can be
/// what limits a stream. Returns the numbers of the senders.
fn add_streams(
    model: &mut Model<'_>,
    stream: &Stream,
    api: &Api,
    threads: u32,
    queue_pairs: u32,
) -> Vec<ThreadId> {
    (0..threads)
        .map(|_| {
            let pairs = model.add_pairs(queue_pairs, true);
            model.add_sink(api, pairs);
            model.add_thread(Node::First, Program::Stream(stream.clone()), api, pairs)
        })
        .collect()
}

fn add_ping_pong(model: &mut Model<'_>, bytes: u32, api: &Api, is_reliable: bool) {
    let pair = model.add_pairs(1, is_reliable);
    model.add_thread(Node::First, Program::PingPong { bytes, begins: true }, api, pair);
    model.add_thread(Node::Second, Program::PingPong { bytes, begins: false }, api, pair);
}

/// Phases of a benchmark.
#[derive(Clone, Copy, Debug)]
struct Times {
    warm_up_ps: u64,
    measured_ps: u64,
}

fn stream_times(window: Window) -> Times {
    let depth = u64::from(window.depth);
    Times {
        warm_up_ps: WARM_UP_PS + depth * WARM_UP_PER_MESSAGE_PS,
        measured_ps: STREAM_PS + depth * STREAM_PER_MESSAGE_PS,
    }
}

fn measure(model: &mut Model<'_>, senders: &[ThreadId], times: Times) -> Measured {
    model.run(times.warm_up_ps);
    let count = |model: &Model<'_>| senders.iter().map(|&t| model.completed(t)).sum::<u64>();
    let before = count(model);
    model.round_trips_ps.clear();
    model.run(times.measured_ps);
    let messages = count(model) - before;
    Measured {
        mmsg_per_s: messages as f64 / (times.measured_ps as f64 / 1e6),
        latency: latency(std::mem::take(&mut model.round_trips_ps)),
    }
}

fn latency(mut round_trips_ps: Vec<u64>) -> Latency {
    if round_trips_ps.is_empty() {
        return Latency::default();
    }
    round_trips_ps.sort_unstable();
    let count = round_trips_ps.len();
    let half_us = |ps: u64| ps as f64 / 2e6;
    let at = |percent| half_us(nearest_rank(&round_trips_ps, percent));
    Latency {
        min_us: half_us(round_trips_ps[0]),
        mean_us: half_us(round_trips_ps.iter().sum()) / count as f64,
        p50_us: at(50),
        p99_us: at(99),
    }
}
