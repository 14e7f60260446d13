//! The command line.

mod trace;

use std::ffi::OsString;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, value_parser};

use softefa::fault::FaultKey;

use crate::failure::Failure;

pub(crate) use trace::TraceArgs;

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

const EXIT_CODES: &str = "\
Exit codes of 'softefa run':
  the program's own, or 128 + N when signal N ended it
  125  softefa itself failed: bad option, no adapter library, counters not written
  126  the program was found but cannot be executed
  127  the program was not found";

const GATEWAY_HELP: &str = "\
Devices with gateway=4791 are behind the gateway and reach everybody else at that port:
  softefa gateway                                          # first terminal, as root or with CAP_NET_RAW
  softefa run --device roce0=10.0.0.1,profile=roce,gateway=4791 -- ibv_rc_pingpong -g 0

It serves the programs of its own user, or of all users if root runs it. SIGINT, SIGTERM or SIGHUP ends
it, and with it the connections of its programs. Counters:
  rx_pkts, rx_bytes        what arrived
  forwarded_pkts           handed to a queue pair
  forwarded_cm_msgs        handed to a connection manager (rdma_cm)
  answered_cm_msgs         for no program, so the gateway itself answered
  tx_farewells             connections whose peers were told that the program is gone
  drop_malformed           not a packet of RoCE v2
  drop_icrc                damaged, forged, or impossible to check
  drop_no_queue_pair       no program has that queue pair
  drop_no_connection       a message for no program that asks for no answer
  drop_no_room             the system had no room for it
  refused_requests         requests of programs that were refused

Exit codes: 0, or 125 when it cannot serve, for example because the port is taken";

/// What stands below the options of `softefa run`.
fn run_help() -> String {
    let head = "Faults (--fault), on what is sent, what arrives, or the device:\n";
    let tail =
        "Times count from when the device is opened. The same seed hits the same datagrams.\n\n";
    format!("{head}{}{tail}{EXIT_CODES}", list_of_faults(|_| true))
}

/// What stands below the options of `softefa fault set`.
fn fault_help() -> String {
    let head = "Faults, on what is sent, what arrives, or the device:\n";
    let tail = "Times count from the command. The same seed hits the same datagrams.";
    format!("{head}{}{tail}", list_of_faults(|key| key.is_live))
}

fn list_of_faults(is_listed: impl Fn(&FaultKey) -> bool) -> String {
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
        after_help = run_help(),
        override_usage = "softefa run [OPTIONS] -- PROGRAM [ARGS]..."
    )]
    Run(RunArgs),
    /// Show devices, limits, capabilities, and the counters of running devices.
    Info(InfoArgs),
    /// Watch what the devices of all running programs do.
    Top(TopArgs),
    /// Capture the packets of running programs for Wireshark.
    Pcap(PcapArgs),
    /// Show what happened in a run, and when, from its trace or packets: tables or an HTML page.
    #[command(after_help = trace::HELP)]
    Trace(TraceArgs),
    /// Set, clear and show faults while programs run.
    Fault(FaultArgs),
    /// Check what works on this machine, what does not, and how to fix it. The exit code is 0 if
    /// devices can be opened, otherwise 1.
    Doctor(DoctorArgs),
    /// Connect RoCE devices to rxe and NICs on other machines: own UDP port 4791 for all programs.
    #[command(after_help = GATEWAY_HELP)]
    Gateway(GatewayArgs),
}

/// Which devices there are.
#[derive(Debug, Args, Default)]
pub(crate) struct DeviceArgs {
    /// A device and its local IP address; may be repeated [default: rdmap0s6=127.0.0.1].
    ///
    /// A device may have a profile of its own: NAME=IP,profile=efa1. A RoCE device also takes
    /// mtu=BYTES (256 to 4096, at most what its link carries), rate=GBIT_PER_S (the rate that its
    /// port reports: 10, 25, 40, 50, 100, 200 or 400) and gateway=4791 ('softefa gateway' connects
    /// it with everybody who uses that UDP port).
    #[arg(long = "device", value_name = "NAME=IP")]
    pub(crate) devices: Vec<String>,
    /// Make a RoCE v2 device, roce0, beside those of --device or instead of the default one.
    ///
    /// Its address is the first one that other machines know, IPv4 before IPv6, or else 127.0.0.1.
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
    /// The list is below, or in 'softefa run --help'.
    #[arg(long, value_name = "SPEC")]
    pub(crate) fault: Option<String>,
    /// What receivers verify: 'headers', or also the payload ('crc32c', 'icrc') [default: headers].
    ///
    /// Checking the payload costs a copy. 'crc32c' and 'icrc' mean the same.
    #[arg(long, value_name = "NAME")]
    pub(crate) integrity: Option<String>,
    /// How many UDP source ports to spray over, 1 to 256 [default: depends on the kind of link].
    #[arg(long, value_name = "N")]
    pub(crate) paths: Option<String>,
    /// Encrypt and authenticate every datagram with the 32 bytes in this file.
    ///
    /// Other datagrams are dropped. All peers need the same key (docs/SECURITY.md). Also
    /// SOFTEFA_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
}

