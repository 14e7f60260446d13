//! `softefa fault`.

use std::net::IpAddr;

use clap::{Args, Subcommand};
use softefa::fault::FaultKey;

/// What stands below the options of `softefa fault set`.
fn set_help() -> String {
    let head = "Faults, on what is sent, what arrives, or the device:\n";
    let tail = "Times count from the command. The same seed hits the same datagrams.";
    format!("{head}{}{tail}", list_of_faults(|key| key.is_live))
}

/// Faults with their meaning, one below the other.
pub(super) fn list_of_faults(is_listed: impl Fn(&FaultKey) -> bool) -> String {
    let mut text = String::new();
    for FaultKey { example, side, meaning, .. } in FaultKey::ALL.iter().filter(|key| is_listed(key))
    {
        text.push_str(&format!("  {example:<24} ({})\n", side.name()));
        for part in meaning.split("; ") {
            text.push_str(&format!("      {part}\n"));
        }
    }
    text
}

/// `softefa fault`.
#[derive(Debug, Args)]
pub(crate) struct FaultArgs {
    #[command(subcommand)]
    pub(crate) action: FaultAction,
}

/// What to do with faults.
#[derive(Debug, Subcommand)]
pub(crate) enum FaultAction {
    /// Set a fault in running programs, and in those that the same 'softefa run' starts later. It
    /// replaces the fault that was set before and, while it is in force, --fault and
    /// --fault-script.
    #[command(after_help = set_help())]
    Set(FaultSetArgs),
    /// End the fault that was set: from then on, --fault-script and --fault apply again.
    Clear(FaultClearArgs),
    /// Show for each device which fault is in force, what set it, and how often it has hit.
    Show(FaultClearArgs),
}

/// `softefa fault set`.
#[derive(Debug, Args)]
pub(crate) struct FaultSetArgs {
    /// Faults as for --fault, for example loss=5% or loss=1%,delay=50us,seed=7; 'none' means no
    /// fault at all.
    #[arg(required = true, value_name = "SPEC")]
    pub(crate) spec: Vec<String>,
    /// Only on the devices of this name.
    #[arg(long, value_name = "NAME")]
    pub(crate) device: Option<String>,
    /// Only datagrams that go to this address, and messages that come from it.
    #[arg(long, value_name = "IP")]
    pub(crate) peer: Option<IpAddr>,
    /// Only for this long, for example 3s or 500ms; the programs themselves measure the time.
    #[arg(long = "for", value_name = "TIME")]
    pub(crate) duration: Option<String>,
    #[command(flatten)]
    pub(crate) runs: FaultRunArgs,
}

/// `softefa fault clear` and `softefa fault show`.
#[derive(Debug, Args)]
pub(crate) struct FaultClearArgs {
    #[command(flatten)]
    pub(crate) runs: FaultRunArgs,
}

/// The runs to which a command applies.
#[derive(Debug, Args, Default)]
pub(crate) struct FaultRunArgs {
    /// Only the run of this process, which is 'softefa run' itself or one of its programs [default:
    /// all runs of this user; inside a run, that run].
    #[arg(long, value_name = "PID")]
    pub(crate) run: Option<u32>,
    /// All runs of this user, even if this is called inside a run.
    #[arg(long, conflicts_with = "run")]
    pub(crate) all: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
