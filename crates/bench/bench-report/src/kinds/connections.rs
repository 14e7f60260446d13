//! Connections that come and go.

use bench_record::{Connections, Point, Run};
use report::{Table, significant};

use super::aspect::TIMES;
use super::cells::{dash, doubt, spread, unusual, us};
use super::{CsvColumn, Kind, Quantity};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[CONNECTION_RATE, CONNECTION_TIME],
    aspects: TIMES,
    csv: CSV,
    ..Kind::NOTHING
};

const CONNECTION_RATE: Quantity = Quantity {
    label: "connections",
    unit: "/s",
    better: "higher",
    meaning: "Connections that were opened, used for one round trip and closed, one after the other, of all \
        threads.",
    of: |point| point.connections.as_ref().map(|own| own.per_s),
    has_blocks: false,
    tail: None,
};
const CONNECTION_TIME: Quantity = Quantity {
    label: "time of a connection",
    unit: "µs",
    better: "lower",
    meaning: "From opening an endpoint until the first answer over it is there: the median.",
    of: |point| point.operation_time.map(|times| times.p50_us),
    has_blocks: true,
    tail: Some(|point| point.operation_time.map(|times| times.p99_us)),
};
const CSV: &[CsvColumn] = &[
    ("connections", |_, p| Some(p.connections.as_ref()?.count.to_string())),
    ("connections_per_s", |_, p| Some(p.connections.as_ref()?.per_s.to_string())),
];

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
    ("CPU µs", |point| of(point, |own| own.client_cpu_us.map(us))),
    ("connections", |point| of(point, |own| Some(own.count.to_string()))),
    ("late ms", |point| of(point, |own| own.behind_ms.map(|ms| format!("{ms:.1}")))),
    ("spread %", spread),
    ("± %", doubt),
];

fn table(run: &Run) -> Table {
    let span = match &run.citation {
        // `cmtime, from an id to a connected queue pair`.
        Some(title) if run.source == "imported" => title.split_once(", ").map(|(_, span)| span),
        _ => None,
    };
    let span = span.unwrap_or("from opening until the first answer is there");
    let mut caption = format!("{}: connections, {span}", run.name);
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
