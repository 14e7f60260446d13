//! Tuples that go to the owners of their partitions.

use bench_record::{Point, Run, Shuffle};
use report::{Table, significant};

use super::aspect::{Aspect, CALL_CPU, GOODPUT};
use super::cells::{dash, doubt, spread};
use super::quantity::BYTES;
use super::{CsvColumn, Kind, Quantity};

pub(crate) const KIND: Kind = Kind {
    table,
    quantities: &[NODE_BYTES, TUPLE_TIME],
    aspects: &[TUPLES, TUPLE_CPU],
    csv: CSV,
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
const CSV: &[CsvColumn] = &[
    ("mtuples_per_s", |_, p| Some(p.shuffle?.mtuples_per_s.to_string())),
    ("node_gb_per_s", |_, p| Some(p.shuffle?.gb_per_s.to_string())),
    ("node_gb_per_s_min", |_, p| Some(p.shuffle?.gb_per_s_min.to_string())),
    ("node_gb_per_s_max", |_, p| Some(p.shuffle?.gb_per_s_max.to_string())),
    ("link_percent", |_, p| Some(p.shuffle?.link_percent?.to_string())),
    ("cpu_ns_per_tuple", |_, p| Some(p.shuffle?.cpu_ns_per_tuple.to_string())),
    ("fill", |_, p| Some(p.shuffle?.fill.to_string())),
    ("load_max_to_mean", |_, p| Some(p.shuffle?.load_max_to_mean.to_string())),
    ("time_max_to_mean", |_, p| Some(p.shuffle?.time_max_to_mean.to_string())),
];

/// A column: its head, and what it says of a point.
type Column = (&'static str, fn(&Point, &Shuffle) -> String);

const COLUMNS: [Column; 15] = [
    ("size B", |point, _| point.size_bytes.to_string()),
    ("depth", |point, _| point.depth.to_string()),
    ("buffer B", |point, _| point.parameter.to_string()),
    ("GB/s a node", |_, found| significant(found.gb_per_s)),
    ("slowest", |_, found| significant(found.gb_per_s_min)),
    ("busiest", |_, found| significant(found.gb_per_s_max)),
    ("Gbit/s a node", |_, found| significant(found.gb_per_s * 8.0)),
    ("busiest of link %", |_, found| found.link_percent.map_or_else(dash, significant)),
    ("M tuples/s", |_, found| significant(found.mtuples_per_s)),
    ("CPU ns/tuple", |_, found| significant(found.cpu_ns_per_tuple)),
    ("fill %", |_, found| significant(found.fill * 100.0)),
    ("load max/mean", |_, found| format!("{:.3}", found.load_max_to_mean)),
    ("time max/mean", |_, found| format!("{:.3}", found.time_max_to_mean)),
    ("spread %", |point, _| spread(point)),
    ("± %", |point, _| doubt(point)),
];

/// One row for each point.
fn table(run: &Run) -> Table {
    let titles: Vec<&str> = COLUMNS.iter().map(|(title, _)| *title).collect();
    let mut table = Table::new(&caption(run), &titles, 0);
    for (point, found) in run.points.iter().filter_map(|own| Some((own, own.shuffle.as_ref()?))) {
        table.push(COLUMNS.iter().map(|(_, text)| text(point, found)).collect());
    }
    table
}

fn caption(run: &Run) -> String {
    let (nodes, threads) = (run.method.nodes, run.method.threads);
    let keys = match run.method.work.map_or(0, |work| work.zipf_hundredths) {
        0 => "keys all alike".to_owned(),
        hundredths => format!("keys by Zipf's law, {:.2}", f64::from(hundredths) / 100.0),
    };
    format!("{}: shuffle between {nodes} nodes with {threads} threads each, {keys}", run.name)
}
