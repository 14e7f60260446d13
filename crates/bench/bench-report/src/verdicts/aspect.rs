//! What a verdict compares of a benchmark.

use bench_record::Point;
use bench_record::spec::Benchmark;
use bench_record::workload::Figures;
use report::{Better, Change};

use crate::compare::latency_us;

/// One figure of a point, and how a verdict speaks of it.
#[derive(Clone, Copy)]
pub(super) struct Aspect {
    /// Such as "at the median"; empty where there is nothing to add.
    pub(super) at: &'static str,
    pub(super) unit: &'static str,
    pub(super) better: Better,
    pub(super) of: fn(&Point) -> Option<f64>,
    /// Changes up to this many percent are noise.
    pub(super) noise_percent: f64,
    /// It is what the operation costs, not how fast it is.
    pub(super) is_cost: bool,
}

/// What two runs of one program differ by on a quiet machine, and what their tails do.
const NOISE_PERCENT: f64 = 5.0;
const TAIL_NOISE_PERCENT: f64 = 20.0;

const MEDIAN: Aspect = Aspect {
    at: "at the median",
    unit: "µs",
    better: Better::Less,
    of: latency_us,
    noise_percent: NOISE_PERCENT,
    is_cost: false,
};
const P99: Aspect = Aspect {
    at: "at p99",
    of: |point| point.latency?.distribution.map(|times| times.p99_us),
    noise_percent: TAIL_NOISE_PERCENT,
    ..MEDIAN
};
const RESPONSE: Aspect =
    Aspect { of: |point| point.open_loop?.response.map(|times| times.p50_us), ..MEDIAN };
const RESPONSE_P99: Aspect =
    Aspect { of: |point| point.open_loop?.response.map(|times| times.p99_us), ..P99 };
const OPERATION: Aspect = Aspect {
    of: |point| {
        let median = point.operation_time.map(|times| times.p50_us);
        median.or_else(|| point.collective.map(|own| own.mean_us))
    },
    ..MEDIAN
};
const OPERATION_P99: Aspect =
    Aspect { of: |point| point.operation_time.map(|times| times.p99_us), ..P99 };
const GOODPUT: Aspect = Aspect {
    at: "",
    unit: "Gbit/s",
    better: Better::More,
    of: |point| point.bandwidth.map(|found| found.gbit_per_s),
    ..MEDIAN
};
const RATE: Aspect = Aspect {
    unit: "M msg/s",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    ..GOODPUT
};
const ATOMIC_RATE: Aspect = Aspect { unit: "M ops/s", ..RATE };
const CALLS: Aspect = Aspect {
    unit: "M ops/s",
    of: |point| point.work.as_ref().map(|work| work.mcalls_per_s),
    ..GOODPUT
};
const CALL_CPU: Aspect = Aspect {
    at: "",
    unit: "CPU ns/op",
    better: Better::Less,
    of: |point| {
        let work = point.work.as_ref()?;
        Some(work.client_cpu_ns + work.server_cpu_ns).filter(|cpu_ns| *cpu_ns > 0.0)
    },
    is_cost: true,
    ..P99
};
const FILE_CPU: Aspect = Aspect {
    unit: "CPU s/GB",
    of: |point| {
        let work = point.work.as_ref()?;
        Some(work.client_cpu_s_per_gb? + work.server_cpu_s_per_gb?)
    },
    ..CALL_CPU
};
const TUPLES: Aspect = Aspect {
    unit: "M tuples/s",
    of: |point| point.shuffle.map(|found| found.mtuples_per_s),
    ..GOODPUT
};
const TUPLE_CPU: Aspect = Aspect {
    unit: "CPU ns/tuple",
    of: |point| point.shuffle.map(|found| found.cpu_ns_per_tuple),
    ..CALL_CPU
};

/// What workloads are chosen by, each by the first: how many operations, or how long one takes.
pub(super) const CALLS_AND_TAIL: &[Aspect] = &[CALLS, OPERATION_P99, CALL_CPU];
pub(super) const CALLS_ONE_BY_ONE: &[Aspect] = &[CALLS, OPERATION_P99];
pub(super) const TIMES: &[Aspect] = &[OPERATION, OPERATION_P99];
pub(super) const FILES: &[Aspect] = &[GOODPUT, OPERATION_P99, FILE_CPU];
pub(super) const FLOWS: &[Aspect] = &[GOODPUT, OPERATION_P99];
pub(super) const TUPLES_MOVED: &[Aspect] = &[TUPLES, TUPLE_CPU];

/// What is compared of a benchmark: first that by which its blocks are compared.
pub(super) const fn of(benchmark: Benchmark) -> &'static [Aspect] {
    match benchmark.about().figures {
        Figures::RoundTrips => &[MEDIAN, P99],
        Figures::Responses => &[RESPONSE, RESPONSE_P99],
        Figures::Stream => &[GOODPUT],
        Figures::Atomics => &[ATOMIC_RATE, OPERATION_P99],
        Figures::Collective | Figures::Connections => TIMES,
        Figures::Files => FILES,
        Figures::Incast => FLOWS,
        Figures::Shuffle => TUPLES_MOVED,
        Figures::Calls | Figures::Lookups | Figures::Records => CALLS_AND_TAIL,
    }
}

/// What is compared of small messages in a stream.
pub(super) const fn of_small() -> &'static [Aspect] {
    &[RATE]
}

impl Aspect {
    /// The figures of the blocks; empty where it is not what blocks were kept of.
    pub(super) fn blocks(&self, point: &Point) -> Vec<f64> {
        let scale = (self.of)(point).zip(point.figure()).map(|(own, figure)| own / figure);
        match scale.filter(|scale| scale.is_finite() && *scale > 0.0) {
            Some(scale) => point.blocks.iter().map(|block| block * scale).collect(),
            None => Vec::new(),
        }
    }

    /// Which of two figures is better; the greater one is.
    pub(super) fn compare(&self, one: f64, other: f64) -> std::cmp::Ordering {
        match self.better {
            Better::More => one.total_cmp(&other),
            Better::Less => other.total_cmp(&one),
        }
    }

    /// Whether one point is better than another by more than noise.
    pub(super) fn is_clearly_better(&self, one: &Point, other: &Point) -> bool {
        let values = (self.of)(other).zip((self.of)(one));
        values.is_some_and(|(base, new)| {
            Change::of(base, new, self.better, self.noise_percent, None) == Change::Improved
        })
    }

    /// Such as "lower is better".
    pub(super) const fn better_word(&self) -> &'static str {
        match self.better {
            Better::Less => "lower is better",
            Better::More => "higher is better",
        }
    }
}
