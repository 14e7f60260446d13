//! Connections that come and go.

use bench_record::{Connections, Point, Run};
use report::{Table, significant};

use super::aspect::TIMES;
use super::cells::{unusual, us};
use super::column::{Column, DOUBT, MAX, P50, P99, SPREAD};
use super::{Kind, Quantity, column};

pub(super) const KIND: Kind = Kind {
    table,
    quantities: &[CONNECTION_RATE, CONNECTION_TIME],
    aspects: TIMES,
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

const COLUMNS: [Column; 13] = [
    Column::new("connections/s", |p| Some(significant(own(p)?.per_s))),
    P50,
    P99,
    MAX,
    Column::new("open p50 µs", |p| part(p, "open")),
    Column::new("connect p50 µs", |p| part(p, "connect")),
    Column::new("first message p50 µs", |p| part(p, "first message")),
    Column::new("close p50 µs", |p| part(p, "close")),
    Column::new("CPU µs", |p| Some(us(own(p)?.client_cpu_us?))),
    Column::new("connections", |p| Some(own(p)?.count.to_string())),
    Column::new("late ms", |p| Some(format!("{:.1}", own(p)?.behind_ms?))),
    SPREAD,
    DOUBT,
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
    column::of_points(&caption, run, COLUMNS, |_| true)
}

const fn own(point: &Point) -> Option<&Connections> {
    point.connections.as_ref()
}

/// Renders the median of a part of the time.
fn part(point: &Point, name: &str) -> Option<String> {
    let found = own(point)?.parts.iter().find(|part| part.name == name)?;
    Some(us(found.distribution.p50_us))
}
