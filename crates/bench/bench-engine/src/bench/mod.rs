//! The benchmarks: the loops of both sides within a point. Each benchmark has one file, with the
//! client's and the server's loop beside each other.

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
    /// The round trips of a client.
    RoundTrips(Box<RoundTrips>),
    /// The number of messages that a sender has sent in all.
    Sent(u64),
    /// The count of a receiver.
    Received(ReceiverCount),
    /// The count of the operations that an initiator has seen complete, and their times if they
    /// came one by one.
    Initiated(ReceiverCount, Option<Box<RoundTrips>>),
    /// The requests of a client.
    Loaded(Box<Loaded>),
    /// The calls of a caller.
    Calls(Box<Calls>),
    /// The figures of each pair of nodes.
    Pairs(Vec<NodePair>),
    /// A server that only answers.
    Answered,
}

impl Measured {
    /// The number of messages that a sender has sent.
    pub(crate) const fn sent(&self) -> u64 {
        match self {
            Self::Sent(count) => *count,
            _ => 0,
        }
    }
}

/// The outcome of a lane's part of a point.
pub(crate) type Outcome = Result<Measured, Failure>;

/// Refuses counts if one of them is of an empty window: a rate of 0 would be that of a fabric that
/// stands still. If all operations end at once, none is left after the warm-up.
fn counted(point: PointSpec, counts: &[ReceiverCount]) -> Result<(), Failure> {
    let is_empty = |count: &ReceiverCount| count.messages == 0 || count.seconds <= 0.0;
    match point.limit {
        Limit::Iterations(_) if counts.iter().any(is_empty) => Err(nothing_counted(point)),
        Limit::Iterations(_) | Limit::DurationMs(_) => Ok(()),
    }
}

/// Makes the failure that no operation ended within the window.
#[cold]
pub(crate) fn nothing_counted(point: PointSpec) -> Failure {
    Failure::Check(format!(
        "nothing of {} B ended between the warm-up and the last: measure more with --iterations",
        point.size_bytes
    ))
}

/// The round trips of one thread.
#[derive(Debug)]
pub(crate) struct RoundTrips {
    /// The times of whole round trips in ns; empty if they were only counted.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) sum_ns: u64,
    pub(crate) count: u64,
    /// The processor time that the process took meanwhile in ns; 0: not read.
    pub(crate) cpu_ns: u64,
    /// The number of messages that were sent for the round trips, warm-up and repetitions included;
    /// 0: not known.
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) validated: u64,
}

/// The longest round trip that is recorded exactly, in ns.
const ROUND_TRIP_MAX_NS: u64 = 100_000_000_000;

impl RoundTrips {
    /// Makes an empty record with room for all round trips that may come.
    pub(crate) fn new() -> Result<Self, Failure> {
        let histogram = Histogram::new_with_bounds(1, ROUND_TRIP_MAX_NS, 3)
            .map_err(|e| Failure::Check(format!("histogram: {e}")))?;
        Ok(Self { histogram, sum_ns: 0, count: 0, cpu_ns: 0, sent: 0, lost: 0, validated: 0 })
    }

    /// Notes one round trip.
    #[inline]
    pub(crate) fn note(&mut self, took: Duration) {
        self.note_many(took, 1);
    }

    /// Notes several round trips that took the same time.
    #[inline]
    pub(crate) fn note_many(&mut self, took: Duration, count: u64) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(took_ns, count);
        self.sum_ns += took_ns * count;
        self.count += count;
    }

    /// Notes operations that did not end and had this age when they were given up. The sum
    /// saturates, because a schedule may ask for any number.
    pub(crate) fn note_age(&mut self, age: Duration, count: u64) {
        let age_ns = u64::try_from(age.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record_n(age_ns, count);
        self.sum_ns = self.sum_ns.saturating_add(age_ns.saturating_mul(count));
        self.count = self.count.saturating_add(count);
    }

    /// The processor time of the process for each round trip in µs; `None` if it was not read.
    pub(crate) fn cpu_us(&self) -> Option<f64> {
        (self.cpu_ns > 0 && self.count > 0).then(|| self.cpu_ns as f64 / self.count as f64 / 1e3)
    }

    /// Adds the round trips of another thread.
    pub(crate) fn and(mut self, other: &Self) -> Self {
        // Both histograms have the same bounds, so that adding cannot fail.
        let added = self.histogram.add(&other.histogram);
        debug_assert!(added.is_ok(), "{added:?}");
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
        self.count = self.count.saturating_add(other.count);
        // Each thread has read the time of the whole process.
        self.cpu_ns = self.cpu_ns.max(other.cpu_ns);
        self.sent += other.sent;
        self.lost += other.lost;
        self.validated += other.validated;
        self
    }
}
