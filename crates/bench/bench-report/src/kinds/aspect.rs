//! A figure of points, as verdicts compare it.

use bench_record::Point;
use report::{Better, Change};

/// A figure of a point, and the words in which a verdict speaks of it.
#[derive(Clone, Copy)]
pub(crate) struct Aspect {
    /// For example "at the median"; empty if there is nothing to add.
    pub(crate) at: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) better: Better,
    pub(crate) of: fn(&Point) -> Option<f64>,
    /// Changes up to this many percent are noise.
    pub(crate) noise_percent: f64,
    /// Whether the figure is the cost of an operation, not its speed.
    pub(crate) is_cost: bool,
    /// Whether the figure is the p99 of times, whose blocks are kept apart.
    pub(crate) is_tail: bool,
}

/// The noise of figures in percent: two runs of one program differ by as much on a quiet machine.
const NOISE_PERCENT: f64 = 5.0;
/// The noise of the tails of figures in percent.
const TAIL_NOISE_PERCENT: f64 = 20.0;

pub(super) const MEDIAN: Aspect = Aspect {
    at: "at the median",
    unit: "µs",
    better: Better::Less,
    of: |point| point.latency.map(|found| found.middle_us()),
    noise_percent: NOISE_PERCENT,
    is_cost: false,
    is_tail: false,
};

pub(super) const P99: Aspect = Aspect {
    at: "at p99",
    of: |point| point.latency?.distribution.map(|times| times.p99_us),
    noise_percent: TAIL_NOISE_PERCENT,
    is_tail: true,
    ..MEDIAN
};

pub(super) const OPERATION: Aspect = Aspect {
    of: |point| {
        let median = point.operation_time.map(|times| times.p50_us);
        median.or_else(|| point.collective.map(|own| own.mean_us))
    },
    ..MEDIAN
};

pub(super) const OPERATION_P99: Aspect =
    Aspect { of: |point| point.operation_time.map(|times| times.p99_us), ..P99 };

pub(super) const GOODPUT: Aspect = Aspect {
    at: "",
    unit: "Gbit/s",
    better: Better::More,
    of: |point| point.bandwidth.map(|found| found.gbit_per_s),
    ..MEDIAN
};

pub(super) const RATE: Aspect = Aspect {
    unit: "M msg/s",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    ..GOODPUT
};

pub(super) const CALL_CPU: Aspect = Aspect {
    at: "",
    unit: "CPU ns/op",
    better: Better::Less,
    of: |point| {
        let work = point.work.as_ref()?;
        Some(work.cpu_ns()).filter(|cpu_ns| *cpu_ns > 0.0)
    },
    is_cost: true,
    is_tail: false,
    ..P99
};

/// The aspects of operations whose times count: how long one takes.
pub(crate) const TIMES: &[Aspect] = &[OPERATION, OPERATION_P99];

impl Aspect {
    /// Returns the figures of the blocks; empty if blocks were kept of another figure.
    pub(crate) fn blocks(&self, point: &Point) -> Vec<f64> {
        if self.is_tail {
            return point.p99_blocks.clone();
        }
        // By the clock, blocks are of the requested rate.
        if point.work.as_ref().is_some_and(|work| work.arrivals.is_some()) {
            return Vec::new();
        }
        let scale = (self.of)(point).zip(point.figure()).map(|(own, figure)| own / figure);
        match scale.filter(|scale| scale.is_finite() && *scale > 0.0) {
            Some(scale) => point.blocks.iter().map(|block| block * scale).collect(),
            None => Vec::new(),
        }
    }

    /// Compares two figures; the better one is the greater.
    pub(crate) fn compare(&self, one: f64, other: f64) -> std::cmp::Ordering {
        match self.better {
            Better::More => one.total_cmp(&other),
            Better::Less => other.total_cmp(&one),
        }
    }

    /// Returns whether one point is better than another by more than noise.
    pub(crate) fn is_clearly_better(&self, one: &Point, other: &Point) -> bool {
        let values = (self.of)(other).zip((self.of)(one));
        values.is_some_and(|(base, new)| {
            Change::of(base, new, self.better, self.noise_percent, None) == Change::Improved
        })
    }

    /// Returns the words for the better direction, such as "lower is better".
    pub(crate) const fn better_word(&self) -> &'static str {
        match self.better {
            Better::Less => "lower is better",
            Better::More => "higher is better",
        }
    }
}
