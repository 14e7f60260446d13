//! The command line.

mod fault;
mod gateway;
mod run;
mod trace;
mod usage;
mod watch;

use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, Parser, Subcommand};

use crate::failure::Failure;

pub(crate) use fault::{FaultAction, FaultArgs, FaultRunArgs, FaultSetArgs};
pub(crate) use gateway::GatewayArgs;
pub(crate) use run::{ReplaceVerbs, RunArgs};
pub(crate) use trace::TraceArgs;
use usage::{one_line, print_help};
pub(crate) use watch::{PcapArgs, TopArgs};

const EXAMPLES: &str = "\
Examples:
  softefa run -- fi_info -p efa -v
  softefa run -- ib_send_bw -c SRD -x 0                    # server
  softefa run -- ib_send_bw -c SRD -x 0 127.0.0.1          # client, second terminal
  softefa run --fault loss=1%,reorder=20%,seed=1 -- fi_pingpong -p efa -e rdm
  softefa run --device rdmap0s6=127.0.0.1 --device rdmap1s6=127.0.0.2 -- ibv_devices
  softefa run --roce -- ibv_devinfo -v                     # a RoCE v2 device instead
  softefa run --device rdmap0s6=127.0.0.1 --device roce0=127.0.0.1,profile=roce,rate=25 -- ibv_devices
  softefa info --profile efa0";

/// Network adapters in software: unmodified programs get an EFA device that speaks SRD, or a RoCE
/// v2 device.
#[derive(Debug, Parser)]
#[command(name = "softefa", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a program with one or more EFA or RoCE v2 devices.
    #[command(
        after_help = run::help(),
        override_usage = "softefa run [OPTIONS] -- PROGRAM [ARGS]..."
    )]
    Run(RunArgs),
    /// Show devices, limits, capabilities, and the counters of running devices.
    Info(InfoArgs),
    /// Watch the devices of all running programs.
    Top(TopArgs),
    /// Capture the packets of running programs for Wireshark.
    Pcap(PcapArgs),
    /// Show the events of a run over time, from its trace or packets, as tables or as an HTML page.
    #[command(after_help = trace::HELP)]
    Trace(TraceArgs),
    /// Set, clear and show faults while programs run.
    Fault(FaultArgs),
    /// Check which features work on this machine, and how to fix the others. The exit code is 0 if
    /// devices can be opened, otherwise 1.
    Doctor(DoctorArgs),
    /// Connect RoCE devices to rxe and NICs on other machines, by owning UDP port 4791 for all
    /// programs.
    #[command(after_help = gateway::HELP)]
    Gateway(GatewayArgs),
}

/// Which devices there are.
#[derive(Debug, Args, Default)]
pub(crate) struct DeviceArgs {
    /// A device and its local IP address; may be repeated [default: rdmap0s6=127.0.0.1].
    ///
    /// A device may have a profile of its own: NAME=IP,profile=efa1. A RoCE device also takes
    /// mtu=BYTES (256 to 4096, at most what its link carries), rate=GBIT_PER_S (the rate that its
    /// port reports: 10, 25, 40, 50, 100, 200 or 400), gids=N (the entries of its GID table, 1 to
    /// 16, each of which holds its address; 1 by default) and gateway=4791 ('softefa gateway'
    /// connects it with every device that uses that UDP port).
    #[arg(long = "device", value_name = "NAME=IP")]
    pub(crate) devices: Vec<String>,
    /// Make a RoCE v2 device, roce0, in addition to those of --device or instead of the default
    /// one.
    ///
    /// Its address is the first one that other machines can reach, IPv4 before IPv6, or else
    /// 127.0.0.1.
    #[arg(long)]
    pub(crate) roce: bool,
    /// The adapter to emulate in every device without a profile of its own [default: efa2].
    ///
    /// EFA: efa0 (c5n), efa1 (p4d, with RDMA READ) or efa2 (p5, with RDMA WRITE). RoCE v2: roce, or
    /// rxe (the same under rxe's vendor id).
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// Inject faults, such as loss=1%,reorder=20%,dup=1%,delay=50us,seed=1.
    ///
    /// 'none' means no fault at all. The list is below, or in 'softefa run --help'.
    #[arg(long, value_name = "SPEC")]
    pub(crate) fault: Option<String>,
    /// The bytes that receivers verify: 'headers', or also the payload ('crc32c', 'icrc') [default:
    /// headers].
    ///
    /// Checking the payload costs a copy. 'crc32c' and 'icrc' mean the same.
    #[arg(long, value_name = "NAME")]
    pub(crate) integrity: Option<String>,
    /// Number of UDP source ports to spray over, 1 to 256 [default: depends on the kind of link].
    #[arg(long, value_name = "N")]
    pub(crate) paths: Option<String>,
    /// Encrypt and authenticate every datagram with the 32 bytes in this file.
    ///
    /// Other datagrams are dropped. All peers need the same key (docs/SECURITY.md). Also
    /// SOFTEFA_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// `softefa info`.
#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `softefa doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The adapter library; also SOFTEFA_LIBRARY [default: found beside this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// What the children of this command do.
    #[arg(long, hide = true, value_name = "PART")]
    pub(crate) attempt: Option<String>,
}