/// Whether the system's verbs libraries are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplaceVerbs {
    /// Put them in place if they lie beside the adapter library.
    Auto,
    /// Put them in place, or fail.
    Yes,
    /// Only preload the adapter.
    No,
}

/// `softefa run`.
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    /// Refuse what hardware refuses and Soft-EFA otherwise accepts.
    ///
    /// That is, on EFA devices, RDMA from a peer without an address handle, sends without the
    /// signaled flag and receives without entries; on all, address handles for port 0, and messages
    /// that a queue pair has not delivered when it is destroyed. Timeouts of reliable RDMA
    /// connections become exact.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Explain on standard error what programs get wrong, once each.
    ///
    /// That is the reason of every refused call and failed work request, and what works here but
    /// not on hardware. Also SOFTEFA_LINT=1.
    #[arg(long)]
    pub(crate) lint: bool,
    /// Send each post at once.
    ///
    /// Otherwise posts of a program that polls may wait for its next poll, to leave together. Also
    /// SOFTEFA_SEND_AT_ONCE=1.
    #[arg(long)]
    pub(crate) send_at_once: bool,
    /// Inject faults at given times, from a TOML file (docs/FAULTS.md). Times count from when the
    /// first device is opened, and each fault replaces the one before it.
    #[arg(long, value_name = "FILE")]
    pub(crate) fault_script: Option<PathBuf>,
    /// What carries packets between programs of one user on one machine: auto (shared memory where
    /// that is possible), udp, or shm (as auto, but do not start where memory cannot be shared).
    /// With udp all bytes of RDMA go over UDP, too; otherwise long READs and WRITEs are copied from
    /// memory to memory (never with --fault). Also SOFTEFA_WIRE.
    #[arg(long, value_name = "WIRE")]
    pub(crate) wire: Option<String>,
    /// The same as --wire udp.
    #[arg(long, conflicts_with = "wire")]
    pub(crate) wire_only: bool,
    /// Write the counters of the run as JSON, summed over its processes.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
    /// Print the counters of the run to standard error when it ends.
    #[arg(long)]
    pub(crate) stats: bool,
    /// Write a line for each event (post, transmit, loss, ...) to a file, or to standard error for
    /// -.
    ///
    /// %p in the name stands for the process id. docs/TRACE.md describes the lines.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<String>,
    /// Trace only these kinds of events, such as loss,retransmit,peer.
    #[arg(long, value_name = "LIST", requires = "trace")]
    pub(crate) trace_events: Option<String>,
    /// Capture all packets of the run for Wireshark (pcapng), in one file for all its processes.
    #[arg(long, value_name = "FILE")]
    pub(crate) pcap: Option<PathBuf>,
    /// Capture this many bytes of each packet, without IP and UDP headers.
    #[arg(long, value_name = "BYTES", default_value = "65535", value_parser = value_parser!(u32).range(64..=65535))]
    pub(crate) snaplen: u32,
    /// Keep the private directory of the run (sysfs tree, counters) and say where it is.
    #[arg(long)]
    pub(crate) keep: bool,
    /// The adapter library; also SOFTEFA_LIBRARY [default: found beside this program].
    #[arg(long, value_name = "FILE")]
    pub(crate) library: Option<PathBuf>,
    /// Whether to put versioned libibverbs.so.1 and libefa.so.1 in place of the system's.
    ///
    /// Programs that open these libraries by name, or need newer ones, do not work without it.
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_value = "auto",
        default_missing_value = "yes"
    )]
    pub(crate) replace_verbs: ReplaceVerbs,
    /// The program and its arguments.
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub(crate) program: Vec<OsString>,
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

/// `softefa top`.
#[derive(Debug, Args)]
pub(crate) struct TopArgs {
    /// Seconds between two samples, 0.1 to 86400.
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_seconds)]
    pub(crate) interval: Duration,
    /// Print the rates of one interval and exit.
    #[arg(long)]
    pub(crate) once: bool,
    /// Print JSON, one line per sample.
    #[arg(long)]
    pub(crate) json: bool,
}

