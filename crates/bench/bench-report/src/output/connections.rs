//! The table of connections.

use bench_record::{Connections, Point, Run};
use report::{Table, significant};

use super::{dash, doubt, spread, unusual, us};

/// A column: its head, and what it says of a point.
type Column = (&'static str, fn(&Point) -> String);

const COLUMNS: [Column; 13] = [
    ("connections/s", |point| of(point, |own| Some(significant(own.per_s)))),
    ("p50 µs", |point| point.operation_time.map_or_else(dash, |times| us(times.p50_us))),
    ("p99 µs", |point| point.operation_time.map_or_else(dash, |times| us(times.p99_us))),
    ("max µs", |point| point.operation_time.map_or_else(dash, |times| us(times.max_us))),
    ("open p50 µs", |point| part(point, "open")),
    ("connect p50 µs", |point| part(point, "connect")),
    ("first message p50 µs", |point| part(point, "first message")),
    ("close p50 µs", |point| part(point, "close")),
    ("CPU µs", |point| of(point, |own| Some(us(own.client_cpu_us)))),
    ("connections", |point| of(point, |own| Some(own.count.to_string()))),
    ("late ms", |point| of(point, |own| own.behind_ms.map(|ms| format!("{ms:.1}")))),
    ("spread %", spread),
    ("± %", doubt),
];

pub(super) fn table(run: &Run) -> Table {
    let mut caption =
        format!("{}: connections, from opening until the first answer is there", run.name);
    unusual(run).iter().for_each(|words| caption += &format!(", {words}"));
    let mut table = Table::new(&caption, &COLUMNS.map(|(title, _)| title), 0);
    for point in &run.points {
        table.push(COLUMNS.map(|(_, of)| of(point)).to_vec());
    }
    table
}

fn of(point: &Point, what: fn(&Connections) -> Option<String>) -> String {
    point.connections.as_ref().and_then(what).unwrap_or_else(dash)
}

/// The median of a part of the time.
fn part(point: &Point, name: &str) -> String {
    let parts = point.connections.as_ref().map(|own| own.parts.iter());
    let found = parts.into_iter().flatten().find(|part| part.name == name);
    found.map_or_else(dash, |part| us(part.distribution.p50_us))
}
