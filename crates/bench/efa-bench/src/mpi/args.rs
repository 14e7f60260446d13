//! The arguments of `efa-bench mpi`.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bench_engine::host;
use bench_engine::measure::Until;
use bench_record::fabric_name::FabricName;
use bench_record::failure::Failure;
use bench_record::spec::{Limit, PointSpec, parse_list};
use bench_record::wire::Wire;
use bench_report::judge::Assertion;
use bench_report::output::Outputs;
use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};

use super::test::Test;
use crate::cli::{GivenOptions, millis};

/// Which softefa command gives ranks their device.
#[derive(Debug, Clone)]
pub(super) enum SoftefaCommand {
    /// The one beside this program, or of the path.
    Found,
    /// The one at this path.
    At(PathBuf),
}

impl SoftefaCommand {
    /// As it was named: an option without a value leaves it to be found.
    fn named(value: OsString) -> Self {
        if value.is_empty() { Self::Found } else { Self::At(value.into()) }
    }

    /// The path that was named.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Found => None,
            Self::At(path) => Some(path),
        }
    }
}

/// Operations that a block of the C program has room for (`SAMPLES_MAX`).
pub(super) const OPERATIONS_MAX: u64 = 1 << 20;

/// MPI's own TCP: neither libfabric's nor sockets of ours.
pub(crate) const OWN_TCP: &str = "mpi:tcp";

/// What MPI is to run on, by name; that of our sockets is an older one of its own TCP.
fn on(text: &str) -> Result<FabricName, String> {
    match text {
        OWN_TCP => Ok(FabricName::Tcp),
        other => other.parse(),
    }
}

/// What MPI runs on, as it is named here.
pub(crate) fn name_of(fabric: &FabricName) -> String {
    match fabric {
        FabricName::Tcp => OWN_TCP.to_owned(),
        other => other.to_string(),
    }
}

