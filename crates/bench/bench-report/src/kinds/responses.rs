//! Responses to requests that come by the clock.

use bench_record::Run;
use report::Table;

use super::aspect::{Aspect, MEDIAN, P99};
use super::cells::us;
use super::column::{Column, DOUBT, LOST, SIZE};
use super::{Kind, Quantity, column};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[RESPONSE, RESPONSE_TAIL],
    aspects: &[MEDIAN_RESPONSE, P99_RESPONSE],
    ..Kind::NOTHING
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
const MEDIAN_RESPONSE: Aspect =
    Aspect { of: |point| point.open_loop?.response.map(|times| times.p50_us), ..MEDIAN };
const P99_RESPONSE: Aspect =
    Aspect { of: |point| point.open_loop?.response.map(|times| times.p99_us), ..P99 };

const COLUMNS: [Column; 12] = [
    SIZE,
    Column::new("offered/s", |p| Some(format!("{:.0}", p.open_loop?.offered_per_s))),
    Column::new("answered/s", |p| Some(format!("{:.0}", p.open_loop?.answered_per_s))),
    Column::new("unposted", |p| Some(p.open_loop?.unposted.to_string())),
    Column::new("response p50 µs", |p| Some(us(p.open_loop?.response?.p50_us))),
    Column::new("p99 µs", |p| Some(us(p.open_loop?.response?.p99_us))),
    Column::new("p99.9 µs", |p| Some(us(p.open_loop?.response?.p999_us?))),
    Column::new("max µs", |p| Some(us(p.open_loop?.response?.max_us))),
    Column::new("service p50 µs", |p| Some(us(p.open_loop?.service?.p50_us))),
    Column::new("p99 µs", |p| Some(us(p.open_loop?.service?.p99_us))),
    LOST,
    DOUBT,
];

/// Returns the table of response times, and of the service times that a closed loop would have
/// shown.
fn table(run: &Run) -> Table {
    let arrivals = run.points.iter().find_map(|p| p.open_loop).map(|found| found.arrivals);
    let arrivals = arrivals.map_or_else(String::new, |a| format!("{a:?}").to_lowercase());
    let caption = format!(
        "{}: whole round trips, open loop, {arrivals} arrivals ({})",
        run.name,
        run.operation.name()
    );
    column::of_points(&caption, run, COLUMNS, |point| point.open_loop.is_some())
}
