//! What a plot shows of a benchmark.

use bench_record::Point;
use bench_record::spec::Benchmark;
use bench_record::workload::Figures;

use crate::compare::latency_us;

/// Messages up to this many bytes are limited by their number, longer ones by their bytes.
const SMALL_BYTES: usize = 512;

/// A figure of points.
pub(super) struct Quantity {
    pub(super) label: &'static str,
    pub(super) unit: &'static str,
    /// One of "lower" and "higher".
    pub(super) better: &'static str,
    pub(super) meaning: &'static str,
    pub(super) of: fn(&Point) -> Option<f64>,
    /// Blocks were kept of it, or of what is proportional to it.
    pub(super) has_blocks: bool,
    /// Its 99th percentile, which is drawn beside it.
    pub(super) tail: Option<fn(&Point) -> Option<f64>>,
}

const HALF_ROUND_TRIP: Quantity = Quantity {
    label: "half round trip",
    unit: "µs",
    better: "lower",
    meaning: "Ping-pong with one message in flight: the median, or the mean where that is all that is \
        known.",
    of: latency_us,
    has_blocks: true,
    tail: Some(|point| point.latency?.distribution.map(|times| times.p99_us)),
};
const GOODPUT: Quantity = Quantity {
    label: "goodput",
    unit: "Gbit/s",
    better: "higher",
    meaning: "Application bytes that arrived within the measured window, counted at the receiver (of \
        one-sided operations: completed at the initiator); 1 Gbit = 10^9 bits. A line that stops rising \
        has reached what is possible.",
    of: |point| point.bandwidth.map(|found| found.gbit_per_s),
    has_blocks: true,
    tail: None,
};
const MESSAGE_RATE: Quantity = Quantity {
    label: "message rate",
    unit: "M msg/s",
    better: "higher",
    meaning: "Messages that arrived within the measured window, counted at the receiver (one-sided \
        operations: completed at the initiator). A line that stops rising has reached what is possible.",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    has_blocks: true,
    tail: None,
};
const ATOMIC_RATE: Quantity = Quantity {
    label: "rate",
    unit: "M op/s",
    better: "higher",
    meaning: "Atomic operations that completed at the initiator within the measured window, of all \
        threads.",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    has_blocks: true,
    tail: None,
};
const ATOMIC_TIME: Quantity = Quantity {
    label: "time of an operation",
    unit: "µs",
    better: "lower",
    meaning: "From posting to completion, one at a time: the median, or the mean where that is all that is \
        known.",
    of: |point| point.operation_time.map(|times| times.p50_us).or(point.operation_mean_us),
    has_blocks: false,
    tail: Some(|point| point.operation_time.map(|times| times.p99_us)),
};
const RESPONSE: Quantity = Quantity {
    label: "median response",
    unit: "µs",
    better: "lower",
    meaning: "Whole round trips from the moment for which each request was intended.",
    of: |point| point.open_loop?.response.map(|times| times.p50_us),
    has_blocks: true,
    tail: None,
};
const RESPONSE_TAIL: Quantity = Quantity {
    label: "99th percentile of responses",
    of: |point| point.open_loop?.response.map(|times| times.p99_us),
    has_blocks: false,
    ..RESPONSE
};
const COLLECTIVE: Quantity = Quantity {
    label: "median time",
    unit: "µs",
    better: "lower",
    meaning: "An operation of all ranks lasts as long as on the rank where it lasted longest. The median, or \
        the mean where that is all that is known.",
    of: |point| {
        let median = point.operation_time.map(|times| times.p50_us);
        median.or_else(|| point.collective.map(|own| own.mean_us))
    },
    has_blocks: true,
    tail: None,
};
const CONNECTION_RATE: Quantity = Quantity {
    label: "connections",
    unit: "/s",
    better: "higher",
    meaning: "Connections that were opened, used for one round trip and closed, one after the other, of all \
        threads.",
    of: |point| point.connections.as_ref().map(|own| own.per_s),
    has_blocks: false,
    tail: None,
};
const CONNECTION_TIME: Quantity = Quantity {
    label: "time of a connection",
    unit: "µs",
    better: "lower",
    meaning: "From opening an endpoint until the first answer over it is there: the median.",
    of: |point| point.operation_time.map(|times| times.p50_us),
    has_blocks: true,
    tail: Some(|point| point.operation_time.map(|times| times.p99_us)),
};
const CALLS: Quantity = Quantity {
    label: "rate",
    unit: "M/s",
    better: "higher",
    meaning: "Operations (calls, records, transactions) that ended within the measured window, of all \
        threads, closed loop.",
    // Of an open loop the rate is what was asked for.
    of: |point| {
        let work = point.work.as_ref().filter(|work| work.arrivals.is_none());
        work.map(|work| work.mcalls_per_s)
    },
    has_blocks: true,
    tail: None,
};
const BYTES: Quantity = Quantity {
    label: "throughput",
    unit: "GB/s",
    better: "higher",
    meaning: "Bytes that reached their place within the measured window; 10^9 to a GB.",
    of: |point| point.bandwidth.map(|found| found.mb_per_s / 1e3),
    has_blocks: true,
    tail: None,
};
const NODE_BYTES: Quantity = Quantity {
    label: "throughput of a node",
    meaning: "Bytes of tuples that a node got from others within its window, mean of the nodes; 10^9 to a \
        GB.",
    of: |point| point.shuffle.map(|found| found.gb_per_s),
    ..BYTES
};
const TUPLE_TIME: Quantity = Quantity {
    label: "processor time of a tuple",
    unit: "ns",
    better: "lower",
    meaning: "Of the measuring threads of all nodes, to make a tuple and to take it, polling included.",
    of: |point| point.shuffle.map(|found| found.cpu_ns_per_tuple),
    has_blocks: false,
    tail: None,
};
const TAIL: Quantity = Quantity {
    label: "99th percentile",
    unit: "µs",
    better: "lower",
    meaning: "From the start of an operation (open loop: from when it was due) to its end.",
    of: |point| point.operation_time.map(|times| times.p99_us),
    has_blocks: false,
    tail: None,
};

/// What is shown of a benchmark, of messages of `size_bytes` (`None`: of several).
pub(super) const fn of(benchmark: Benchmark, size_bytes: Option<usize>) -> &'static [Quantity] {
    match (benchmark.about().figures, size_bytes) {
        (Figures::RoundTrips, _) => &[HALF_ROUND_TRIP],
        (Figures::Responses, _) => &[RESPONSE, RESPONSE_TAIL],
        (Figures::Stream, Some(..=SMALL_BYTES)) => &[MESSAGE_RATE],
        (Figures::Stream, _) => &[GOODPUT],
        (Figures::Atomics, _) => &[ATOMIC_RATE, ATOMIC_TIME],
        (Figures::Collective, _) => &[COLLECTIVE],
        (Figures::Connections, _) => &[CONNECTION_RATE, CONNECTION_TIME],
        (Figures::Files, _) => &[BYTES, TAIL],
        (Figures::Shuffle, _) => &[NODE_BYTES, TUPLE_TIME],
        (Figures::Calls | Figures::Lookups | Figures::Records | Figures::Incast, _) => {
            &[CALLS, TAIL]
        }
    }
}
