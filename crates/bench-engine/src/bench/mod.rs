//! The benchmarks: what both sides do within a point. One file each, with the client's and the
//! server's loop beside each other.

pub(crate) mod bandwidth;
mod inspect;
pub(crate) mod latency;
pub(crate) mod open_loop;
#[cfg(test)]
mod own_cost;
mod reorder;
pub(crate) mod rma;
pub(crate) mod stream;

use std::time::Duration;

use bench_record::ReceiverCount;
use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, JobSpec, PointSpec};
use hdrhistogram::Histogram;

pub(crate) use self::open_loop::Loaded;
use crate::backend::{Backend, Lengths, Wants};
use crate::lane::{Port, Side};
use crate::link::Link;
use crate::workload::{self, Calls, Place};

/// What one thread found in one point.
#[derive(Debug)]
pub(crate) enum Measured {
    /// A client's round trips.
    RoundTrips(Box<RoundTrips>),
    /// A sender has sent this many messages in all.
    Sent(u64),
    /// A receiver's count.
    Received(ReceiverCount),
    /// What an initiator has seen complete; with the times of each if they came one by one.
    Initiated(ReceiverCount, Option<Box<RoundTrips>>),
    /// A client's requests.
    Loaded(Box<Loaded>),
    /// A caller's calls.
    Calls(Box<Calls>),
    /// A server that only answers.
    Answered,
}

/// Round trips of one thread.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// Whole round trips in ns; empty when they were only counted.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) sum_ns: u64,
    pub(crate) count: u64,
    /// Messages that were sent for them, warm-up and repetitions included; 0: not known.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) validated: u64,
}

/// Slots are whole cache lines.
const LINE_BYTES: usize = 64;
/// Longest round trip that is told apart, in ns.
const ROUND_TRIP_MAX_NS: u64 = 100_000_000_000;

impl RoundTrips {
    /// None yet, with room for all that may come.
    pub(crate) fn new() -> Result<Self, Failure> {
        let histogram = Histogram::new_with_bounds(1, ROUND_TRIP_MAX_NS, 3)
            .map_err(|e| Failure::Check(format!("histogram: {e}")))?;
        Ok(Self { histogram, sum_ns: 0, count: 0, sent: 0, lost: 0, validated: 0 })
    }

    /// One more.
    #[inline]
    pub(crate) fn note(&mut self, took: Duration) {
        self.note_many(took, 1);
    }

    /// Several that took the same time.
    #[inline]
    pub(crate) fn note_many(&mut self, took: Duration, count: u64) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(took_ns, count);
        self.sum_ns += took_ns * count;
        self.count += count;
    }

    /// So many that had no end: they had this age when they were given up. A schedule may ask for more
    /// than a sum has room for.
    pub(crate) fn note_age(&mut self, age: Duration, count: u64) {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(age_ns, count);
        self.sum_ns = self.sum_ns.saturating_add(age_ns.saturating_mul(count));
        self.count = self.count.saturating_add(count);
    }

    /// Together with those of another thread.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        // Both histograms have the same bounds, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count = self.count.saturating_add(other.count);
        self.sent += other.sent;
        self.lost += other.lost;
        self.validated += other.validated;
        self
    }
}

