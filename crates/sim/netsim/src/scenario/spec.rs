//! The structure of a scenario file.

use super::data::Trace;
use super::expect::Expect;
use super::fault::Fault;
use super::field::{Bounded, Seed};
use super::network::{Network, Topology};
use crate::transport::Kind;
use serde::Deserialize;
use toml::Spanned;

/// A scenario file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a scenario")]
pub(crate) struct File {
    /// A line that says what it shows.
    pub(crate) title: String,
    /// Seeds, one run for each.
    pub(crate) seeds: Spanned<Vec<Seed>>,
    /// Virtual time after which a run ends in any case.
    pub(crate) limit_ms: Bounded<1, 60_000>,
    pub(crate) topology: Spanned<Topology>,
    pub(crate) network: Network,
    #[serde(default)]
    pub(crate) transport: Transport,
    pub(crate) workload: Workloads,
    #[serde(default)]
    pub(crate) fault: Vec<Fault>,
    #[serde(default)]
    pub(crate) expect: Expect,
}

impl File {
    /// Returns the transports that its flows use, once for each workload and each row of a trace.
    pub(super) fn transports(&self) -> impl Iterator<Item = Kind> {
        let default = self.transport.kind;
        self.named_transports().map(move |kind| kind.unwrap_or(default))
    }

    /// Returns the transports as workloads and rows name them.
    pub(super) fn named_transports(&self) -> impl Iterator<Item = Option<Kind>> {
        let Workloads { incast, persistent_incast, permutation, .. } = &self.workload;
        let Workloads { rack_to_rack, all_to_all, poisson, trace, .. } = &self.workload;
        let rows = trace.iter().flat_map(|spec| {
            let default = spec.get_ref().transport;
            spec.get_ref().transfers.iter().map(move |row| row.transport.or(default))
        });
        incast
            .iter()
            .map(|spec| spec.get_ref().transport)
            .chain(persistent_incast.iter().map(|spec| spec.get_ref().transport))
            .chain(permutation.iter().map(|spec| spec.get_ref().transport))
            .chain(rack_to_rack.iter().map(|spec| spec.get_ref().transport))
            .chain(all_to_all.iter().map(|spec| spec.get_ref().transport))
            .chain(poisson.iter().map(|spec| spec.get_ref().transport))
            .chain(rows)
    }
}

/// The transport that flows use, and the settings of the engine; missing ones are as in its preset
/// for simulations.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, [transport]")]
pub(crate) struct Transport {
    /// Transport of all workloads that name none.
    pub(crate) kind: Kind,
    /// Length of a full data packet on the wire, its frame included.
    pub(crate) packet_bytes: Option<Bounded<256, 9000>>,
    pub(crate) paths: Option<Bounded<1, 256>>,
    pub(crate) ack_every_packets: Option<Bounded<1, 64>>,
    /// Number of messages of a transfer that an application keeps posted.
    pub(crate) posted_messages: Option<Bounded<1, 4096>>,
    pub(crate) hint: Option<bool>,
    pub(crate) pacing: Option<bool>,
    /// First window as a percentage of rate x round-trip time.
    pub(crate) initial_window_percent: Option<Bounded<1, 1000>>,
    pub(crate) tcp: Tcp,
    pub(crate) roce: Roce,
}

