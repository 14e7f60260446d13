//! The figures of a point that can be compared or asserted on.

use bench_record::Point;
use report::Better;

/// One figure of a point. Times are in µs, goodput in Gbit/s, rates in million messages a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Figure {
    Min,
    P50,
    P90,
    P99,
    P999,
    Max,
    Mean,
    Goodput,
    Rate,
    Lost,
}

/// A unit and how many of ours it is.
type Unit = (&'static str, f64);

const TIMES: [Unit; 4] = [("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("ms", 1e3)];
const GOODPUTS: [Unit; 3] = [("Gbit/s", 1.0), ("Mbit/s", 1e-3), ("MB/s", 8e-3)];
const RATES: [Unit; 2] = [("Mmsg/s", 1.0), ("msg/s", 1e-6)];
const COUNTS: [Unit; 1] = [("", 1.0)];

impl Figure {
    pub(crate) const ALL: [(&'static str, Self); 10] = [
        ("min", Self::Min),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p99", Self::P99),
        ("p99.9", Self::P999),
        ("max", Self::Max),
        ("mean", Self::Mean),
        ("goodput", Self::Goodput),
        ("rate", Self::Rate),
        ("lost", Self::Lost),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, figure)| *figure)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, figure)| *figure == self).map_or("", |(name, _)| name)
    }

    /// Units it can be given in; the first is ours.
    pub(crate) const fn units(self) -> &'static [Unit] {
        match self {
            Self::Goodput => &GOODPUTS,
            Self::Rate => &RATES,
            Self::Lost => &COUNTS,
            _ => &TIMES,
        }
    }

    /// Whether it is a time, which is above zero.
    pub(crate) const fn is_time(self) -> bool {
        !matches!(self, Self::Goodput | Self::Rate | Self::Lost)
    }

    pub(crate) const fn better(self) -> Better {
        match self {
            Self::Goodput | Self::Rate => Better::More,
            _ => Better::Less,
        }
    }

    /// What a comparison judges of a point.
    pub(crate) fn judged(point: &Point) -> Vec<Self> {
        let middle = if Self::P50.of(point).is_some() { Self::P50 } else { Self::Mean };
        let moved = if point.bandwidth.is_some() { Self::Goodput } else { Self::Rate };
        vec![middle, Self::P99, moved]
    }

    /// Which figure a point's blocks are of: see [`Point::figure`].
    pub(crate) fn of_blocks(point: &Point) -> Self {
        let has_times = point.open_loop.is_some() || point.collective.is_some();
        match point.latency {
            Some(latency) if latency.distribution.is_none() => Self::Mean,
            Some(_) => Self::P50,
            None if has_times => Self::P50,
            None if point.bandwidth.is_some() => Self::Goodput,
            // Connections have nothing but times.
            None if point.work.is_none() && point.operation_time.is_some() => Self::P50,
            None => Self::Rate,
        }
    }

    /// Its value at `point`, if it was measured there. Times of open loops are those of responses.
    pub(crate) fn of(self, point: &Point) -> Option<f64> {
        let responses = point.open_loop.and_then(|found| found.response);
        let latency = point.latency.and_then(|latency| latency.distribution);
        let spread = latency.or(responses).or(point.operation_time);
        match self {
            Self::Min => spread.map(|d| d.min_us),
            Self::P50 => spread.map(|d| d.p50_us),
            Self::P90 => spread.and_then(|d| d.p90_us),
            Self::P99 => spread.map(|d| d.p99_us),
            Self::P999 => spread.and_then(|d| d.p999_us),
            Self::Max => spread.map(|d| d.max_us),
            Self::Mean => {
                let whole = point.collective.map(|collective| collective.mean_us);
                let half = point.latency.map(|latency| latency.mean_us);
                half.or(whole).or(point.operation_mean_us)
            }
            Self::Goodput => point.bandwidth.map(|b| b.gbit_per_s),
            Self::Rate => {
                let calls = point.work.as_ref().map(|work| work.mcalls_per_s);
                point.bandwidth.map(|b| b.mmsg_per_s).or(calls)
            }
            Self::Lost => point.lost.map(|lost| lost as f64),
        }
    }
}
