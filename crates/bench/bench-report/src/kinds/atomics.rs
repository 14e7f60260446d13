//! Atomics on memory of the peer.

use bench_record::Run;
use report::{Table, significant};

use super::aspect::{Aspect, OPERATION_P99, RATE};
use super::cells::unusual;
use super::column::{
    Column, DOUBT, KNOWN_DEPTH, MAX, MEAN, MIN, P50, P99, P999, SPREAD, has_means,
};
use super::{Kind, Quantity, column, counted};

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

const COLUMNS: [Column; 12] = [
    KNOWN_DEPTH,
    Column::new("M op/s", |p| Some(significant(p.bandwidth?.mmsg_per_s))),
    Column::new("operations", |p| Some(p.bandwidth?.messages?.to_string())),
    Column::new("checked", |p| Some(p.atomics?.checked.to_string())),
    MIN.of(has_times),
    P50.of(has_times),
    P99.of(has_times),
    P999.of(has_times),
    MAX.of(has_times),
    MEAN.of(has_means),
    SPREAD,
    DOUBT,
];

/// Returns whether some operations came one at a time.
fn has_times(run: &Run) -> bool {
    run.points.iter().any(|point| point.operation_time.is_some()) || has_means(run)
}

fn table(run: &Run) -> Table {
    let (name, operation) = (&run.name, run.operation.name());
    let mut caption = format!("{name}: atomics on 8 B of the peer's memory ({operation})");
    unusual(run).iter().for_each(|words| caption += &format!(", {words}"));
    column::of_points(&caption, run, COLUMNS.into_iter().chain(counted::COLUMNS), |_| true)
}
