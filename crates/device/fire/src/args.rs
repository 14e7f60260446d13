//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  sudo fire run                          # everything, about an hour and a half
  sudo fire run --short                  # every experiment in its short form, about a minute
  sudo fire run --only spine --seed 7    # one experiment, other random moments
  fire list
  fire document                          # docs/RELIABILITY.md from the record, without running anything

Exit codes:
  0  everything that was tried held
  1  something failed, or was not tried; each line says how to repeat it. 'fire run --short' alone
     passes over experiments that have no short form
  2  the command line is wrong";

/// Soft-EFA under fire: links that die, ends that are killed, an hour of soak, every shortage.
#[derive(Debug, Parser)]
#[command(name = "fire", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the experiments; as root, because they make network namespaces.
    Run(RunArgs),
    /// List the experiments.
    List,
    /// Write RELIABILITY.md and its plots from the record.
    Document(DocumentArgs),
    /// One end of a connection; the experiments start it.
    #[command(hide = true)]
    Peer(PeerArgs),
    /// Start a program with something missing; the experiments use it.
    #[command(hide = true)]
    Confine(ConfineArgs),
}

/// `fire run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Try everything, but seldom and briefly; results that depend on a quiet machine are shown and
    /// not judged.
    #[arg(long)]
    pub(crate) short: bool,
    /// Seed of random moments and choices.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Only these experiments, separated by commas; 'fire list' names them.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Print the records as JSON, a line each, instead of a table.
    #[arg(long)]
    pub(crate) json: bool,
    /// Merge the records into this file.
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// The softefa command [default: beside this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) softefa: Option<PathBuf>,
}

/// `fire document`.
#[derive(Debug, Args)]
pub(crate) struct DocumentArgs {
    /// The records.
    #[arg(long, value_name = "FILE", default_value = "crates/device/fire/record.jsonl")]
    pub(crate) record: PathBuf,
    /// Where the document goes.
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub(crate) into: PathBuf,
}

/// The transport that carries the traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Transport {
    /// A Soft-EFA device.
    Srd,
    /// Plain sockets.
    Tcp,
}

impl Transport {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Srd => "srd",
            Self::Tcp => "tcp",
        }
    }
}

/// The operations that the traffic consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Op {
    /// Messages, each checked by the receiver.
    Send,
    /// READs of memory whose contents are known.
    Read,
    /// WRITEs, each read back.
    Write,
}

impl Op {
    pub(crate) const ALL: [Self; 3] = [Self::Send, Self::Read, Self::Write];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Read => "read",
            Self::Write => "write",
        }
    }
}

/// `fire peer`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PeerArgs {
    #[arg(long, value_enum, default_value = "srd")]
    pub(crate) transport: Transport,
    #[arg(long, value_enum, default_value = "send")]
    pub(crate) op: Op,
    /// Bytes of an operation; 0 for the longest message.
    #[arg(long, default_value_t = 0)]
    pub(crate) bytes: u32,
    /// Operations under way, or connections.
    #[arg(long, default_value_t = 64)]
    pub(crate) depth: u32,
    /// Number of this end in its messages.
    #[arg(long, default_value_t = 1)]
    pub(crate) source: u32,
    /// Make and destroy queue pairs, regions and address handles all the time.
    #[arg(long)]
    pub(crate) churn: bool,
    /// Give the processor to others when there is nothing to do.
    #[arg(long)]
    pub(crate) polite: bool,
}

/// `fire confine`.
#[derive(Debug, Args)]
pub(crate) struct ConfineArgs {
    /// Refuse the system calls that containers refuse, and some more.
    #[arg(long)]
    pub(crate) seccomp: bool,
    /// Join these control groups first.
    #[arg(long, value_name = "DIR")]
    pub(crate) cgroup: Vec<PathBuf>,
    /// Write to this file when everything is missing that is to be, and the program begins.
    #[arg(long)]
    pub(crate) mark: Option<PathBuf>,
    /// Open files at most.
    #[arg(long)]
    pub(crate) nofile: Option<u64>,
    /// The program.
    #[arg(trailing_var_arg = true, required = true)]
    pub(crate) program: Vec<OsString>,
}

pub(crate) fn parse() -> Command {
    Cli::parse().command
}