/// Measures the MPI of this machine.
#[derive(Debug, Args)]
pub(crate) struct MpiArgs {
    /// What to measure.
    test: Test,
    /// Number of ranks, like --sizes; with more than two, latency, bandwidth and bidirectional
    /// measure pairs at once (rank i of 2n and rank i + n), and NAS' kernels take powers of two.
    #[arg(short, long, default_value = "2")]
    ranks: String,
    /// The fabric of MPI: libfabric:PROVIDER, ucx:TRANSPORT (srd, ud_v, rc_v, tcp, sm) or mpi:tcp
    /// (its own TCP); default: MPI's own choice, on one machine its shared memory.
    #[arg(long, value_parser = on)]
    fabric: Option<FabricName>,
    /// Short for --fabric libfabric:PROVIDER.
    #[arg(short, long, conflicts_with = "fabric")]
    provider: Option<String>,
    /// Run all ranks on the software device and check its counters; with a path: that softefa
    /// command. The device is an EFA, for ucx:rc_v and libfabric:verbs a RoCE device; default of
    /// --fabric is then libfabric:efa.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, default_missing_value = "",
        value_parser = OsStringValueParser::new().map(SoftefaCommand::named))]
    pub(super) softefa: Option<SoftefaCommand>,
    /// With --softefa: the wire of the software device; default: chosen by softefa.
    #[arg(long, value_enum, requires = "softefa")]
    pub(super) wire: Option<Wire>,
    /// MPI's compiler.
    #[arg(long, default_value = "mpicc")]
    pub(super) mpicc: PathBuf,
    /// The command that starts ranks, with its own options: 'mpirun -H a,b', 'srun --mpi=pmix'.
    #[arg(long, default_value = "mpirun", value_name = "COMMAND")]
    pub(super) mpirun: String,
    /// Further options for that command: '--mca coll ^hcoll'.
    #[arg(long, default_value = "", value_name = "WORDS", allow_hyphen_values = true)]
    pub(super) mpi_args: String,
    /// Folder for the compiled program, which all hosts share; default: a private one of this
    /// machine.
    #[arg(long, value_name = "DIR")]
    pub(super) work_dir: Option<PathBuf>,
    /// Bytes of a message, or of each rank's part: 64 or 1,2,1000 or 1..8192 (powers of two).
    /// Default: 1..8192, for collective operations 4..1048576. NAS' kernels take the bytes of a
    /// class: nas-is 262144 (S), 4194304 (W), 33554432 (A), nas-ft 4194304 (S), 8388608 (W).
    #[arg(short, long)]
    sizes: Option<String>,
    /// Messages in flight (bandwidth, bidirectional), like --sizes.
    #[arg(short, long, default_value = "256")]
    depth: String,
    /// Seconds that each block of a point is measured.
    #[arg(short = 't', long, default_value_t = 0.2, conflicts_with = "iterations")]
    duration: f64,
    /// Measured messages or operations of each block, instead of a time.
    #[arg(short = 'n', long)]
    iterations: Option<u64>,
    /// Blocks of each point, in shuffled order; the middle one counts; default: 5, with
    /// --iterations 1.
    #[arg(long)]
    blocks: Option<usize>,
    /// Repeat until the 95 % interval of each point is this narrow: ci=2%,max=60s.
    #[arg(long, value_parser = Until::parse, conflicts_with = "blocks")]
    until: Option<Until>,
    /// Seed of the order of blocks; default: another one each time.
    #[arg(long)]
    seed: Option<u64>,
    /// Warm-up before each block in seconds.
    #[arg(short, long, default_value_t = 0.1)]
    warmup: f64,
    /// Check every message and every result, not only the first and the last.
    #[arg(long)]
    validate: bool,
    /// Give up when a measurement reports nothing for this many seconds.
    #[arg(long, default_value_t = 60.0)]
    timeout: f64,
    /// Name of the run in tables and plots; default: MPI and the fabric.
    #[arg(long, default_value = "")]
    pub(super) name: String,
    /// A limit the result must keep, such as 'latency/64B p99 < 30us'; repeatable.
    #[arg(long = "assert", value_name = "LIMIT")]
    pub(super) assertions: Vec<Assertion>,
    /// Write the results as JSON; - is standard output (then without table).
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write the results as CSV; - is standard output (then without table).
    #[arg(long)]
    csv: Option<PathBuf>,
    /// Write a report as HTML.
    #[arg(long)]
    html: Option<PathBuf>,
    /// No progress, no table.
    #[arg(short, long)]
    pub(super) quiet: bool,
    /// Do not look whether the machine is quiet.
    #[arg(long, hide = true)]
    pub(super) no_host_checks: bool,
    /// End when standard input is closed (a plan has died).
    #[arg(long, hide = true)]
    pub(crate) until_stdin_closes: bool,
    /// Which of all these were given.
    #[arg(skip)]
    pub(crate) given: GivenOptions,
}

/// Options that do nothing for some tests, and who reads them.
const READERS: [(&str, &[Test]); 2] = [
    ("depth", &[Test::Bandwidth, Test::Bidirectional]),
    (
        "sizes",
        &[
            Test::Latency,
            Test::Bandwidth,
            Test::Bidirectional,
            Test::Allgather,
            Test::Allreduce,
            Test::Bcast,
            Test::AllgatherOverlap,
            Test::AllreduceOverlap,
            Test::BcastOverlap,
            Test::IntegerSort,
            Test::Fourier,
        ],
    ),
];

/// What the arguments mean.
pub(super) struct MpiJob {
    pub(super) test: Test,
    pub(super) ranks: Vec<usize>,
    pub(super) specs: Vec<PointSpec>,
    pub(super) until: Until,
    pub(super) seed: u64,
    /// Silence that is too long, of the longest measurement.
    pub(super) timeout: Duration,
}

