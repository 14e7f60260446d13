//! Tuples that go to the owners of their partitions.

use bench_record::Run;
use report::{Table, significant};

use super::aspect::{Aspect, CALL_CPU, GOODPUT};
use super::column::{Column, DEPTH, DOUBT, SIZE, SPREAD};
use super::quantity::BYTES;
use super::{Kind, Quantity, column};

pub(crate) const KIND: Kind = Kind {
    table,
    quantities: &[NODE_BYTES, TUPLE_TIME],
    aspects: &[TUPLES, TUPLE_CPU],
    ..Kind::NOTHING
};

const NODE_BYTES: Quantity = Quantity {
    label: "throughput of a node",
    meaning: "Bytes of tuples that a node got from others within its window, mean of the nodes; 10^9 to a \
        GB.",
    of: |point| point.shuffle.map(|found| found.gb_per_s),
    ..BYTES
};
const TUPLE_TIME: Quantity = Quantity {
    label: "processor time of a tuple",
    unit: "ns",
    better: "lower",
    meaning: "Of the measuring threads of all nodes, to make a tuple and to take it, polling included.",
    of: |point| point.shuffle.map(|found| found.cpu_ns_per_tuple),
    has_blocks: false,
    tail: None,
};
const TUPLES: Aspect = Aspect {
    unit: "M tuples/s",
    of: |point| point.shuffle.map(|found| found.mtuples_per_s),
    ..GOODPUT
};
const TUPLE_CPU: Aspect = Aspect {
    unit: "CPU ns/tuple",
    of: |point| point.shuffle.map(|found| found.cpu_ns_per_tuple),
    ..CALL_CPU
};

const COLUMNS: [Column; 15] = [
    SIZE,
    DEPTH,
    Column::new("buffer B", |p| Some(p.parameter.to_string())),
    Column::new("GB/s a node", |p| Some(significant(p.shuffle?.gb_per_s))),
    Column::new("slowest", |p| Some(significant(p.shuffle?.gb_per_s_min))),
    Column::new("busiest", |p| Some(significant(p.shuffle?.gb_per_s_max))),
    Column::new("Gbit/s a node", |p| Some(significant(p.shuffle?.gb_per_s * 8.0))),
    Column::new("busiest of link %", |p| Some(significant(p.shuffle?.link_percent?))),
    Column::new("M tuples/s", |p| Some(significant(p.shuffle?.mtuples_per_s))),
    Column::new("CPU ns/tuple", |p| Some(significant(p.shuffle?.cpu_ns_per_tuple))),
    Column::new("fill %", |p| Some(significant(p.shuffle?.fill * 100.0))),
    Column::new("load max/mean", |p| Some(format!("{:.3}", p.shuffle?.load_max_to_mean))),
    Column::new("time max/mean", |p| Some(format!("{:.3}", p.shuffle?.time_max_to_mean))),
    SPREAD,
    DOUBT,
];

/// Returns a table with a row for each point.
fn table(run: &Run) -> Table {
    column::of_points(&caption(run), run, COLUMNS, |point| point.shuffle.is_some())
}

fn caption(run: &Run) -> String {
    let (nodes, threads) = (run.method.nodes, run.method.threads);
    let keys = match run.method.work.map_or(0, |work| work.zipf_hundredths) {
        0 => "keys all alike".to_owned(),
        hundredths => format!("keys by Zipf's law, {:.2}", f64::from(hundredths) / 100.0),
    };
    format!("{}: shuffle between {nodes} nodes with {threads} threads each, {keys}", run.name)
}
