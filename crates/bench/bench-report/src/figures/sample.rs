//! Points of figures, from wherever they come: measured, published, modelled.

use bench_record::spec::{self, Benchmark, EndpointKind};
use bench_record::{Point, Run};
use published::{Anomaly, Fabric, Measurement, Operation, Unit};

use super::catalogue::{Across, Figure, Panel, Quantity};
use super::model::Model;
use crate::paper;
use crate::settings;

/// A point of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Sample {
    pub(super) origin: Origin,
    pub(super) series: String,
    pub(super) operation: Operation,
    pub(super) x: f64,
    /// The value in the unit of the figure.
    pub(super) y: f64,
    /// The reason why a published figure is not what it seems.
    pub(super) anomaly: Option<Anomaly>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Measured,
    Published(Fabric),
    Modelled(Fabric),
}

/// The settings with which a point was measured.
struct Settings {
    size_bytes: u32,
    depth: u32,
    queue_pairs: u32,
    threads: u32,
}

impl Settings {
    /// Returns the place on the horizontal axis, if the point belongs to the plot. Load has no
    /// settings.
    fn x(&self, figure: &Figure, panel: Panel) -> Option<f64> {
        let is = |fixed: Option<u32>, own: u32| fixed.is_none_or(|fixed| fixed == own);
        let many = |axis, own: u32| figure.across == axis || own == 1;
        let (first, last) = figure.sizes_bytes;
        let belongs = (first..=last).contains(&self.size_bytes)
            && (is(panel.size_bytes, self.size_bytes)
            // Table C.5 of the thesis calls these 4096 B of InfiniBand.
            || (panel.size_bytes, self.size_bytes) == (Some(4096), 4000))
            && is(panel.depth, self.depth)
            && many(Across::QueuePairs, self.queue_pairs)
            && many(Across::Threads, self.threads);
        let x = match figure.across {
            Across::Size => self.size_bytes,
            Across::Depth => self.depth,
            Across::QueuePairs => self.queue_pairs,
            Across::Threads => self.threads,
            Across::Load => return None,
        };
        belongs.then_some(f64::from(x))
    }
}

/// Returns the published points, and what a model says of the same.
pub(super) fn published(
    figure: &Figure,
    panel: Panel,
    rows: &[Measurement],
    model: Option<&Model>,
) -> Vec<Sample> {
    let own = rows.iter().filter(|row| figure.tables.contains(&row.table));
    let mut samples = Vec::new();
    for row in own.filter(|row| figure.operations.contains(&row.operation)) {
        let sample = |origin, series: &str, x, value| {
            let anomaly = row.anomaly.filter(|_| matches!(origin, Origin::Published(_)));
            let (series, operation) = (series.to_owned(), row.operation);
            Some(Sample {
                origin,
                series,
                operation,
                x,
                y: in_quantity(row, value, figure)?,
                anomaly,
            })
        };
        let Some(x) = published_x(figure, panel, row, rows) else { continue };
        samples.extend(sample(
            Origin::Published(row.fabric),
            paper::name(row.fabric),
            x,
            row.value,
        ));
        if let Some((series, value)) = model.and_then(|model| model.of(row)) {
            samples.extend(sample(Origin::Modelled(row.fabric), series, x, value));
        }
    }
    samples
}

fn published_x(
    figure: &Figure,
    panel: Panel,
    row: &Measurement,
    rows: &[Measurement],
) -> Option<f64> {
    if figure.across != Across::Load {
        let &Measurement { size_bytes, depth, queue_pairs, threads, .. } = row;
        return Settings { size_bytes, depth, queue_pairs, threads }.x(figure, panel);
    }
    // Table C.8.1 has the load of both.
    let load = |r: &&Measurement| r.unit == Unit::LoadMbPerS && r.wait_ns == row.wait_ns;
    rows.iter().find(load).map(|load| load.value / 1e3)
}

fn in_quantity(row: &Measurement, value: f64, figure: &Figure) -> Option<f64> {
    let if_is = |unit: Unit| (row.unit == unit).then_some(value);
    match figure.quantity {
        Quantity::Mean => if_is(Unit::MeanUs),
        Quantity::Min => if_is(Unit::MinUs),
        Quantity::P50 => if_is(Unit::P50Us),
        Quantity::P99 => if_is(Unit::P99Us),
        Quantity::Goodput => row.gbit_per_s(value),
        Quantity::Rate => row.mmsg_per_s(value),
    }
}

