//! Operations of all ranks.

use bench_record::{Point, Run};
use report::{Table, significant};

use super::aspect::TIMES;
use super::cells::{known, us};
use super::column::{Column, DOUBT, MAX, MEAN_LEAST, MIN, P50, P90, P99, P999, SIZE, SPREAD};
use super::{Kind, Quantity, column};

pub(super) const KIND: Kind =
    Kind { table, quantities: &[MEDIAN_TIME], aspects: TIMES, ..Kind::NOTHING };

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

const COLUMNS: [Column; 15] = [
    SIZE,
    Column::new("ranks", |p| known(p.collective?.ranks)),
    MIN,
    P50,
    P90,
    P99,
    P999,
    MAX,
    Column::new("mean µs", |p| Some(us(p.collective?.mean_us))).least(MEAN_LEAST),
    Column::new("bus Gbit/s", |p| Some(significant(p.collective?.bus_gbit_per_s?))),
    Column::new("operations", |p| Some(p.collective?.operations?.to_string())),
    SPREAD,
    DOUBT,
    Column::new("alone µs", |p| Some(us(p.collective?.alone_us?))).of(has_overlap),
    Column::new("overlap %", |p| Some(format!("{:.0}", p.collective?.overlap_percent?)))
        .of(has_overlap),
];

fn has_overlap(run: &Run) -> bool {
    let overlap = |point: &Point| point.collective.and_then(|own| own.overlap_percent);
    run.points.iter().any(|point| overlap(point).is_some())
}

/// Returns a table with a row for each point.
fn table(run: &Run) -> Table {
    let ours = run.method.work.and_then(|work| work.collective());
    let how = ours.map_or_else(String::new, |own| format!(" by {}", own.algorithm_name()));
    // Other tools print the mean of all ranks.
    let whose =
        if run.source == "imported" { "mean of the ranks" } else { "times of the slowest rank" };
    let what = if has_overlap(run) { ", as much computing as it lasts alone included" } else { "" };
    let caption = format!("{}: {}{how}, {whose}{what}", run.name, run.test);
    column::of_points(&caption, run, COLUMNS, |point| point.collective.is_some())
}
