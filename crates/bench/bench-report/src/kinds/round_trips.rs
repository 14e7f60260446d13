//! Half round trips.

use bench_record::{Distribution, Point, Run};
use report::{Table, significant};

use super::aspect::{MEDIAN, P99};
use super::cells::{above_0, us};
use super::column::{Column, DOUBT, LOST, MEAN_LEAST, SIZE, SPREAD};
use super::{Kind, Quantity, column, counted};

pub(super) const KIND: Kind =
    Kind { table, quantities: &[HALF_ROUND_TRIP], aspects: &[MEDIAN, P99], ..Kind::NOTHING };

const HALF_ROUND_TRIP: Quantity = Quantity {
    label: "half round trip",
    unit: "µs",
    better: "lower",
    meaning: "Ping-pong with one message in flight: the median, or the mean where that is all that is \
        known.",
    of: |point| point.latency.map(|found| found.middle_us()),
    has_blocks: true,
    tail: Some(|point| point.latency?.distribution.map(|times| times.p99_us)),
};

const COLUMNS: [Column; 16] = [
    SIZE,
    Column::new("min µs", |p| Some(us(times(p)?.min_us))).least(13),
    Column::new("p50 µs", |p| Some(us(times(p)?.p50_us))),
    Column::new("p90 µs", |p| Some(us(times(p)?.p90_us?))).least(14),
    Column::new("p99 µs", |p| Some(us(times(p)?.p99_us))),
    Column::new("p99.9 µs", |p| Some(us(times(p)?.p999_us?))),
    Column::new("p99.99 µs", |p| Some(us(times(p)?.p9999_us?))).least(3),
    Column::new("max µs", |p| Some(us(times(p)?.max_us))),
    Column::new("mean µs", |p| Some(us(p.latency?.mean_us))).least(MEAN_LEAST),
    Column::new("round trips", |p| Some(p.latency?.round_trips?.to_string())).least(8),
    LOST,
    SPREAD,
    DOUBT,
    Column::new("CPU µs", |p| Some(us(p.client_cpu_us?)))
        .of(|run| run.points.iter().any(|point| point.client_cpu_us.is_some())),
    Column::new("load Gbit/s", |p| Some(significant(p.load?.gbit_per_s))).of(is_loaded),
    Column::new("asked msg/s", |p| above_0(p.rate_per_s)).of(is_loaded),
];

fn times(point: &Point) -> Option<Distribution> {
    point.latency?.distribution
}

const fn is_loaded(run: &Run) -> bool {
    run.method.load_size_bytes > 0
}

fn table(run: &Run) -> Table {
    let mut caption =
        format!("{}: half round trip, ping-pong ({})", run.name, run.operation.name());
    if run.method.flow.events {
        caption += ", completions slept for";
    }
    if is_loaded(run) {
        let (streams, size) = (run.method.threads - 1, run.method.load_size_bytes);
        caption += &format!(" beside {streams} streams of {size} B");
    }
    column::of_points(&caption, run, COLUMNS.into_iter().chain(counted::COLUMNS), |_| true)
}
