//! The benchmarks: what both sides do within a point. One file each, with the client's and the
//! server's loop beside each other.

pub(crate) mod atomics;
pub(crate) mod bandwidth;
pub(crate) mod bidirectional;
mod echo;
mod inspect;
pub(crate) mod latency;
pub(crate) mod open_loop;
#[cfg(test)]
mod own_cost;
pub(crate) mod ping_pong;
mod reorder;
pub(crate) mod rma;
pub(crate) mod sat_latency;
pub(crate) mod stream;

use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::spec::{Limit, PointSpec};
use bench_record::{NodePair, ReceiverCount};
use hdrhistogram::Histogram;

pub(crate) use self::open_loop::Loaded;
use crate::workload::Calls;

/// The findings of one thread in one point.
#[derive(Debug)]
pub(crate) enum Measured {
    /// A client's round trips.
    RoundTrips(Box<RoundTrips>),
    /// A sender has sent this many messages in all.
    Sent(u64),
    /// A receiver's count.
    Received(ReceiverCount),
    /// The count of what an initiator has seen complete; with the times of each if they came one by
    /// one.
    Initiated(ReceiverCount, Option<Box<RoundTrips>>),
    /// A client's requests.
    Loaded(Box<Loaded>),
    /// A caller's calls.
    Calls(Box<Calls>),
    /// What each two nodes had with each other.
    Pairs(Vec<NodePair>),
    /// A server that only answers.
    Answered,
}

impl Measured {
    /// Messages that a sender has sent.
    pub(crate) const fn sent(&self) -> u64 {
        match self {
            Self::Sent(count) => *count,
            _ => 0,
        }
    }
}

/// The outcome of a lane's part of a point.
pub(crate) type Outcome = Result<Measured, Failure>;

/// Refuses counts of which one is of an empty window: a rate of 0 would be that of a fabric that
/// stands still. A number of operations that all end at once leaves nothing after the warm-up.
fn counted(point: PointSpec, counts: &[ReceiverCount]) -> Result<(), Failure> {
    let is_empty = |count: &ReceiverCount| count.messages == 0 || count.seconds <= 0.0;
    match point.limit {
        Limit::Iterations(_) if counts.iter().any(is_empty) => Err(nothing_counted(point)),
        Limit::Iterations(_) | Limit::DurationMs(_) => Ok(()),
    }
}

/// No operation ended within the window.
#[cold]
pub(crate) fn nothing_counted(point: PointSpec) -> Failure {
    Failure::Check(format!(
        "nothing of {} B ended between the warm-up and the last: measure more with --iterations",
        point.size_bytes
    ))
}

/// Round trips of one thread.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// Whole round trips in ns; empty when they were only counted.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) sum_ns: u64,
    pub(crate) count: u64,
    /// Processor time of the process meanwhile in ns; 0: not read.
    pub(crate) cpu_ns: u64,
    /// Messages that were sent for them, warm-up and repetitions included; 0: not known.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) validated: u64,
}

/// Longest round trip that is told apart, in ns.
const ROUND_TRIP_MAX_NS: u64 = 100_000_000_000;

impl RoundTrips {
    /// None yet, with room for all that may come.
    pub(crate) fn new() -> Result<Self, Failure> {
        let histogram = Histogram::new_with_bounds(1, ROUND_TRIP_MAX_NS, 3)
            .map_err(|e| Failure::Check(format!("histogram: {e}")))?;
        Ok(Self { histogram, sum_ns: 0, count: 0, cpu_ns: 0, sent: 0, lost: 0, validated: 0 })
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

    /// Notes so many operations that had no end: they had this age when they were given up. A
    /// schedule may ask for more than a sum has room for.
    pub(crate) fn note_age(&mut self, age: Duration, count: u64) {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(age_ns, count);
        self.sum_ns = self.sum_ns.saturating_add(age_ns.saturating_mul(count));
        self.count = self.count.saturating_add(count);
    }

    /// Processor time of the process for each in µs; `None` where it was not read.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        (self.cpu_ns > 0 && self.count > 0).then(|| self.cpu_ns as f64 / self.count as f64 / 1e3)
    }

    /// Together with those of another thread.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        // Both histograms have the same bounds, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count = self.count.saturating_add(other.count);
        // Each has read the time of all.
        self.cpu_ns = self.cpu_ns.max(other.cpu_ns);
        self.sent += other.sent;
        self.lost += other.lost;
        self.validated += other.validated;
        self
    }
}
