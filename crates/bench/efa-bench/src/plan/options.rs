//! `efa-bench plan`: its arguments.

use std::path::PathBuf;

use bench_engine::target::Target;
use bench_record::failure::Failure;
use clap::Args;

use crate::cli::{DEFAULT_PORT, GivenOptions};

/// The default folder of a plan; a result in it is not overwritten without --force.
pub(crate) const DEFAULT_OUT: &str = "report";

/// Which plan, on which fabrics, and where its files go.
#[derive(Debug, Args)]
pub(crate) struct PlanArgs {
    /// One of quick, paper, dbms, efa-vs-rdma, rdmaoe, ucx, floors and agree, or a TOML file.
    #[arg(required_unless_present = "list")]
    pub(crate) plan: Option<String>,
    /// Say which plans there are.
    #[arg(long)]
    pub(crate) list: bool,
    /// Print each command and how long it will take; measure nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Folder for results.json, results.csv, events.ndjson and the report: index.html, index.md and
    /// its plots.
    #[arg(short, long, default_value = DEFAULT_OUT)]
    pub(crate) out: PathBuf,
    /// Start again, even if the folder holds another unfinished plan or a finished result.
    #[arg(long)]
    pub(crate) force: bool,
    /// Both sides on this machine, with servers of our own; the default.
    #[arg(long, conflicts_with = "host")]
    pub(crate) local: bool,
    /// Measure against `efa-bench server` on this host, HOST or HOST:PORT; needs --fabric.
    #[arg(short = 'H', long, requires = "fabric")]
    pub(crate) host: Option<String>,
    /// Port of that server, unless --host names one.
    #[arg(long, default_value_t = DEFAULT_PORT, requires = "host")]
    pub(crate) port: u16,
    /// Measure these fabrics instead of the plan's, optionally with a command their processes are
    /// started with: tcp, libfabric:shm, libfabric:efa='softefa run --'. May be repeated.
    #[arg(long, value_name = "NAME[=PREFIX]")]
    pub(crate) fabric: Vec<String>,
    /// The softefa command; default: the one beside efa-bench, else the one in PATH.
    #[arg(long)]
    pub(crate) softefa: Option<PathBuf>,
    /// Multiply all durations and numbers of iterations by this (0.01 to 100); the results say so.
    #[arg(long, default_value_t = 1.0)]
    pub(crate) scale: f64,
    /// Only steps and comparisons with one of these texts in their names: READ, 'udp): ib_send'.
    ///
    /// A comparison comes with what it is compared with. Repeat it, or separate texts by commas.
    #[arg(long, value_delimiter = ',', value_name = "TEXT")]
    pub(crate) only: Vec<String>,
    /// Rounds of a plan that measures everything in rounds (floors, agree), and no more of what
    /// they do not decide [default: the plan's].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) rounds: Option<u32>,
    /// No progress.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Which of all these were given.
    #[arg(skip)]
    pub(crate) given: GivenOptions,
}

impl PlanArgs {
    /// Returns the server that was named; `None` if all is on this machine.
    pub(super) fn target(&self) -> Result<Option<Target>, Failure> {
        let target = self.host.as_ref().map(|host| Target::parse(host, self.port)).transpose();
        target.map_err(|what| Failure::Usage(format!("--host {what}")))
    }
}

#[cfg(any(test, fuzzing))]
impl PlanArgs {
    /// Returns the arguments of a plan that is not run.
    pub(super) fn for_tests() -> Self {
        use crate::cli::{Cli, Command};
        use clap::Parser;

        let cli = Cli::try_parse_from(["efa-bench", "plan", "quick", "--dry-run"]);
        match cli.expect("a command line").command {
            Command::Plan(options) => options,
            other => panic!("{other:?}"),
        }
    }
}