/// Reads the command line; `None` when help or the version was asked for and has been printed.
///
/// # Errors
/// One line that names the argument and says where help is.
pub(crate) fn parse() -> Result<Option<Command>, Failure> {
    match Cli::try_parse() {
        Ok(cli) => Ok(Some(cli.command)),
        Err(error) => match error.kind() {
            ErrorKind::DisplayHelp
            | ErrorKind::DisplayVersion
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => print_help(&error),
            _ => {
                let words = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
                Err(Failure::new(one_line(&error, words)))
            }
        },
    }
}

/// Reads the words of a line as those behind `softefa fault set`.
///
/// # Errors
/// As [`parse`]; help is none here.
pub(crate) fn parse_fault_set(line: &str) -> Result<FaultSetArgs, Failure> {
    let words = ["softefa", "fault", "set"].into_iter().chain(line.split_whitespace());
    match Cli::try_parse_from(words.clone()) {
        Ok(Cli { command: Command::Fault(FaultArgs { action: FaultAction::Set(args) }) }) => {
            Ok(args)
        }
        Ok(_) => Err(Failure::new("no fault given; write for example loss=5%")),
        Err(error) => Err(Failure::new(one_line(&error, words.map(str::to_owned)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_run(words: &[&str]) -> Result<RunArgs, String> {
        let words = ["softefa", "run"].iter().chain(words);
        match Cli::try_parse_from(words.clone()) {
            Ok(Cli { command: Command::Run(args) }) => Ok(args),
            Ok(_) => unreachable!("the words start with run"),
            Err(error) => Err(one_line(&error, words.map(|word| (*word).to_owned()))),
        }
    }

    #[test]
    fn definition_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn manual_pages_and_completions_are_whole() {
        use clap::CommandFactory;
        manual::check(Cli::command());
    }

    #[test]
    fn program_keeps_its_own_options() {
        for words in [&["--", "fi_info", "-p", "efa"][..], &["fi_info", "-p", "efa"]] {
            assert_eq!(parse_run(words).unwrap().program, ["fi_info", "-p", "efa"]);
        }
    }

    #[test]
    fn missing_program_is_usage() {
        assert!(parse_run(&[]).unwrap_err().contains("usage"));
        assert!(parse_run(&["--stats"]).unwrap_err().contains("no program given"));
    }

    #[test]
    fn replacing_verbs_takes_its_value_after_an_equals_sign_only() {
        let replace = |words: &[&str]| parse_run(words).unwrap().replace_verbs;
        assert_eq!(replace(&["true"]), ReplaceVerbs::Auto);
        assert_eq!(replace(&["--replace-verbs", "true"]), ReplaceVerbs::Yes);
        assert_eq!(replace(&["--replace-verbs=no", "true"]), ReplaceVerbs::No);
        let line = parse_run(&["--replace-verbs=maybe", "true"]).unwrap_err();
        assert!(line.contains("maybe"), "{line}");
    }

    #[test]
    fn misspelt_option_is_not_taken_for_the_program() {
        let line = parse_run(&["--fautl", "loss=1%", "--", "true"]).unwrap_err();
        assert!(line.contains("--fautl") && line.contains("--fault"), "{line}");
        assert_eq!(line.lines().count(), 1);
    }
}