impl MpiArgs {
    pub(super) fn fabric(&self) -> Option<FabricName> {
        let named = self.provider.clone().map(FabricName::Libfabric);
        let of_device = || self.softefa.is_some().then(|| FabricName::Libfabric("efa".to_owned()));
        named.or_else(|| self.fabric.clone()).or_else(of_device)
    }

    /// Points times blocks that are certain, and how often ranks are started.
    pub(crate) fn measurements(&self) -> Result<(usize, usize), Failure> {
        let wanted = self.wanted()?;
        let starts = wanted.ranks.len();
        Ok((wanted.specs.len() * wanted.until.blocks() * starts, starts))
    }

    /// Points that it measures.
    pub(crate) fn points(&self) -> Result<usize, Failure> {
        let wanted = self.wanted()?;
        Ok(wanted.specs.len() * wanted.ranks.len())
    }

    /// Measured time and warm-up of a block in seconds.
    pub(crate) const fn times_s(&self) -> (f64, f64) {
        (self.duration, self.warmup)
    }

    pub(super) fn outputs(&self) -> Outputs<'_> {
        Outputs {
            json: self.json.as_deref(),
            csv: self.csv.as_deref(),
            html: self.html.as_deref(),
            quiet: self.quiet,
        }
    }

    pub(super) fn wanted(&self) -> Result<MpiJob, Failure> {
        let wrong = |text: String| Failure::Usage(format!("mpi {}: {text}", self.test.name()));
        let list = |option: &str, text: &str| {
            parse_list(text).map_err(|reason| wrong(format!("{option}: {reason}")))
        };
        for (option, readers) in READERS {
            if self.given.has(option) && !readers.contains(&self.test) {
                let names = readers.iter().map(|test| test.name()).collect::<Vec<_>>().join(", ");
                return Err(wrong(format!("--{option} is not for this test: it is for {names}")));
            }
        }
        if self.given.has("warmup") && self.iterations.is_some() {
            return Err(wrong("--warmup does nothing with --iterations".to_owned()));
        }
        if let Some(fabric) = self.fabric().filter(|own| self.softefa.is_some() && !own.is_rdma()) {
            let what = "--softefa gives ranks a device, and they would not use it";
            return Err(wrong(format!("--fabric {}: {what}", name_of(&fabric))));
        }
        let ranks = list("--ranks", &self.ranks)?;
        ranks.iter().try_for_each(|&count| self.test.check_ranks(count)).map_err(wrong)?;
        let sizes = list("--sizes", self.sizes.as_deref().unwrap_or_else(|| self.test.sizes()))?;
        sizes.iter().try_for_each(|&size| self.test.check_size(size)).map_err(wrong)?;
        let depths = list("--depth", &self.depth)?;
        let limit = match self.iterations {
            Some(0) => return Err(wrong("--iterations 0: give 1 or more".to_owned())),
            Some(count) if count > OPERATIONS_MAX => {
                return Err(wrong(format!(
                    "--iterations {count}: a block has room for {OPERATIONS_MAX}: give --blocks"
                )));
            }
            Some(count) => Limit::Iterations(count),
            None => Limit::DurationMs(millis("--duration", self.duration, 0.001)?),
        };
        let warmup_ms =
            if self.iterations.is_some() { 0 } else { millis("--warmup", self.warmup, 0.0)? };
        let spec = PointSpec { warmup_ms, validate: self.validate, ..PointSpec::new(0, 1, limit) };
        let measured_ms = if let Limit::DurationMs(ms) = limit { ms } else { 0 };
        let timeout_ms = millis("--timeout", self.timeout, 0.1)? + warmup_ms + measured_ms;
        Ok(MpiJob {
            test: self.test,
            ranks,
            specs: super::points(self.test, &sizes, &depths, spec),
            until: Until::of(self.until, self.blocks, self.iterations)?,
            seed: self.seed.unwrap_or_else(host::seed),
            timeout: Duration::from_millis(timeout_ms),
        })
    }
}
