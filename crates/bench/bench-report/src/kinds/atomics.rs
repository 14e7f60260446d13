//! Atomics on memory of the peer.

use bench_record::{Point, Run};
use report::{Table, significant};

use super::aspect::{Aspect, OPERATION_P99, RATE};
use super::cells::{count, dash, doubt, spread, unusual, us};
use super::{Kind, Quantity, counted};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[ATOMIC_RATE, ATOMIC_TIME],
    aspects: &[ATOMICS_PER_S, OPERATION_P99],
    ..Kind::NOTHING
};

const ATOMIC_RATE: Quantity = Quantity {
    label: "rate",
    unit: "M op/s",
    better: "higher",
    meaning: "Atomic operations that completed at the initiator within the measured window, of all \
        threads.",
    of: |point| point.bandwidth.map(|found| found.mmsg_per_s),
    has_blocks: true,
    tail: None,
};
const ATOMIC_TIME: Quantity = Quantity {
    label: "time of an operation",
    unit: "µs",
    better: "lower",
    meaning: "From posting to completion, one at a time: the median, or the mean where that is all that is \
        known.",
    of: |point| point.operation_time.map(|times| times.p50_us).or(point.operation_mean_us),
    has_blocks: false,
    tail: Some(|point| point.operation_time.map(|times| times.p99_us)),
};
const ATOMICS_PER_S: Aspect = Aspect { unit: "M ops/s", ..RATE };

/// A column: its head, and what it says of a point.
type Column = (&'static str, fn(&Point) -> String);

const WHAT: [Column; 4] = [
    ("depth", |point| if point.depth == 0 { dash() } else { point.depth.to_string() }),
    ("M op/s", |point| point.bandwidth.map_or_else(dash, |found| significant(found.mmsg_per_s))),
    ("operations", |point| count(point.bandwidth.and_then(|found| found.messages))),
    ("checked", |point| count(point.atomics.map(|own| own.checked))),
];
/// Of operations that come one at a time.
const TIMES: [Column; 6] = [
    ("min µs", |point| point.operation_time.map_or_else(dash, |times| us(times.min_us))),
    ("p50 µs", |point| point.operation_time.map_or_else(dash, |times| us(times.p50_us))),
    ("p99 µs", |point| point.operation_time.map_or_else(dash, |times| us(times.p99_us))),
    ("p99.9 µs", |point| {
        point.operation_time.and_then(|times| times.p999_us).map_or_else(dash, us)
    }),
    ("max µs", |point| point.operation_time.map_or_else(dash, |times| us(times.max_us))),
    ("mean µs", |point| point.operation_mean_us.map_or_else(dash, us)),
];
const BLOCKS: [Column; 2] = [("spread %", spread), ("± %", doubt)];

fn table(run: &Run) -> Table {
    let (name, operation) = (&run.name, run.operation.name());
    let mut caption = format!("{name}: atomics on 8 B of the peer's memory ({operation})");
    unusual(run).iter().for_each(|words| caption += &format!(", {words}"));
    let has_times = |point: &Point| point.operation_time.is_some();
    let has_means = run.points.iter().any(|point| point.operation_mean_us.is_some());
    let times = match run.points.iter().any(has_times) || has_means {
        true => &TIMES[..TIMES.len() - usize::from(!has_means)],
        false => &[],
    };
    let columns: Vec<&Column> = WHAT.iter().chain(times).chain(&BLOCKS).collect();
    let mut titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let has_counts = counted::titles(run, &mut titles);
    let mut table = Table::new(&caption, &titles, 0);
    for point in &run.points {
        let mut row: Vec<String> = columns.iter().map(|(_, of)| of(point)).collect();
        if has_counts {
            row.extend(counted::cells(point));
        }
        table.push(row);
    }
    table
}
