//! Flows that meet at one node.

use bench_record::{IdealFrom, Incast, Point, Run};
use report::{Table, significant};

use super::aspect::{GOODPUT, OPERATION_P99};
use super::cells::{dash, doubt, spread, us};
use super::quantity::{CALLS, TAIL};
use super::{CsvColumn, Kind};

pub(crate) const KIND: Kind = Kind {
    table,
    quantities: &[CALLS, TAIL],
    aspects: &[GOODPUT, OPERATION_P99],
    csv: CSV,
    ..Kind::NOTHING
};

const CSV: &[CsvColumn] = &[
    ("flows", |_, p| Some(incast(p)?.flows.to_string())),
    ("ideal_gbps", |_, p| Some(incast(p)?.ideal_gbps.to_string())),
    ("ideal_us", |_, p| Some(incast(p)?.bursts?.ideal_us.to_string())),
    ("min_to_ideal", |_, p| Some(incast(p)?.bursts?.min_to_ideal.to_string())),
    ("mean_to_ideal", |_, p| Some(incast(p)?.bursts?.mean_to_ideal.to_string())),
    ("max_to_ideal", |_, p| Some(incast(p)?.bursts?.max_to_ideal.to_string())),
    ("worst_to_ideal", |_, p| Some(incast(p)?.bursts?.worst_to_ideal.to_string())),
    ("jain", |_, p| Some(jain(p)?.to_string())),
    ("fair_gbps", |_, p| Some(incast(p)?.shares.as_ref()?.fair_gbps.to_string())),
    ("jain_worst", |_, p| Some(incast(p)?.shares.as_ref()?.jain_worst.to_string())),
    ("min_to_fair", |_, p| Some(incast(p)?.shares.as_ref()?.min_to_fair.to_string())),
    ("max_to_fair", |_, p| Some(incast(p)?.shares.as_ref()?.max_to_fair.to_string())),
];

/// What one row is about.
struct IncastRow<'a> {
    point: &'a Point,
    incast: &'a Incast,
}

/// A column: its head, and what it says of a row.
type Column = (&'static str, fn(&IncastRow<'_>) -> String);

const WHERE: [Column; 5] = [
    ("size B", |row| row.point.size_bytes.to_string()),
    ("depth", |row| row.point.depth.to_string()),
    ("chunk B", |row| row.point.parameter.to_string()),
    ("flows", |row| row.incast.flows.to_string()),
    ("Gbit/s", |row| row.point.bandwidth.map_or_else(dash, |found| significant(found.gbit_per_s))),
];
const BURSTS: [Column; 10] = [
    ("bursts", |row| row.incast.bursts.map_or_else(dash, |found| found.bursts.to_string())),
    ("ideal µs", |row| row.incast.bursts.map_or_else(dash, |found| us(found.ideal_us))),
    ("p50 µs", |row| row.point.operation_time.map_or_else(dash, |times| us(times.p50_us))),
    ("p99 µs", |row| row.point.operation_time.map_or_else(dash, |times| us(times.p99_us))),
    ("max µs", |row| row.point.operation_time.map_or_else(dash, |times| us(times.max_us))),
    ("min/ideal", |row| row.incast.bursts.map_or_else(dash, |found| ratio(found.min_to_ideal))),
    ("mean/ideal", |row| row.incast.bursts.map_or_else(dash, |found| ratio(found.mean_to_ideal))),
    ("max/ideal", |row| row.incast.bursts.map_or_else(dash, |found| ratio(found.max_to_ideal))),
    ("worst/ideal", |row| row.incast.bursts.map_or_else(dash, |found| ratio(found.worst_to_ideal))),
    ("Jain", |row| row.incast.bursts.map_or_else(dash, |found| ratio(found.jain))),
];
const SHARES: [Column; 7] = [
    ("interval ms", |row| share(row, |found| found.interval_ms, significant)),
    ("fair Gbit/s", |row| share(row, |found| found.fair_gbps, significant)),
    ("Jain", |row| share(row, |found| found.jain, ratio)),
    ("worst interval", |row| share(row, |found| found.jain_worst, ratio)),
    ("flow min/fair", |row| share(row, |found| found.flow_min_to_fair, ratio)),
    ("min/fair", |row| share(row, |found| found.min_to_fair, ratio)),
    ("max/fair", |row| share(row, |found| found.max_to_fair, ratio)),
];
const COST: [Column; 4] = [
    ("receiver CPU s/GB", |row| cost(row, |work| work.client_cpu_s_per_gb)),
    ("sender CPU s/GB", |row| cost(row, |work| work.server_cpu_s_per_gb)),
    ("spread %", |row| spread(row.point)),
    ("± %", |row| doubt(row.point)),
];

fn ratio(value: f64) -> String {
    format!("{value:.3}")
}

fn share(
    row: &IncastRow<'_>,
    of: fn(&bench_record::Shares) -> f64,
    text: fn(f64) -> String,
) -> String {
    row.incast.shares.as_ref().map_or_else(dash, |found| text(of(found)))
}

fn cost(row: &IncastRow<'_>, of: fn(&bench_record::Work) -> Option<f64>) -> String {
    row.point.work.as_ref().and_then(of).map_or_else(dash, significant)
}

/// One row for each point.
fn table(run: &Run) -> Table {
    let found: Vec<IncastRow<'_>> = run
        .points
        .iter()
        .filter_map(|point| Some(IncastRow { point, incast: point.incast.as_ref()? }))
        .collect();
    let is_persistent = found.iter().any(|row| row.incast.shares.is_some());
    let mut columns = WHERE.to_vec();
    if is_persistent {
        columns.extend(SHARES);
    } else {
        columns.extend(BURSTS);
    }
    columns.extend(COST);
    let titles: Vec<&str> = columns.iter().map(|(title, _)| *title).collect();
    let mut table = Table::new(&caption(run, is_persistent), &titles, 0);
    for row in &found {
        table.push(columns.iter().map(|(_, text)| text(row)).collect());
    }
    table
}

fn caption(run: &Run, is_persistent: bool) -> String {
    let (servers, each) = (run.method.nodes.saturating_sub(1), run.method.endpoints);
    let first = run.points.iter().find_map(|point| point.incast.as_ref());
    let ideal = match first.map(|incast| incast.ideal_from) {
        _ if is_persistent => "sending all the time".to_owned(),
        Some(IdealFrom::Link) => {
            let gbps = first.map_or(0.0, |incast| incast.ideal_gbps);
            format!("bursts, ideal: a link of {} Gbit/s", significant(gbps))
        }
        _ => "bursts, ideal: all bytes by one flow alone".to_owned(),
    };
    format!("{}: incast of {servers} servers with {each} flows each, {ideal}", run.name)
}

const fn incast(point: &Point) -> Option<&Incast> {
    point.incast.as_ref()
}

fn jain(point: &Point) -> Option<f64> {
    let incast = incast(point)?;
    incast.bursts.map(|own| own.jain).or_else(|| Some(incast.shares.as_ref()?.jain))
}
