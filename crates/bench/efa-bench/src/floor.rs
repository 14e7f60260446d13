//! Floors of this machine, selected by the option of any fabric: `--fabric floor:memory` and
//! `floor:udp`.

use bench_engine::client::{MeasureRequest, Outcome, doubt, measure_blocks};
use bench_engine::looks::{Looks, Pair};
use bench_engine::measure::Blocks;
use bench_engine::{affinity, host};
use bench_floor::Cpus;
use bench_record::fabric_name::{FabricName, Floor};
use bench_record::failure::Failure;
use bench_record::spec::{Benchmark, PointSpec};
use bench_record::{FabricRecord, Point, Run};
use report::Progress;

use crate::cli::{GivenOptions, MeasureArgs};

/// Options that have no meaning for two bare threads.
const NOT_FOR_FLOORS: [&str; 18] = [
    "domain",
    "endpoint",
    "op",
    "depth",
    "rx_depth",
    "window",
    "complete_every",
    "post_list",
    "events",
    "order",
    "memory",
    "threads",
    "endpoints",
    "numa",
    "server_numa",
    "runs",
    "validate",
    "watch",
];

/// Returns the floor that is asked for.
pub(crate) const fn asked_for(fabric: &FabricName) -> Option<Floor> {
    match fabric {
        FabricName::Floor(floor) => Some(*floor),
        _ => None,
    }
}

/// Refuses what no floor can do.
pub(crate) fn check(
    fabric: &FabricName,
    benchmark: Benchmark,
    nodes: usize,
    given: &GivenOptions,
) -> Result<(), Failure> {
    if nodes != 2 || !matches!(benchmark, Benchmark::Latency | Benchmark::Bandwidth) {
        return Err(fabric.is_a_floor());
    }
    match NOT_FOR_FLOORS.iter().find(|option| given.has(option)) {
        None => Ok(()),
        Some(option) => Err(Failure::Usage(format!(
            "--{} is not for {fabric}: between two bare threads there is nothing to set",
            option.replace('_', "-")
        ))),
    }
}

/// Measures the points of a request; if one fails, the run holds those measured before.
pub(crate) fn run(
    floor: Floor,
    request: &MeasureRequest,
    measure: &MeasureArgs,
    progress: &mut Progress,
) -> Result<Outcome, Failure> {
    let pair = affinity::pair().ok_or_else(|| {
        Failure::Usage(format!("{} needs two processors, one for each thread", floor.label()))
    })?;
    let cpus = processors(measure, pair);
    let specs: Vec<PointSpec> = request.sizes.iter().map(|size| spec(request, *size)).collect();
    let name = if request.name.is_empty() { floor.label() } else { &request.name };
    let mut run = new_run(name, floor, request, cpus);
    let mut order = Blocks::new(specs.len(), request.until, request.job.seed);
    let (server, client) = cpus.unwrap_or(pair);
    let mut looks = Looks::at(Pair::new(server, client));
    let (blocks, failure) = measure_blocks(name, &specs, &mut order, progress, |spec, _| {
        looks.beside(|| match request.job.benchmark {
            Benchmark::Latency => bench_floor::latency(floor, spec, cpus),
            _ => bench_floor::bandwidth(floor, spec, cpus),
        })
    });
    run.points = blocks.into_iter().filter_map(Point::middle).collect();
    if run.points.is_empty() {
        return Err(failure.unwrap_or_else(|| Failure::Usage("no sizes were given".to_owned())));
    }
    if let Some(error) = &failure {
        run.complete = false;
        run.error = Some(error.to_string());
    }
    let doubt = doubt(&order, &run, specs.len()).filter(|_| failure.is_none());
    Ok(Outcome { run, warnings: doubt.into_iter().collect(), failure })
}

/// Returns the requested processors, else two of this machine's.
fn processors(measure: &MeasureArgs, (server, client): (usize, usize)) -> Cpus {
    let server = measure.server_cpu.first().copied().unwrap_or(server);
    let client = measure.cpu.first().copied().unwrap_or(client);
    (!measure.no_pin).then_some((server, client))
}

const fn spec(request: &MeasureRequest, size_bytes: usize) -> PointSpec {
    PointSpec { warmup_ms: request.warmup_ms, ..PointSpec::new(size_bytes, 0, request.limit) }
}

fn new_run(name: &str, floor: Floor, request: &MeasureRequest, cpus: Cpus) -> Run {
    let mut run = Run {
        endpoint: request.job.endpoint,
        operation: request.job.operation,
        test: request.test.clone(),
        command: host::command_line(),
        fabric: Some(FabricRecord {
            provider: request.job.fabric.to_string(),
            max_message_bytes: bench_floor::message_bytes(floor),
            ..FabricRecord::default()
        }),
        is_loopback: true,
        server_cpu: cpus.map(|(server, _)| server),
        client_cpu: cpus.map(|(_, client)| client),
        ..Run::new(name, request.job.benchmark, Vec::new())
    };
    run.method.seed = request.job.seed;
    run
}
