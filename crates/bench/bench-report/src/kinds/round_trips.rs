//! Half round trips.

use bench_record::Run;
use report::{Table, significant};

use super::aspect::{MEDIAN, P99};
use super::cells::{above_0, count, dash, doubt, spread, us};
use super::{CsvColumn, Kind, Quantity, counted};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[HALF_ROUND_TRIP],
    aspects: &[MEDIAN, P99],
    csv: CSV,
    ..Kind::NOTHING
};

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
const CSV: &[CsvColumn] = &[
    ("round_trips", |_, p| above_0(p.latency?.round_trips?)),
    ("mean_us", |_, p| Some(p.latency?.mean_us.to_string())),
    ("min_us", |_, p| Some(p.latency?.distribution?.min_us.to_string())),
    ("p50_us", |_, p| Some(p.latency?.distribution?.p50_us.to_string())),
    ("p90_us", |_, p| Some(p.latency?.distribution?.p90_us?.to_string())),
    ("p99_us", |_, p| Some(p.latency?.distribution?.p99_us.to_string())),
    ("p999_us", |_, p| Some(p.latency?.distribution?.p999_us?.to_string())),
    ("p9999_us", |_, p| Some(p.latency?.distribution?.p9999_us?.to_string())),
    ("max_us", |_, p| Some(p.latency?.distribution?.max_us.to_string())),
    ("client_cpu_us", |_, p| Some(p.client_cpu_us?.to_string())),
    ("load_gbit_per_s", |_, p| Some(p.load?.gbit_per_s.to_string())),
];

fn table(run: &Run) -> Table {
    let mut caption =
        format!("{}: half round trip, ping-pong ({})", run.name, run.operation.name());
    if run.method.flow.events {
        caption += ", completions slept for";
    }
    let is_loaded = run.method.load_size_bytes > 0;
    if is_loaded {
        let (streams, size) = (run.method.threads - 1, run.method.load_size_bytes);
        caption += &format!(" beside {streams} streams of {size} B");
    }
    let mut titles = vec![
        "size B",
        "min µs",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "p99.99 µs",
        "max µs",
        "mean µs",
        "round trips",
        "lost",
        "spread %",
        "± %",
    ];
    let has_cpu = run.points.iter().any(|point| point.client_cpu_us.is_some());
    titles.extend(has_cpu.then_some("CPU µs"));
    if is_loaded {
        titles.extend(["load Gbit/s", "asked msg/s"]);
    }
    let has_counts = counted::titles(run, &mut titles);
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let latency = point.latency;
        let text = |value: Option<f64>| value.map_or_else(dash, us);
        let mut row = vec![point.size_bytes.to_string()];
        match latency.and_then(|latency| latency.distribution) {
            Some(d) => {
                let (min, p50, p99, max) = (d.min_us, d.p50_us, d.p99_us, d.max_us);
                let all =
                    [Some(min), Some(p50), d.p90_us, Some(p99), d.p999_us, d.p9999_us, Some(max)];
                row.extend(all.map(text));
            }
            None => row.extend(std::iter::repeat_n("-".to_owned(), 7)),
        }
        let trips = latency.and_then(|latency| latency.round_trips);
        row.extend([text(latency.map(|latency| latency.mean_us)), count(trips), count(point.lost)]);
        row.extend([spread(point), doubt(point)]);
        row.extend(has_cpu.then(|| text(point.client_cpu_us)));
        if is_loaded {
            row.push(point.load.map_or_else(|| "-".to_owned(), |l| significant(l.gbit_per_s)));
            row.push(match point.rate_per_s {
                0 => "-".to_owned(),
                rate => rate.to_string(),
            });
        }
        if has_counts {
            row.extend(counted::cells(point));
        }
        table.push(row);
    }
    table
}
