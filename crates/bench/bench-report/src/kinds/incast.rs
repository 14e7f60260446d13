//! Flows that meet at one node.

use bench_record::{IdealFrom, Incast, Point, Run, Shares};
use report::{Table, significant};

use super::aspect::{GOODPUT, OPERATION_P99};
use super::cells::us;
use super::column::{Cell, Column, DEPTH, DOUBT, MAX, P50, P99, SIZE, SPREAD};
use super::quantity::{CALLS, TAIL};
use super::{Kind, column};

pub(crate) const KIND: Kind =
    Kind { table, quantities: &[CALLS, TAIL], aspects: &[GOODPUT, OPERATION_P99], ..Kind::NOTHING };

const COLUMNS: [Column; 26] = [
    SIZE,
    DEPTH,
    Column::new("chunk B", |p| Some(p.parameter.to_string())),
    Column::new("flows", |p| Some(incast(p)?.flows.to_string())),
    Column::new("Gbit/s", |p| Some(significant(p.bandwidth?.gbit_per_s))),
    burst("bursts", |p| Some(incast(p)?.bursts?.bursts.to_string())),
    burst("ideal µs", |p| Some(us(incast(p)?.bursts?.ideal_us))),
    P50.of(is_in_bursts),
    P99.of(is_in_bursts),
    MAX.of(is_in_bursts),
    burst("min/ideal", |p| ratio(incast(p)?.bursts?.min_to_ideal)),
    burst("mean/ideal", |p| ratio(incast(p)?.bursts?.mean_to_ideal)),
    burst("max/ideal", |p| ratio(incast(p)?.bursts?.max_to_ideal)),
    burst("worst/ideal", |p| ratio(incast(p)?.bursts?.worst_to_ideal)),
    burst("Jain", |p| ratio(incast(p)?.bursts?.jain)),
    share("interval ms", |p| Some(significant(shares(p)?.interval_ms))),
    share("fair Gbit/s", |p| Some(significant(shares(p)?.fair_gbps))),
    share("Jain", |p| ratio(shares(p)?.jain)),
    share("worst interval", |p| ratio(shares(p)?.jain_worst)),
    share("flow min/fair", |p| ratio(shares(p)?.flow_min_to_fair)),
    share("min/fair", |p| ratio(shares(p)?.min_to_fair)),
    share("max/fair", |p| ratio(shares(p)?.max_to_fair)),
    Column::new("receiver CPU s/GB", |p| Some(significant(p.work.as_ref()?.client_cpu_s_per_gb?))),
    Column::new("sender CPU s/GB", |p| Some(significant(p.work.as_ref()?.server_cpu_s_per_gb?))),
    SPREAD,
    DOUBT,
];

const fn burst(title: &'static str, cell: Cell) -> Column {
    Column::new(title, cell).of(is_in_bursts)
}

const fn share(title: &'static str, cell: Cell) -> Column {
    Column::new(title, cell).of(is_persistent)
}

fn is_persistent(run: &Run) -> bool {
    run.points.iter().any(|point| shares(point).is_some())
}

fn is_in_bursts(run: &Run) -> bool {
    !is_persistent(run)
}

#[expect(clippy::unnecessary_wraps, reason = "it is the last step of a cell")]
fn ratio(value: f64) -> Option<String> {
    Some(format!("{value:.3}"))
}

/// Returns a table with a row for each point.
fn table(run: &Run) -> Table {
    column::of_points(&caption(run), run, COLUMNS, |point| point.incast.is_some())
}

fn caption(run: &Run) -> String {
    let (servers, each) = (run.method.nodes.saturating_sub(1), run.method.endpoints);
    let first = run.points.iter().find_map(|point| point.incast.as_ref());
    let ideal = match first.map(|incast| incast.ideal_from) {
        _ if is_persistent(run) => "sending all the time".to_owned(),
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

fn shares(point: &Point) -> Option<&Shares> {
    incast(point)?.shares.as_ref()
}
