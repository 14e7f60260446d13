//! The client, which measures the points of a request, block after block.

use std::time::Duration;

use bench_record::failure::Failure;
use bench_record::spec::{JobSpec, Limit, Order, PointSpec};
use bench_record::{Point, Ramp, Run};
use report::Progress;

use crate::affinity;
use crate::host;
use crate::interrupt;
use crate::live::Live;
use crate::looks::{Looks, Pair};
use crate::measure::{Blocks, Until};
use crate::one_line;
use crate::ramp;
use crate::session::{BenchSession, Coordinates};
use crate::target::Target;

/// A request for measurements, as the user made it.
#[derive(Debug, Clone)]
pub struct MeasureRequest {
    /// The name that the reader of the result sees; empty: that of the provider.
    pub name: String,
    /// The name by which the user asked for the benchmark.
    pub test: String,
    /// The job that all sides open.
    pub job: JobSpec,
    /// The sizes of messages in bytes, measured one after the other.
    pub sizes: Vec<usize>,
    /// The numbers of operations in flight, measured one after the other.
    pub depths: Vec<usize>,
    /// The number of receives posted at the receiver; `None`: as many as the depth of each point.
    pub rx_depth: Option<usize>,
    /// The values of the workload's parameter; a single 0 for workloads without one.
    pub parameters: Vec<usize>,
    /// The numbers of messages per second of each thread; 0: as fast as it can.
    pub rates_per_s: Vec<u64>,
    /// The condition that ends a block.
    pub limit: Limit,
    /// The time before a block that does not count, in ms.
    pub warmup_ms: u64,
    /// True if the contents of messages are checked.
    pub validate: bool,
    /// True if all times are kept, not only their percentiles.
    pub histograms: bool,
    /// True if the counters of adapters are read.
    pub counters: bool,
    /// The treatments of the order of messages, one after the other.
    pub orders: Vec<Order>,
    /// The interval at which the course of an open window is reported; `None`: it is not reported.
    pub watch: Option<Duration>,
    /// The condition up to which the rate of each place is raised; `None`: only the given rates are
    /// measured.
    pub ramp: Option<Ramp>,
    /// The condition that ends the repetitions of a point in a session.
    pub until: Until,
    /// The number of sessions, one after the other.
    pub runs: usize,
    /// The processors of the client's measuring threads, in turn; empty: any.
    pub cpus: Vec<usize>,
    /// The NUMA node of the client's measuring threads and their memory; `None`: any.
    pub numa: Option<usize>,
}

impl MeasureRequest {
    /// Returns the number of measurements that are certain: points times blocks times sessions. For
    /// a ramp it is an estimate.
    pub fn measurements(&self) -> usize {
        let steps = if self.ramp.is_some() { ramp::STEPS_USUAL } else { 1 };
        self.places().len() * self.ways().len() * self.until.blocks() * self.runs * steps
    }

    /// Returns all combinations of a rate and an order, in which each place is measured.
    fn ways(&self) -> Vec<(u64, Order)> {
        let orders = |&rate| self.orders.iter().map(move |&order| (rate, order));
        self.rates_per_s.iter().flat_map(orders).collect()
    }

    /// Returns all combinations of a size, a depth and a parameter.
    fn places(&self) -> Vec<Coordinates> {
        let depths = |&size| self.depths.iter().map(move |&depth| (size, depth));
        let parameters = |(size, depth)| self.parameters.iter().map(move |&own| (size, depth, own));
        self.sizes.iter().flat_map(depths).flat_map(parameters).collect()
    }
}

/// A run, and the reason why it ended early if it did.
#[derive(Debug)]
pub struct Outcome {
    /// The run that was measured.
    pub run: Run,
    /// The warnings that limit the meaning of the run's figures.
    pub warnings: Vec<String>,
    /// The reason why the run ended early, if it did.
    pub failure: Option<Failure>,
}

/// Measures all points of a request, in as many sessions as it asks for. An error means that
/// nothing was measured; a later failure is in the outcome, beside the points that were done.
pub fn run(
    targets: &[Target],
    request: &MeasureRequest,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let (mut runs, mut warnings, mut failure) = (Vec::new(), Vec::new(), None);
    for _ in 0..request.runs {
        match session(targets, request, progress) {
            Ok(outcome) => {
                runs.push(outcome.run);
                let more = outcome.warnings.into_iter();
                let new: Vec<String> = more.filter(|text| !warnings.contains(text)).collect();
                warnings.extend(new);
                failure = outcome.failure;
            }
            Err(error) => failure = Some(error),
        }
        if failure.is_some() {
            break;
        }
    }
    match (Run::of_sessions(runs), failure) {
        (Some(mut run), failure) => {
            if let Some(error) = &failure {
                run.complete = false;
                run.error = Some(error.to_string());
            }
            Ok(Outcome { run, warnings, failure })
        }
        (None, failure) => {
            Err(failure.unwrap_or_else(|| Failure::Usage("--runs 0: give 1 or more".to_owned())))
        }
    }
}

