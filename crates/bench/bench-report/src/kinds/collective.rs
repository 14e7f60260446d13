//! Operations of all ranks.

use bench_record::{Point, Run};
use report::{Table, significant};

use super::aspect::TIMES;
use super::cells::{count, dash, doubt, spread, us};
use super::{CsvColumn, Kind, Quantity};

pub(super) const KIND: Kind =
    Kind { table, quantities: &[MEDIAN_TIME], aspects: TIMES, csv: CSV, ..Kind::NOTHING };

const MEDIAN_TIME: Quantity = Quantity {
    label: "median time",
    unit: "µs",
    better: "lower",
    meaning: "An operation of all ranks lasts as long as on the rank where it lasted longest. The median, or \
        the mean where that is all that is known.",
    of: |point| {
        let median = point.operation_time.map(|times| times.p50_us);
        median.or_else(|| point.collective.map(|own| own.mean_us))
    },
    has_blocks: true,
    tail: None,
};
const CSV: &[CsvColumn] = &[
    ("ranks", |_, p| Some(p.collective?.ranks.to_string())),
    ("bus_gbit_per_s", |_, p| Some(p.collective?.bus_gbit_per_s?.to_string())),
    ("overlap_percent", |_, p| Some(p.collective?.overlap_percent?.to_string())),
];

/// One row for each point.
fn table(run: &Run) -> Table {
    let ours = run.method.work.and_then(|work| work.collective());
    let how = ours.map_or_else(String::new, |own| format!(" by {}", own.algorithm_name()));
    // Others print the mean of all ranks.
    let whose =
        if run.source == "imported" { "mean of the ranks" } else { "times of the slowest rank" };
    let has_overlap =
        |point: &Point| point.collective.and_then(|own| own.overlap_percent).is_some();
    let has_overlap = run.points.iter().any(has_overlap);
    let what = if has_overlap { ", as much computing as it lasts alone included" } else { "" };
    let caption = format!("{}: {}{how}, {whose}{what}", run.name, run.test);
    let mut titles = vec![
        "size B",
        "ranks",
        "min µs",
        "p50 µs",
        "p90 µs",
        "p99 µs",
        "p99.9 µs",
        "max µs",
        "mean µs",
        "bus Gbit/s",
        "operations",
        "spread %",
        "± %",
    ];
    if has_overlap {
        titles.extend(["alone µs", "overlap %"]);
    }
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let Some(found) = point.collective else { continue };
        let d = point.operation_time;
        let or_dash = |value: Option<f64>, text: fn(f64) -> String| value.map_or_else(dash, text);
        let mut row = vec![
            point.size_bytes.to_string(),
            if found.ranks == 0 { dash() } else { found.ranks.to_string() },
            or_dash(d.map(|d| d.min_us), us),
            or_dash(d.map(|d| d.p50_us), us),
            or_dash(d.and_then(|d| d.p90_us), us),
            or_dash(d.map(|d| d.p99_us), us),
            or_dash(d.and_then(|d| d.p999_us), us),
            or_dash(d.map(|d| d.max_us), us),
            us(found.mean_us),
            or_dash(found.bus_gbit_per_s, significant),
            count(found.operations),
            spread(point),
            doubt(point),
        ];
        if has_overlap {
            let percent = |share: f64| format!("{share:.0}");
            row.extend([or_dash(found.alone_us, us), or_dash(found.overlap_percent, percent)]);
        }
        table.push(row);
    }
    table
}