/// Settings of RoCEv2 queue pairs.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, [transport.roce]")]
pub(crate) struct Roce {
    /// Congestion control. Without it the window stays, and the network's pauses do the rest.
    pub(crate) congestion: Option<Spanned<RoceCongestion>>,
    /// Maximum number of packets that are sent and not acknowledged; 128 when it is missing.
    pub(crate) window_packets: Option<Bounded<1, 1_000_000>>,
    /// Number of packets after which a receiver acknowledges, at most a quarter of the window; 1
    /// when it is missing.
    pub(crate) ack_every_packets: Option<Bounded<1, 64>>,
    /// Silence after which the sender goes back; 67,109 (4.096 x 2^14) when it is missing. The
    /// shortest there is has 4.096 x 2.
    pub(crate) timeout_us: Option<Bounded<9, 60_000_000>>,
    /// Number of timeouts and gaps in a row that are tolerated: one more is the end; 7 when it is
    /// missing.
    pub(crate) retries: Option<Bounded<0, 7>>,
    /// Minimum time between two notifications of a DCQCN receiver; 50 when it is missing.
    pub(crate) cnp_interval_us: Option<Spanned<Bounded<1, 1_000_000>>>,
    /// Step of DCQCN's additive increase in Mbit/s; 40 when it is missing, as in the paper.
    pub(crate) additive_mbps: Option<Spanned<Bounded<1, 100_000>>>,
    /// Step of DCQCN's hyper increase in Mbit/s; 400 when it is missing, which the paper does not
    /// say.
    pub(crate) hyper_mbps: Option<Spanned<Bounded<1, 100_000>>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RoceCongestion {
    #[default]
    None,
    Dcqcn,
    /// The engine's own window, which begins small, grows, and halves after a gap.
    Window,
}

/// Settings of TCP connections, also of DCTCP's.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "a table, [transport.tcp]")]
pub(crate) struct Tcp {
    pub(crate) congestion: TcpCongestion,
    /// Shortest retransmission timeout; 50 when it is missing, as in the SRD paper's evaluation.
    pub(crate) min_rto_ms: Option<Bounded<1, 60_000>>,
    /// First window; 10 when it is missing, as in Linux (`TCP_INIT_CWND`), whatever the segments'
    /// size: RFC 6928 has a limit in bytes, too.
    pub(crate) initial_window_packets: Option<Bounded<1, 1000>>,
    /// Whether losses are found by time and the tail is probed (RFC 8985), as Linux does since
    /// 2018; else three segments must arrive after a lost one (RFC 6675).
    pub(crate) rack: bool,
    /// Whether slow start slows down when round-trip times rise by 4 to 16 ms (HyStart++, RFC
    /// 9406).
    pub(crate) hystart: bool,
    /// Whether recoveries send in proportion to what arrives (RFC 9937); else when the network is
    /// empty enough (RFC 6675).
    pub(crate) prr: bool,
    /// Whether only every second segment is acknowledged, or after 40 ms; else each is.
    pub(crate) delayed_ack: bool,
    /// Maximum number of bytes that an application has written and that are not acknowledged; 4 MiB
    /// when it is missing, as Linux' limit (`tcp_wmem`).
    pub(crate) send_buffer_bytes: Option<Bounded<10_000, 1_000_000_000>>,
    /// Bytes that an adapter sends of a connection before it turns to the next: 64 KiB when it is
    /// missing, the largest unit that Linux hands to an adapter to cut (TSO); 1 for no bursts.
    pub(crate) burst_bytes: Option<Bounded<1, 1_000_000>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum TcpCongestion {
    #[default]
    Cubic,
    NewReno,
}

/// The workloads section: the transfers of a run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default, expecting = "tables, as [[workload.permutation]]")]
pub(crate) struct Workloads {
    pub(crate) incast: Vec<Spanned<Incast>>,
    pub(crate) persistent_incast: Vec<Spanned<PersistentIncast>>,
    pub(crate) permutation: Vec<Spanned<Permutation>>,
    pub(crate) rack_to_rack: Vec<Spanned<RackToRack>>,
    pub(crate) all_to_all: Vec<Spanned<AllToAll>>,
    pub(crate) poisson: Vec<Spanned<Poisson>>,
    pub(crate) trace: Vec<Spanned<Trace>>,
}

impl Workloads {
    /// Returns the interval at which the shares of flows that send all the time are measured.
    pub(crate) fn share_interval_ms(&self) -> Option<u32> {
        self.persistent_incast.iter().map(|spec| spec.get_ref().interval_ms.get()).min()
    }
}

pub(crate) type Rounds = Bounded<1, 10_000>;
/// Maximum delay of the begin of each transfer, drawn evenly: no two hosts are in step.
pub(crate) type JitterUs = Bounded<1, 1_000_000>;
pub(crate) type TransferBytes = Bounded<1, 4_000_000_000>;

/// Processes of hosts in other racks send to a process of host 0, all at once.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.incast]]")]
pub(crate) struct Incast {
    pub(crate) servers: Bounded<1, 100_000>,
    pub(crate) processes: Bounded<1, 1000>,
    pub(crate) bytes: TransferBytes,
    /// Number of rounds, each begun when all transfers have ended (a barrier); one when it is
    /// missing.
    pub(crate) rounds: Option<Rounds>,
    pub(crate) jitter_us: Option<JitterUs>,
    pub(crate) transport: Option<Kind>,
}

/// Processes of hosts in other racks send to a process of host 0 all the time; each flow's
/// throughput is measured.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.persistent_incast]]")]
pub(crate) struct PersistentIncast {
    pub(crate) servers: Bounded<1, 100_000>,
    pub(crate) processes: Bounded<1, 1000>,
    /// Time at which they stop sending.
    pub(crate) until_ms: Bounded<1, 60_000>,
    /// Interval at which throughput is measured; the shortest of a file holds for all.
    pub(crate) interval_ms: Bounded<1, 60_000>,
    pub(crate) transport: Option<Kind>,
}

/// Every host sends to one other and receives from one other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.permutation]]")]
pub(crate) struct Permutation {
    pub(crate) bytes: TransferBytes,
    pub(crate) jitter_us: Option<JitterUs>,
    pub(crate) transport: Option<Kind>,
}

/// Processes of consecutive hosts of a rack send to processes at the same places of another rack.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.rack_to_rack]]")]
pub(crate) struct RackToRack {
    pub(crate) from_rack: u32,
    pub(crate) to_rack: u32,
    /// Place of the first host in its rack; 0 when it is missing.
    #[serde(default)]
    pub(crate) first_host: u32,
    pub(crate) hosts: Bounded<1, 1024>,
    pub(crate) processes: Bounded<1, 1000>,
    pub(crate) bytes: TransferBytes,
    /// Number of rounds, each begun when all transfers have ended (a barrier); one when it is
    /// missing.
    pub(crate) rounds: Option<Rounds>,
    pub(crate) jitter_us: Option<JitterUs>,
    pub(crate) transport: Option<Kind>,
}

/// The first hosts all send to each other.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.all_to_all]]")]
pub(crate) struct AllToAll {
    pub(crate) hosts: Bounded<2, 1024>,
    pub(crate) bytes: TransferBytes,
    pub(crate) jitter_us: Option<JitterUs>,
    pub(crate) transport: Option<Kind>,
}

/// Transfers begin at random times at every host, to random hosts.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table, [[workload.poisson]]")]
pub(crate) struct Poisson {
    /// Share of each host's link that they take on average, headers included.
    pub(crate) load_percent: Bounded<1, 100>,
    /// Time until which transfers begin.
    pub(crate) until_us: Bounded<1, 60_000_000>,
    /// Sizes in bytes, each with the percentage of transfers that are not larger; linear between.
    #[serde(default)]
    pub(crate) sizes: Vec<(TransferBytes, f64)>,
    /// File beside the scenario with the sizes, in rows of `bytes,percent`.
    pub(crate) sizes_file: Option<String>,
    pub(crate) transport: Option<Kind>,
}