/// What a side of a job has to open.
pub(crate) fn wants(job: &JobSpec, side: Side, thread: usize) -> Wants {
    let is_client = side == Side::Client;
    let (tx_depth, rx_depth) = match (job.benchmark.part(thread), side) {
        (Benchmark::Latency | Benchmark::PingPong | Benchmark::SatLatency, _) => {
            (latency::TX_DEPTH, latency::RX_DEPTH)
        }
        // Both sides send and receive; one more for the last message.
        (Benchmark::OpenLoop, _) => (job.tx_depth + 1, job.tx_depth + 1),
        (Benchmark::Bandwidth | Benchmark::Rma, Side::Client) => (job.tx_depth, 1),
        (Benchmark::Bandwidth, Side::Server) => (1, job.rx_depth),
        (Benchmark::Rma, Side::Server) => (1, 1),
        (
            Benchmark::Rpc
            | Benchmark::Kv
            | Benchmark::Piggyback
            | Benchmark::Index
            | Benchmark::FileGet
            | Benchmark::Log
            | Benchmark::TwoPhase
            | Benchmark::Incast
            | Benchmark::Shuffle
            | Benchmark::Collective,
            _,
        ) => (job.tx_depth, job.rx_depth),
    };
    let quiet = is_client && job.flow.complete_every > 1;
    // Operations that do not complete share one more slot.
    let tx_depth = tx_depth.max(1) + usize::from(quiet);
    let size = job.max_size_bytes.max(1);
    let in_memory = job.memory_bytes / size.next_multiple_of(LINE_BYTES);
    let tx_slots = if is_client { tx_depth.max(in_memory) } else { tx_depth };
    // The peer's window is what one-sided operations go to; ours is there because both sides ask
    // for the same.
    let window_bytes = match (job.operation.is_one_sided(), is_client) {
        (false, _) => 0,
        (true, true) => size,
        (true, false) => job.memory_bytes.max(size.saturating_mul(job.tx_depth)),
    };
    let usual = Wants {
        fabric: job.fabric.clone(),
        domain: job.domain.clone(),
        endpoint: job.endpoint,
        operation: job.operation,
        tx_depth,
        tx_slots,
        rx_depth: rx_depth.max(1),
        payload_bytes: job.max_size_bytes,
        window_bytes,
        quiet,
        lists: job.flow.post_list > 1,
        source: None,
    };
    if job.benchmark.is_workload() { workload::wants(job, side, usual) } else { usual }
}

/// Receives that a point has on each endpoint: those that a session for it alone would have, so that it
/// does not matter what else a sweep measures.
pub(crate) fn receives(job: &JobSpec, side: Side, thread: usize, point: PointSpec) -> usize {
    let PointSpec { depth: tx_depth, rx_depth, .. } = point;
    wants(&JobSpec { tx_depth, rx_depth, ..job.clone() }, side, thread).rx_depth
}

/// How long the messages of a point are.
pub(crate) const fn lengths(benchmark: Benchmark, point: PointSpec) -> Lengths {
    if benchmark.is_workload() { Lengths::Leading } else { Lengths::Equal(point.size_bytes) }
}

/// One thread's part of one point; `place` is for workloads.
pub(crate) fn run<B: Backend>(
    benchmark: Benchmark,
    side: Side,
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
    place: &mut Place,
) -> Result<Measured, Failure> {
    match (benchmark, side) {
        (Benchmark::OpenLoop, Side::Client) => open_loop::generate(links, port, point),
        (Benchmark::OpenLoop, Side::Server) => {
            latency::echo_all(links, port, point, open_loop::HEADER_BYTES)
        }
        (Benchmark::Latency | Benchmark::SatLatency, Side::Client) => {
            latency::measure(links, port, point)
        }
        (Benchmark::PingPong, Side::Client) => latency::count(links, port, point),
        (Benchmark::Latency | Benchmark::PingPong | Benchmark::SatLatency, Side::Server) => {
            latency::serve(links, port, point)
        }
        (Benchmark::Bandwidth, Side::Client) => bandwidth::send(links, port, point),
        (Benchmark::Bandwidth, Side::Server) => bandwidth::receive(links, port, point),
        (Benchmark::Rma, Side::Client) => rma::initiate(links, port, point),
        (Benchmark::Rma, Side::Server) => rma::serve(links, port),
        (
            Benchmark::Rpc
            | Benchmark::Kv
            | Benchmark::Piggyback
            | Benchmark::Index
            | Benchmark::FileGet
            | Benchmark::Log
            | Benchmark::TwoPhase
            | Benchmark::Incast
            | Benchmark::Shuffle
            | Benchmark::Collective,
            _,
        ) => place.run(links, port, point),
    }
}
