//! `softefa run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum, value_parser};

use super::DeviceArgs;
use super::fault::list_of_faults;

const EXIT_CODES: &str = "\
Exit codes of 'softefa run':
  the program's own, or 128 + N when signal N ended it; Ctrl-C (SIGINT, SIGQUIT) ends softefa, too
  125  softefa itself failed: bad option, no adapter library, counters not written
  126  the program was found but cannot be executed
  127  the program was not found";

/// What stands below the options of `softefa run`.
pub(super) fn help() -> String {
    let head = "Faults (--fault), on what is sent, what arrives, or the device:\n";
    let tail =
        "Times count from when the device is opened. The same seed hits the same datagrams.\n\n";
    format!("{head}{}{tail}{EXIT_CODES}", list_of_faults(|_| true))
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
    /// Explain the mistakes of programs on standard error, each of them once.
    ///
    /// It gives the reason of every refused call and failed work request, and names everything that
    /// works here but not on hardware. Also SOFTEFA_LINT=1.
    #[arg(long)]
    pub(crate) lint: bool,
    /// Send each post at once.
    ///
    /// Without this option, posts of a program that polls may wait for its next poll, so that they
    /// leave together. Also SOFTEFA_SEND_AT_ONCE=1.
    #[arg(long)]
    pub(crate) send_at_once: bool,
    /// Inject faults at given times, from a TOML file (docs/FAULTS.md). Times count from when the
    /// first device is opened, and each fault replaces the one before it.
    #[arg(long, value_name = "FILE")]
    pub(crate) fault_script: Option<PathBuf>,
    /// The carrier of packets between programs of one user on one machine: auto (shared memory if
    /// that is possible), udp, or shm (like auto, but do not start if memory cannot be shared).
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
    /// Keep the private directory of the run (sysfs tree, counters) and print its path.
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
