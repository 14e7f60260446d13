//! The table of a shuffle.

use bench_record::{Point, Run, Shuffle};
use report::{Table, significant};

use super::{doubt, spread};

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

fn dash() -> String {
    "-".to_owned()
}

/// One row for each point.
pub(super) fn table(run: &Run) -> Table {
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
