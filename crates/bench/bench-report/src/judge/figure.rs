//! The figures of a point that can be compared or asserted on.

use bench_record::Point;
use report::{Better, middle};

/// A figure of a point. Times are in µs, goodput in Gbit/s, rates in million messages a second;
/// connections and answers are counted per second.
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
    Connections,
    Answered,
    Delivered,
    Lost,
}

/// A unit, and how many of our units it is.
type Unit = (&'static str, f64);

const TIMES: [Unit; 4] = [("us", 1.0), ("µs", 1.0), ("ns", 1e-3), ("ms", 1e3)];
const GOODPUTS: [Unit; 3] = [("Gbit/s", 1.0), ("Mbit/s", 1e-3), ("MB/s", 8e-3)];
const RATES: [Unit; 2] = [("Mmsg/s", 1.0), ("msg/s", 1e-6)];
const PER_SECOND: [Unit; 1] = [("/s", 1.0)];
const SHARES: [Unit; 1] = [("%", 1.0)];
const COUNTS: [Unit; 1] = [("", 1.0)];

/// The change in percent up to which differences are noise, whatever the blocks say: two runs of
/// the same program differ by as much on a quiet machine.
const NOISE_PERCENT: f64 = 5.0;
/// The noise in percent of figures that differ more: percentiles of the tail, and counts of one
/// window.
const ROUGH_NOISE_PERCENT: f64 = 20.0;

impl Figure {
    pub(crate) const ALL: [(&'static str, Self); 13] = [
        ("min", Self::Min),
        ("p50", Self::P50),
        ("p90", Self::P90),
        ("p99", Self::P99),
        ("p99.9", Self::P999),
        ("max", Self::Max),
        ("mean", Self::Mean),
        ("goodput", Self::Goodput),
        ("rate", Self::Rate),
        ("connections", Self::Connections),
        ("answered", Self::Answered),
        ("delivered", Self::Delivered),
        ("lost", Self::Lost),
    ];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(own, _)| *own == name).map(|(_, figure)| *figure)
    }

    pub(crate) fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, figure)| *figure == self).map_or("", |(name, _)| name)
    }

    /// Returns the units in which the figure can be given; the first is ours.
    pub(crate) const fn units(self) -> &'static [Unit] {
        match self {
            Self::Goodput => &GOODPUTS,
            Self::Rate => &RATES,
            Self::Connections | Self::Answered => &PER_SECOND,
            Self::Delivered => &SHARES,
            Self::Lost => &COUNTS,
            _ => &TIMES,
        }
    }

    /// Returns whether the figure is a time, which is above zero.
    pub(crate) fn is_time(self) -> bool {
        self.units() == TIMES
    }

    pub(crate) fn better(self) -> Better {
        if self.is_time() || self == Self::Lost { Better::Less } else { Better::More }
    }

    /// Returns the change in percent up to which differences are noise.
    pub(crate) const fn noise_percent(self) -> f64 {
        match self {
            Self::P99 | Self::Connections | Self::Answered => ROUGH_NOISE_PERCENT,
            _ => NOISE_PERCENT,
        }
    }

    /// Returns the figures that a comparison judges of two points: the middle and the tail of
    /// times, what was moved, and what of it arrived or was answered.
    pub(crate) fn judged(base: &Point, new: Option<&Point>) -> Vec<Self> {
        let middle = if Self::P50.of(base).is_some() { Self::P50 } else { Self::Mean };
        let moved = if base.bandwidth.is_some() { Self::Goodput } else { Self::Rate };
        let mut judged = vec![middle, Self::P99, moved, Self::Connections, Self::Answered];
        // On a fabric that loses nothing, there is nothing to say.
        let lost = |point: &Point| point.lost.filter(|_| Self::Delivered.of(point).is_some());
        let both = lost(base).zip(new.and_then(lost));
        judged.extend(both.filter(|(one, other)| one + other > 0).map(|_| Self::Delivered));
        judged
    }

    /// Returns the figure that a point's blocks are of: see [`Point::figure`].
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

    /// Returns the values of the figure in the blocks of a point; empty if none were kept.
    pub(crate) fn blocks(self, point: &Point) -> &[f64] {
        match self {
            Self::P99 => &point.p99_blocks,
            _ if self == Self::of_blocks(point) => &point.blocks,
            _ => &[],
        }
    }

    /// Returns the value that is compared: that of `point`, or the middle of its blocks if the
    /// point is the middle block by another figure.
    pub(crate) fn compared(self, point: &Point) -> Option<f64> {
        let of_tails = middle(&point.p99_blocks).filter(|_| self == Self::P99);
        of_tails.or_else(|| self.of(point))
    }

    /// Returns the value at `point`, if it was measured there. Times of open loops are those of
    /// responses.
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
            // By the clock, the rate is the requested one.
            Self::Connections => {
                let closed = point.connections.as_ref().filter(|own| own.arrivals.is_none());
                closed.map(|own| own.per_s)
            }
            Self::Answered => point.open_loop.map(|found| found.answered_per_s),
            Self::Delivered => delivered_percent(point),
            Self::Lost => point.lost.map(|lost| lost as f64),
        }
    }
}

/// Returns the messages that arrived, in percent of those and the lost ones. Losses are known of
/// all blocks together, arrivals of the middle one.
fn delivered_percent(point: &Point) -> Option<f64> {
    let lost = point.lost? as f64;
    let streamed = point.bandwidth.and_then(|found| found.messages);
    let counted = streamed.or_else(|| point.latency.and_then(|found| found.round_trips))?;
    let arrived = counted as f64 * point.blocks.len().max(1) as f64;
    (arrived + lost > 0.0).then(|| arrived * 100.0 / (arrived + lost))
}
