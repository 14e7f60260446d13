//! A figure of points, as plots show it.

use bench_record::Point;

/// A figure of points.
pub(crate) struct Quantity {
    pub(crate) label: &'static str,
    pub(crate) unit: &'static str,
    /// The better direction, "lower" or "higher".
    pub(crate) better: &'static str,
    pub(crate) meaning: &'static str,
    pub(crate) of: fn(&Point) -> Option<f64>,
    /// Whether blocks were kept of the figure, or of what is proportional to it.
    pub(crate) has_blocks: bool,
    /// The 99th percentile, which is drawn beside the figure.
    pub(crate) tail: Option<fn(&Point) -> Option<f64>>,
}

pub(super) const CALLS: Quantity = Quantity {
    label: "rate",
    unit: "M/s",
    better: "higher",
    meaning: "Operations (calls, records, transactions) that ended within the measured window, of all \
        threads, closed loop.",
    // In an open loop, the rate is the requested one.
    of: |point| {
        let work = point.work.as_ref().filter(|work| work.arrivals.is_none());
        work.map(|work| work.mcalls_per_s)
    },
    has_blocks: true,
    tail: None,
};

pub(super) const BYTES: Quantity = Quantity {
    label: "throughput",
    unit: "GB/s",
    better: "higher",
    meaning: "Bytes that reached their place within the measured window; 10^9 to a GB.",
    of: |point| point.bandwidth.map(|found| found.mb_per_s / 1e3),
    has_blocks: true,
    tail: None,
};

pub(super) const TAIL: Quantity = Quantity {
    label: "99th percentile",
    unit: "µs",
    better: "lower",
    meaning: "From the start of an operation (open loop: from when it was due) to its end.",
    of: |point| point.operation_time.map(|times| times.p99_us),
    has_blocks: false,
    tail: None,
};
