//! The command line.

use crate::command::nic::NicArgs;
use crate::command::setting::Setting;
use crate::command::sweep::{Part, Seeds};
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// Simulates a datacenter in virtual time, packet by packet, with SRD, RoCE v2, TCP or DCTCP.
#[derive(Debug, Parser)]
#[command(name = "netsim", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Runs a scenario once per seed and prints a row for each.
    ///
    /// Exit codes: 0 all flows ended well, 1 some did not, a run failed (the others are shown) or
    /// the means over the runs miss what the scenario expects, 2 the scenario is wrong or a file
    /// cannot be written, 130 interrupted (seeds that were finished are shown).
    Run(RunArgs),
    /// Runs scenarios with all combinations of settings and seeds, on all cores.
    ///
    /// With --out every finished run is kept, and repeating the command runs only the missing ones.
    /// Ctrl-C leaves complete files. Exit codes: 0 all flows ended well, 1 some did not, a run
    /// failed or the means of a point miss what its scenario expects, 2 wrong arguments or
    /// scenario, 130 interrupted.
    Sweep(SweepArgs),
    /// Runs scenarios with all their seeds and says which meet their expectations.
    ///
    /// Exit codes: 0 all do, 1 a mean misses its bound, a run failed or some flow did not end well,
    /// 2 wrong arguments or scenario, 130 interrupted (scenarios that were finished are shown).
    Check(CheckArgs),
    /// Repeats the experiments of the SRD paper and says which of its statements hold.
    ///
    /// Takes about a minute. Exit codes: 0 all hold, 1 some do not, 2 a file cannot be written, 130
    /// interrupted.
    Paper(PaperArgs),
    /// Compares two result files, with a verdict for each figure.
    ///
    /// A figure regressed if its mean over the seeds is worse by more than the threshold and either
    /// the 95 % interval of the seeds' ratios does not contain 1, or no seed is better by more than
    /// the threshold; and if a single seed is more than twice as bad. It is inconclusive if the
    /// seeds disagree otherwise, which does not fail the comparison. Exit codes: 0 nothing
    /// regressed, 1 something did or is missing, 2 a file cannot be read.
    Compare(CompareArgs),
    /// Models an adapter and its host, and compares benchmarks on the model with published tables.
    Nic(NicArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Scenario file, as in scenarios/.
    pub(crate) scenario: PathBuf,
    /// Run this seed instead of the scenario's.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Change a field of the scenario: transport.paths=16, workload.bytes=1MB.
    #[arg(long = "set", value_name = "FIELD=VALUE", value_parser = Setting::single)]
    pub(crate) set: Vec<Setting>,
    /// Sample flows, queues and uplinks at this interval in microseconds, for the JSON file. The
    /// default with --html is 1.
    #[arg(long, value_name = "US", num_args = 0..=1, default_missing_value = "1",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) samples: Option<u32>,
    /// Also write everything as JSON to this file; "-" writes it to the terminal instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Also write a page with charts.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    /// Scenario files.
    #[arg(required = true)]
    pub(crate) scenarios: Vec<PathBuf>,
    /// A field and its values: transport.paths=16,64 or workload.bytes=64KB,1MB.
    #[arg(long = "set", value_name = "FIELD=VALUE,...", value_parser = Setting::parse)]
    pub(crate) set: Vec<Setting>,
    /// Seeds instead of the scenarios' own: 1,2,5 or 1..3, the last one included.
    #[arg(long, value_parser = Seeds::parse)]
    pub(crate) seeds: Option<Seeds>,
    /// Runs at a time; without it one per core.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
    /// Keep every run in this folder, with results.json and results.csv of all.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Write the results of all runs as JSON.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write a line of CSV per run.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Write a page with charts, which shows the effect of each parameter.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Replace result files that exist.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
    /// Print a Slurm array script with this many tasks instead of running anything.
    #[arg(long, value_name = "TASKS", requires = "out", conflicts_with_all = ["json", "csv", "html", "part"],
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) slurm: Option<u32>,
    /// Run only the K-th of N equal parts, as a Slurm task does, and write no tables.
    #[arg(long, value_name = "K/N", requires = "out", conflicts_with_all = ["json", "csv", "html"],
        value_parser = Part::parse)]
    pub(crate) part: Option<Part>,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Scenario files.
    #[arg(required = true)]
    pub(crate) scenarios: Vec<PathBuf>,
    /// Seeds to run in addition to each scenario's own, shown but not judged: 11,12 or 11..13.
    #[arg(long, value_name = "SEEDS", value_parser = Seeds::parse)]
    pub(crate) beside: Option<Seeds>,
    /// Also write the table as Markdown.
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Also write the table as a page with a chart.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Runs at a time; without it one per core.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
    /// Replace files that exist.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PaperArgs {
    /// Write index.html with figures and results.json into this folder.
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// Make few and short runs, which show that the command works, but not which statements hold.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Runs at a time; without it one per core.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) jobs: Option<u32>,
    /// Replace files that exist.
    #[arg(long)]
    pub(crate) force: bool,
    /// Show no progress.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// Result file to compare with (of run --json or sweep).
    pub(crate) base: PathBuf,
    /// Result file to compare.
    pub(crate) new: PathBuf,
    /// Call changes up to this many percent the same; default: 2.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) threshold: Option<f64>,
}

/// Reads a change in percent.
fn percent(text: &str) -> Result<f64, String> {
    let percent = text.parse().ok().filter(|percent| (0.0..=1000.0).contains(percent));
    percent.ok_or_else(|| format!("{text} is not allowed, only 0 to 1000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_and_completions_are_whole() {
        use clap::CommandFactory;
        manual::check(Cli::command());
    }

    #[test]
    fn a_threshold_is_a_number_with_an_end() {
        assert_eq!((percent("0"), percent("2.5")), (Ok(0.0), Ok(2.5)));
        for text in ["nan", "inf", "-1", "1001", "5%"] {
            assert!(percent(text).is_err(), "{text}");
        }
    }
}
