//! The benchmarks: what both sides do within a point. One file each, with the client's and the
//! server's loop beside each other.

pub(crate) mod bandwidth;
pub(crate) mod latency;

use hdrhistogram::Histogram;

use crate::backend::{Backend, Wants};
use crate::failure::Failure;
use crate::lane::{Port, Side};
use crate::link::Link;
use crate::record::ReceiverCount;
use crate::spec::{Benchmark, JobSpec, PointSpec};

/// What one thread found in one point.
#[derive(Debug)]
pub(crate) enum Measured {
    /// A client's round trips.
    RoundTrips(Box<RoundTrips>),
    /// A sender has sent this many messages in all.
    Sent(u64),
    /// A receiver's count.
    Received(ReceiverCount),
    /// A server that only answers.
    Answered,
}

/// Round trips of one thread.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// Whole round trips in ns.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) sum_ns: u64,
    pub(crate) count: u64,
    pub(crate) lost: u64,
    pub(crate) validated: u64,
}

impl RoundTrips {
    /// Together with those of another thread.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        // Both histograms have the same bounds, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum_ns += other.sum_ns;
        self.count += other.count;
        self.lost += other.lost;
        self.validated += other.validated;
        self
    }
}

/// What a side of a job has to open.
pub(crate) fn wants(job: &JobSpec, side: Side, source: Option<String>) -> Wants {
    let (tx_depth, rx_depth) = match (job.benchmark, side) {
        (Benchmark::Latency, _) => (latency::TX_DEPTH, latency::RX_DEPTH),
        (Benchmark::Bandwidth, Side::Client) => (job.tx_depth, 1),
        (Benchmark::Bandwidth, Side::Server) => (1, job.rx_depth),
    };
    Wants {
        fabric: job.fabric.clone(),
        domain: job.domain.clone(),
        endpoint: job.endpoint,
        operation: job.operation,
        tx_depth: tx_depth.max(1),
        rx_depth: rx_depth.max(1),
        payload_bytes: job.max_size_bytes,
        source,
    }
}

/// One thread's part of one point.
pub(crate) fn run<B: Backend>(
    benchmark: Benchmark,
    side: Side,
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
) -> Result<Measured, Failure> {
    match (benchmark, side) {
        (Benchmark::Latency, Side::Client) => latency::measure(links, port, point),
        (Benchmark::Latency, Side::Server) => latency::serve(links, port, point),
        (Benchmark::Bandwidth, Side::Client) => bandwidth::send(links, port, point),
        (Benchmark::Bandwidth, Side::Server) => bandwidth::receive(links, port, point),
    }
}