/// `softefa pcap`.
#[derive(Debug, Args)]
pub(crate) struct PcapArgs {
    /// The file to write (pcapng); - is standard output, for example into wireshark -k -i -.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) write: PathBuf,
    /// Stop after this many seconds [default: at Ctrl-C].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub(crate) duration: Option<Duration>,
    /// Stop after this many packets.
    #[arg(long, value_name = "N")]
    pub(crate) count: Option<u64>,
    /// Capture only devices of this name; may be repeated.
    #[arg(long = "device", value_name = "NAME")]
    pub(crate) devices: Vec<String>,
    /// Decrypt packets with the key in this file.
    ///
    /// Packets that do not open, and those that --snaplen cut, are written as they were captured.
    /// Also SOFTEFA_KEY_FILE.
    #[arg(long, value_name = "FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Capture only what this queue pair sends or receives; may be repeated.
    ///
    /// Packets of a RoCE connection name only their receiver.
    #[arg(long = "qp", value_name = "NUMBER")]
    pub(crate) qpns: Vec<u32>,
    /// Capture this many bytes of each packet, without IP and UDP headers.
    #[arg(long, value_name = "BYTES", default_value = "65535", value_parser = value_parser!(u32).range(64..=65535))]
    pub(crate) snaplen: u32,
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
    #[command(after_help = fault_help())]
    Set(FaultSetArgs),
    /// End the fault that was set: from then on, --fault-script and --fault apply again.
    Clear(FaultClearArgs),
    /// Show for each device which fault is in force, who set it, and what it has hit.
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
    /// Only what goes to this address, and messages that come from it.
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

/// The runs that are meant.
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

/// `softefa gateway`.
#[derive(Debug, Args)]
pub(crate) struct GatewayArgs {
    /// An IP address to serve; may be repeated [default: all addresses that this machine has
    /// now].
    #[arg(long = "address", value_name = "IP")]
    pub(crate) addresses: Vec<IpAddr>,
    /// The UDP port to own.
    #[arg(long, value_name = "N", default_value_t = softefa::gateway::PORT, value_parser = value_parser!(u16).range(1..))]
    pub(crate) port: u16,
    /// Write the counters as JSON, each second and at the end.
    #[arg(long, value_name = "FILE")]
    pub(crate) counters: Option<PathBuf>,
    /// Print the counters to standard error at the end.
    #[arg(long)]
    pub(crate) stats: bool,
    /// Do not look at IP headers, as if the right to do so were missing.
    #[arg(long)]
    pub(crate) no_raw: bool,
}

/// Reads a time in seconds, 0.1 to a day.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(Duration::from_secs_f64(seconds)),
        _ => Err("write seconds from 0.1 to 86400".to_owned()),
    }
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
                Err(Failure::own(one_line(&error, words)))
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
        Ok(_) => Err(Failure::own("no fault given; write for example loss=5%")),
        Err(error) => Err(Failure::own(one_line(&error, words.map(str::to_owned)))),
    }
}

/// Help that was asked for is a success; help shown because nothing was given is a usage error.
fn print_help(error: &clap::Error) -> Result<Option<Command>, Failure> {
    // A closed pipe (`softefa --help | head`) is no reason to complain.
    let _ = error.print();
    match error.kind() {
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            Err(Failure::own("no command given; write for example: softefa run -- PROGRAM"))
        }
        _ => Ok(None),
    }
}

/// The help that knows the options of a command line.
fn help_of(words: impl Iterator<Item = String>) -> String {
    let mut help = "softefa".to_owned();
    let mut command = Cli::command();
    for word in words.skip(1) {
        let Some(subcommand) = command.find_subcommand(&word).cloned() else { break };
        help = help + " " + subcommand.get_name();
        command = subcommand;
    }
    help + " --help"
}

/// What clap reports of a command line, in one line: what is wrong, its tip when it has one, where
/// to read on.
fn one_line(error: &clap::Error, words: impl Iterator<Item = String>) -> String {
    let help = help_of(words);
    if error.kind() == ErrorKind::MissingRequiredArgument {
        return missing(error, &help);
    }
    let text = error.to_string();
    let what = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
    let mut line = what.trim_end_matches(':').to_owned();
    for kind in [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand] {
        if let Some(suggestion) = error.get(kind) {
            line.push_str(&format!("; did you mean {suggestion}?"));
        }
    }
    if let Some(ContextValue::Strings(values)) = error.get(ContextKind::ValidValue) {
        if !values.is_empty() {
            line.push_str(&format!("; it is one of {}", values.join(", ")));
        }
    }
    line + "; see " + &help
}

fn missing(error: &clap::Error, help: &str) -> String {
    let Some(ContextValue::Strings(names)) = error.get(ContextKind::InvalidArg) else {
        return format!("an argument is missing; see {help}");
    };
    if names.iter().any(|name| name.contains("PROGRAM")) {
        return "no program given; usage: softefa run [OPTIONS] -- PROGRAM [ARGS]...".into();
    }
    format!("{} is missing; see {help}", names.join(" and "))
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