/// Returns the measured points, with the command of each run that has a point here.
pub(super) fn measured(figure: &Figure, panel: Panel, runs: &[Run]) -> (Vec<Sample>, Vec<String>) {
    let (mut samples, mut commands) = (Vec::new(), Vec::new());
    for run in runs.iter().filter(|run| run.source != "published") {
        let before = samples.len();
        samples.extend(run.points.iter().filter_map(|point| of_point(figure, panel, run, point)));
        let is_new = !run.command.is_empty() && !commands.contains(&run.command);
        if samples.len() > before && is_new {
            commands.push(run.command.clone());
        }
    }
    (samples, commands)
}

/// Returns the sample of a measured point, if it belongs to the plot.
pub(super) fn of_point(figure: &Figure, panel: Panel, run: &Run, point: &Point) -> Option<Sample> {
    let operation = operation_of(run)?;
    // Runs that never left the memory of one machine do not stand beside adapters.
    let is_one = !run.is_in_memory()
        && figure.operations.contains(&operation)
        && is_of_kind(run, figure)
        && settings::is_usual_but(run, point, &SPECIAL);
    let sample = |x, y| Sample {
        origin: Origin::Measured,
        series: run.name.clone(),
        operation,
        x,
        y,
        anomaly: None,
    };
    let place = measured_x(figure, panel, run, point).zip(quantity_of(point, figure.quantity));
    place.filter(|_| is_one).map(|(x, y)| sample(x, y))
}

/// The settings in which a point of a figure may be unusual: those of its place, of its line, or of
/// the subject of the figure. Streams with lists, rare completions or large memory are benchmarks
/// of their own.
const SPECIAL: [&str; 10] = [
    settings::SIZE,
    settings::DEPTH,
    settings::OPERATION,
    settings::ENDPOINT,
    settings::RX_DEPTH,
    settings::THREADS,
    settings::ENDPOINTS,
    settings::WINDOW,
    settings::RATE,
    settings::LOAD,
];

fn is_of_kind(run: &Run, figure: &Figure) -> bool {
    let is_loaded = run.benchmark == Benchmark::SatLatency;
    !matches!(run.benchmark, Benchmark::OpenLoop | Benchmark::Collective)
        && !run.benchmark.is_workload()
        && is_loaded == (figure.across == Across::Load)
        && (!run.benchmark.has_depth() || run.method.flow.window == figure.window)
}

fn measured_x(figure: &Figure, panel: Panel, run: &Run, point: &Point) -> Option<f64> {
    if figure.across != Across::Load {
        return settings_of(run, point)?.x(figure, panel);
    }
    let load = point.load?;
    let is_meant = panel.size_bytes.is_none_or(|bytes| bytes as usize == point.size_bytes);
    is_meant.then_some(load.mb_per_s / 1e3)
}

fn settings_of(run: &Run, point: &Point) -> Option<Settings> {
    let whole = |value: usize| u32::try_from(value).ok();
    Some(Settings {
        size_bytes: whole(point.size_bytes)?,
        depth: whole(point.depth)?,
        queue_pairs: whole(run.method.endpoints)?,
        threads: whole(run.method.threads)?,
    })
}

fn operation_of(run: &Run) -> Option<Operation> {
    Some(match (run.operation, run.endpoint) {
        (spec::Operation::Send, EndpointKind::Dgram) => Operation::Datagram,
        (spec::Operation::Send, EndpointKind::Rdm) => Operation::Send,
        (spec::Operation::Tagged, _) => Operation::Tagged,
        (spec::Operation::Inject, _) => Operation::Inject,
        (spec::Operation::Read, _) => Operation::Read,
        (spec::Operation::Write, _) => Operation::Write,
        (
            spec::Operation::InjectWrite
            | spec::Operation::FetchAdd
            | spec::Operation::CompareSwap
            | spec::Operation::Add,
            _,
        ) => return None,
    })
}

fn quantity_of(point: &Point, quantity: Quantity) -> Option<f64> {
    let spread = point.latency.and_then(|latency| latency.distribution);
    match quantity {
        Quantity::Mean => point.latency.map(|latency| latency.mean_us),
        Quantity::Min => spread.map(|d| d.min_us),
        Quantity::P50 => spread.map(|d| d.p50_us),
        Quantity::P99 => spread.map(|d| d.p99_us),
        Quantity::Goodput => point.bandwidth.map(|b| b.gbit_per_s),
        Quantity::Rate => point.bandwidth.map(|b| b.mmsg_per_s),
    }
}
