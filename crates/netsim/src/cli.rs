//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

/// A datacenter in virtual time that runs the SRD engine packet by packet.
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
    /// Exit codes: 0 all flows ended well, 1 some did not or the means over the runs miss what the
    /// scenario expects, 2 the scenario is wrong, a rule of the
    /// simulator was broken, or a file cannot be written.
    Run(RunArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Scenario file, as in scenarios/.
    pub(crate) scenario: PathBuf,
    /// Also write everything as JSON to this file; "-" writes it to the terminal instead.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Run this seed instead of the scenario's.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    /// Replace the JSON file if it exists.
    #[arg(long, requires = "json")]
    pub(crate) force: bool,
}
