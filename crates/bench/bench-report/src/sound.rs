//! Checks of figures that others wrote, which may be impossible.

use bench_record::{Bandwidth, Distribution, Point};

/// The greatest possible figure: 30 years have fewer µs. Larger figures are mistakes.
const FIGURE_MAX: f64 = 1e15;
/// Above this number, `f64` does not represent all whole numbers.
pub(crate) const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Checks that no figure of a point is negative, beyond all bounds, or not a number.
///
/// # Errors
/// The first such figure, with its name.
pub(crate) fn check(point: &Point) -> Result<(), String> {
    if point.size_bytes as f64 > WHOLE_MAX {
        return Err(format!("a size of {} bytes", point.size_bytes));
    }
    let is_odd = |value: &f64| !(0.0..=FIGURE_MAX).contains(value);
    match figures(point).into_iter().find(|(_, value)| is_odd(value)) {
        Some((name, value)) => Err(format!("at {} bytes a {name} of {value}", point.size_bytes)),
        None => Ok(()),
    }
}

/// Returns the name of an operation's time that is zero, which is impossible.
pub(crate) fn zero_time(point: &Point) -> Option<&'static str> {
    let mut times = times(point).into_iter().filter(|(name, _)| matches!(*name, "mean" | "p50"));
    times.find(|(_, value)| *value == 0.0).map(|(name, _)| name)
}

type Figures = Vec<(&'static str, f64)>;

fn figures(point: &Point) -> Figures {
    let mut all = times(point);
    let ways = point.both_ways.map(|ways| [ways.to_server, ways.to_client]);
    let streams = point.bandwidth.into_iter().chain(point.load).chain(ways.into_iter().flatten());
    streams.for_each(|stream| all.extend(of_stream(stream)));
    let blocks = point.blocks.iter().chain(&point.p99_blocks);
    all.extend(blocks.map(|block| ("block", *block)));
    if let Some(found) = point.open_loop {
        all.extend([("rate", found.offered_per_s), ("rate", found.answered_per_s)]);
    }
    all.extend(point.work.as_ref().map(|work| ("rate", work.mcalls_per_s)));
    all.extend(point.connections.as_ref().map(|own| ("rate", own.per_s)));
    all
}

fn times(point: &Point) -> Figures {
    let mut all: Figures = Vec::new();
    all.extend(point.latency.map(|latency| ("mean", latency.mean_us)));
    all.extend(point.operation_mean_us.map(|mean_us| ("mean", mean_us)));
    all.extend(point.collective.map(|own| ("mean", own.mean_us)));
    let latency = point.latency.and_then(|latency| latency.distribution);
    let open = point.open_loop.map(|found| [found.response, found.service]);
    let spreads = [latency, point.operation_time].into_iter().chain(open.into_iter().flatten());
    spreads.flatten().for_each(|spread| all.extend(of_spread(spread)));
    all
}

fn of_stream(stream: Bandwidth) -> Figures {
    let Bandwidth { messages: _, seconds, mb_per_s, gbit_per_s, mmsg_per_s } = stream;
    let mut all = vec![("MB/s", mb_per_s), ("Gbit/s", gbit_per_s), ("rate", mmsg_per_s)];
    all.extend(seconds.map(|seconds| ("window", seconds)));
    all
}

fn of_spread(spread: Distribution) -> Figures {
    let Distribution { min_us, p50_us, p90_us, p99_us, p999_us, p9999_us, max_us } = spread;
    let mut all = vec![("min", min_us), ("p50", p50_us), ("p99", p99_us), ("max", max_us)];
    let known = [("p90", p90_us), ("p99.9", p999_us), ("p99.99", p9999_us)];
    all.extend(known.into_iter().filter_map(|(name, value)| Some((name, value?))));
    all
}