/// Measures all points of a request once.
fn session(
    targets: &[Target],
    request: &MeasureRequest,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let crowd = crowd(targets, &request.job).or_else(|| shared_processor(targets, request));
    let mut request = request.clone();
    request.job.crowded = crowd.is_some();
    let request = &request;
    let live = request.watch.map(|every| Live { every, voice: progress.voice() });
    let mut session = BenchSession::open(targets, request, live.as_ref())?;
    let mut warnings: Vec<String> = crowd.into_iter().collect();
    let mut run = session.new_run(request);
    let mut specs = Vec::new();
    for place in request.places() {
        if let Some(reason) = session.refusal(request.job.operation, place) {
            warnings.push(format!("{}: {reason}, left out", run.name));
            progress.skip(request.measurements() / (request.places().len() * request.runs).max(1));
            continue;
        }
        let (size_bytes, depth, parameter) = place;
        specs.extend(request.ways().into_iter().map(|(rate_per_s, order)| PointSpec {
            rx_depth: request.rx_depth.unwrap_or(depth),
            warmup_ms: request.warmup_ms,
            validate: request.validate,
            rate_per_s,
            parameter,
            order,
            ..PointSpec::new(size_bytes, depth, request.limit)
        }));
    }
    if specs.is_empty() {
        return Err(Failure::Usage(format!(
            "no point is possible: {}",
            warnings.last().map_or("no sizes given", String::as_str)
        )));
    }
    let mut order = Blocks::new(specs.len(), request.until, request.job.seed);
    let mut looks = Looks::at(processors(targets, request));
    let name = run.name.clone();
    let mut measure = |spec, is_first| looks.beside(|| session.measure(spec, is_first));
    let (points, failure) = match request.ramp {
        Some(own) => {
            let blocks = request.until.blocks();
            let mut step = 0;
            progress.new_curve();
            ramp::climb(&specs, own, blocks, progress, |spec, is_first, progress| {
                let point = measure(spec, is_first)?;
                step += usize::from(is_first);
                progress.point_of(step, point.p99_from_due_us(), &one_line::of(&name, &point));
                Ok(point)
            })
        }
        None => {
            let (blocks, failure) =
                measure_blocks(&name, &specs, &mut order, progress, &mut measure);
            (blocks.into_iter().filter_map(Point::middle).collect(), failure)
        }
    };
    run.points = points;
    if failure.is_none() {
        warnings.extend(doubt(&order, &run, specs.len()));
    }
    if let Some(error) = &failure {
        run.complete = false;
        run.error = Some(error.to_string());
    }
    if matches!(failure, None | Some(Failure::Interrupted)) {
        session.close();
    }
    Ok(Outcome { run, warnings, failure })
}

/// Returns the processors of both sides if both are on this machine: the two that were asked for,
/// otherwise the only two that there are.
fn processors(targets: &[Target], request: &MeasureRequest) -> Option<Pair> {
    if !targets.iter().all(Target::is_here) {
        return None;
    }
    let asked = request.job.server_cpus.first().copied().zip(request.cpus.first().copied());
    // Among more than two processors it is unknown which ones the threads run on.
    let (server, client) =
        asked.or_else(|| affinity::pair().filter(|_| host::cores_online() == 2))?;
    Pair::new(server, client)
}

/// Returns the warning that `--until` was not reached, if so.
pub fn doubt(order: &Blocks, run: &Run, points: usize) -> Option<String> {
    let doubtful = order.doubtful();
    (doubtful > 0).then(|| {
        format!(
            "{} {}: {doubtful} of {points} points are less certain than --until asked for: allow \
             more time or find what disturbs the machine",
            run.name, run.test
        )
    })
}

/// Returns the warning that both sides were kept on one processor, if so.
fn shared_processor(targets: &[Target], request: &MeasureRequest) -> Option<String> {
    let cpus = &request.cpus;
    let shared = request.job.server_cpus.iter().find(|cpu| cpus.contains(cpu))?;
    targets.iter().any(Target::is_here).then(|| {
        format!(
            "both sides were kept on processor {shared}: they take turns of milliseconds, so that the \
             figures are bound by scheduling"
        )
    })
}

/// Returns the warning that threads which never sleep have to share processors, if so.
fn crowd(targets: &[Target], job: &JobSpec) -> Option<String> {
    let nodes_here = 1 + targets.iter().filter(|target| target.is_here()).count();
    // Each of several nodes on one machine may have been given its own processors.
    let cores = if nodes_here > 1 { host::cores_online() } else { host::cores() };
    let threads = job.threads * nodes_here;
    (threads > cores).then(|| {
        format!(
            "{threads} measuring threads on {cores} cores: they take turns, and idle ones give theirs \
             away, so that the figures are bound by scheduling"
        )
    })
}

/// Measures the points in the order of `order`. `measure` is told whether the block is the first
/// one of its point: only then counters are read, because that takes as long as they lag behind.
/// Returns the blocks of each point, and the failure that ended the measurement early.
pub fn measure_blocks(
    name: &str,
    specs: &[PointSpec],
    order: &mut Blocks,
    progress: &mut Progress,
    mut measure: impl FnMut(PointSpec, bool) -> Result<Point, Failure>,
) -> (Vec<Vec<Point>>, Option<Failure>) {
    let mut found: Vec<Vec<Point>> = specs.iter().map(|_| Vec::new()).collect();
    progress.new_curve();
    while let Some(index) = order.next() {
        if let Err(interrupted) = interrupt::check() {
            return (found, Some(interrupted));
        }
        if order.extra() {
            progress.extend(1);
        }
        match measure(specs[index], found[index].is_empty()) {
            Ok(point) => {
                progress.point_of(index, point.figure(), &one_line::of(name, &point));
                if let Some(figure) = point.figure() {
                    order.note(index, figure);
                }
                found[index].push(point);
            }
            Err(error) => return (found, Some(error)),
        }
    }
    (found, None)
}
