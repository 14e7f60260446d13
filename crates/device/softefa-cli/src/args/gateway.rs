//! `softefa gateway`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Args, value_parser};

pub(super) const HELP: &str = "\
Devices with gateway=4791 are behind the gateway and reach everybody else at that port:
  softefa gateway                                          # first terminal, as root or with CAP_NET_RAW
  softefa run --device roce0=10.0.0.1,profile=roce,gateway=4791 -- ibv_rc_pingpong -g 0

It serves the programs of its own user, or of all users if root runs it. SIGINT, SIGTERM or SIGHUP ends
it, and with it the connections of its programs. Counters:
  rx_pkts, rx_bytes        packets and bytes that arrived
  rx_overruns              packets lost, because they came faster than the gateway could take them
  forwarded_pkts           given to the kernel for a queue pair, whose socket may be full
  forwarded_cm_msgs        given to the kernel for a connection manager (rdma_cm)
  answered_cm_msgs         for no program, so the gateway itself handled them
  tx_farewells             connections whose peers were told that the program is gone
  drop_malformed           not a packet of RoCE v2
  drop_icrc                damaged, forged, or impossible to check
  drop_no_queue_pair       no program has that queue pair
  drop_no_connection       a message for no program, which needs no answer
  drop_no_room             the kernel did not take it for the program
  refused_requests         requests of programs that were refused

Exit codes: 0, or 125 when it cannot serve, for example because the port is taken";

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
