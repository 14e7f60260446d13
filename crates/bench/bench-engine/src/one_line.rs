//! The figures of a point in one line, printed while other points are still being measured.

use bench_record::{Distribution, Point};

/// The kinds of figures, in the order in which they are tried. Each returns the text behind the
/// point's name; `None` if the point is of another kind.
const KINDS: [fn(&Point) -> Option<String>; 9] =
    [incast, shuffle, calls, connections, matrix, atomics, latency, stream, open_loop];

/// Returns the line for a point; `name` is the name of the fabric.
pub(crate) fn of(name: &str, point: &Point) -> String {
    let mut what = name.to_owned();
    if point.connections.is_none() {
        what += &format!(" {} B", point.size_bytes);
    }
    if !point.order.is_any() {
        what += &format!(", order {}", point.order.name());
    }
    let found = KINDS.iter().find_map(|kind| kind(point));
    what + &found
        .or_else(|| operation(point))
        .unwrap_or_else(|| ": nothing was measured".to_owned())
}

fn incast(point: &Point) -> Option<String> {
    let (incast, found) = (point.incast.as_ref()?, point.bandwidth?);
    let slowest = incast.bursts.map(|own| format!(", max/ideal {:.2}", own.max_to_ideal));
    let shares = incast.shares.as_ref().map(|own| format!(", Jain {:.3}", own.jain));
    let more = slowest.or(shares).unwrap_or_default();
    Some(format!(", {} flows: {:.2} Gbit/s{more}", incast.flows, found.gbit_per_s))
}

fn shuffle(point: &Point) -> Option<String> {
    let (shuffle, found) = (point.shuffle.as_ref()?, point.bandwidth?);
    Some(format!(
        " in {} B depth {}: {:.2} Gbit/s a node, {:.3} M tuples/s",
        point.parameter, point.depth, found.gbit_per_s, shuffle.mtuples_per_s
    ))
}

fn calls(point: &Point) -> Option<String> {
    let work = point.work.as_ref()?;
    let own = if point.parameter > 0 { format!(" x {}", point.parameter) } else { String::new() };
    let tail = point
        .p99_from_due_us()
        .map(|p99_us| format!(" of {} due, p99 {p99_us:.2} µs", point.rate_per_s));
    let (depth, rate) = (point.depth, work.mcalls_per_s);
    Some(format!("{own} depth {depth}: {rate:.3} M/s{}", tail.unwrap_or_default()))
}

fn connections(point: &Point) -> Option<String> {
    let connections = point.connections.as_ref()?;
    let time = point.operation_time.map(|times| format!(", p50 {:.0} µs", times.p50_us));
    Some(format!(": {:.0} /s{}", connections.per_s, time.unwrap_or_default()))
}

fn matrix(point: &Point) -> Option<String> {
    let (matrix, slowest, narrowest) = (point.matrix.as_ref()?, point.latency?, point.bandwidth?);
    Some(format!(
        ": {} pairs, p50 up to {:.2} µs, {:.2} Gbit/s or more",
        matrix.pairs.len(),
        slowest.middle_us(),
        narrowest.gbit_per_s
    ))
}

fn atomics(point: &Point) -> Option<String> {
    let (_, found) = (point.atomics?, point.bandwidth?);
    let time = point.operation_time.map(|times| format!(", {}", median(times)));
    let (depth, rate) = (point.depth, found.mmsg_per_s);
    Some(format!(" depth {depth}: {rate:.3} M op/s{}", time.unwrap_or_default()))
}

fn latency(point: &Point) -> Option<String> {
    let latency = point.latency?;
    let middle = latency.distribution.map(median);
    Some(format!(": {}", middle.unwrap_or_else(|| mean(latency.mean_us))))
}

fn stream(point: &Point) -> Option<String> {
    let found = point.bandwidth?;
    let (depth, rate) = (point.depth, found.mmsg_per_s);
    Some(format!(" depth {depth}: {:.2} Gbit/s, {rate:.3} M msg/s", found.gbit_per_s))
}

fn open_loop(point: &Point) -> Option<String> {
    let found = point.open_loop?;
    let times = match found.response {
        Some(times) => format!("response {}, p99 {:.2} µs", median(times), times.p99_us),
        None => "no request was answered".to_owned(),
    };
    Some(format!(", {:.0} requests/s: {times}", found.offered_per_s))
}

/// Returns the text for a point that was timed as a whole and is of no kind above.
fn operation(point: &Point) -> Option<String> {
    let of_all = point.collective.map(|own| own.mean_us).or(point.operation_mean_us);
    let found = point.operation_time.map(median).or_else(|| of_all.map(mean))?;
    Some(format!(": {found}"))
}

fn median(times: Distribution) -> String {
    format!("p50 {:.2} µs", times.p50_us)
}

fn mean(us: f64) -> String {
    format!("mean {us:.2} µs")
}

#[cfg(test)]
mod tests {
    use bench_record::{Bandwidth, Latency};

    use super::*;

    #[test]
    fn a_mean_is_called_a_mean() {
        let latency = |distribution| {
            let found = Latency { round_trips: Some(8), mean_us: 2.0, distribution };
            of("efa", &Point { latency: Some(found), ..Point::new(64, 1) })
        };
        assert_eq!(latency(None), "efa 64 B: mean 2.00 µs");
        let times = Distribution { p50_us: 1.5, ..Distribution::default() };
        assert_eq!(latency(Some(times)), "efa 64 B: p50 1.50 µs");
        let mean = Point { operation_mean_us: Some(3.0), ..Point::new(8, 1) };
        assert_eq!(of("efa", &mean), "efa 8 B: mean 3.00 µs");
    }

    #[test]
    fn a_point_says_what_it_has() {
        let stream = Bandwidth { gbit_per_s: 12.0, mmsg_per_s: 0.2, ..Bandwidth::default() };
        let point = Point { bandwidth: Some(stream), ..Point::new(8192, 4) };
        assert_eq!(of("tcp", &point), "tcp 8192 B depth 4: 12.00 Gbit/s, 0.200 M msg/s");
        assert_eq!(of("tcp", &Point::new(8, 1)), "tcp 8 B: nothing was measured");
    }
}
