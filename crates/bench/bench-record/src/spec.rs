//! The specification of a measurement, which the client sends to the server.

mod numbers;
mod order;

use serde::{Deserialize, Serialize};

pub use self::numbers::{parse_bytes, parse_list, within};
pub use self::order::{Order, Stamp};
pub use crate::workload::Benchmark;

use crate::fabric_name::FabricName;
use crate::workload::WorkSpec;

/// The number of receives that both sides of a ping-pong post.
pub const PING_PONG_RECEIVES: usize = 16;

/// Kind of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum EndpointKind {
    /// Reliable datagrams.
    Rdm,
    /// Unreliable datagrams; losses are counted.
    Dgram,
}

/// The operation that moves bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `fi_send` / `fi_recv`.
    Send,
    /// `fi_tsend` / `fi_trecv`.
    Tagged,
    /// `fi_inject`: copied by the call, no completion.
    Inject,
    /// Read the peer's memory.
    Read,
    /// Write the peer's memory.
    Write,
    /// `fi_inject_write`: a write, copied by the call.
    InjectWrite,
    /// Add to 8 bytes of the peer's memory, and fetch what they were.
    #[value(name = "fetch_add", alias = "fetch-add")]
    FetchAdd,
    /// Replace 8 bytes of the peer's memory if they are what they are compared with, and fetch what
    /// they were.
    #[value(name = "compare_swap", alias = "compare-swap")]
    CompareSwap,
    /// `fi_atomic`: add to 8 bytes of the peer's memory, and fetch nothing.
    Add,
}

impl Operation {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Tagged => "tagged",
            Self::Inject => "inject",
            Self::Read => "read",
            Self::Write => "write",
            Self::InjectWrite => "inject-write",
            Self::FetchAdd => "fetch_add",
            Self::CompareSwap => "compare_swap",
            Self::Add => "add",
        }
    }

    /// Returns true if the operation uses the peer's memory without asking.
    pub const fn is_one_sided(self) -> bool {
        matches!(self, Self::Read | Self::Write | Self::InjectWrite) || self.is_atomic()
    }

    /// Returns true if the operation changes memory of the peer in one step.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::FetchAdd | Self::CompareSwap | Self::Add)
    }

    /// Returns true if the call itself copies the bytes.
    pub const fn is_injected(self) -> bool {
        matches!(self, Self::Inject | Self::InjectWrite)
    }
}

/// The rule by which a stream posts again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    /// As soon as one operation has completed.
    #[default]
    Sliding,
    /// When four fifths of the depth have completed: the first suite's way.
    Refill,
}

/// The distribution of an open loop's requests over time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Independent of each other.
    #[default]
    Poisson,
    /// At equal distances.
    Fixed,
}

/// The rules by which a stream keeps its depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    pub window: Window,
    /// The number of operations of which one completes (selective completion); 1: each completes.
    pub complete_every: usize,
    /// The number of operations that are handed to the fabric at once.
    pub post_list: usize,
    /// True if the program sleeps until a completion comes, instead of polling.
    #[serde(default, skip_serializing_if = "is_false")]
    pub events: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_false(value: &bool) -> bool {
    !*value
}

impl Default for Flow {
    fn default() -> Self {
        Self { window: Window::Sliding, complete_every: 1, post_list: 1, events: false }
    }
}

/// One session: its nodes, their endpoints, and the benchmark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobSpec {
    pub benchmark: Benchmark,
    /// The number of nodes that take part: the client, which is node 0, and its servers.
    pub nodes: usize,
    /// The number of the node that gets this specification.
    pub node: usize,
    /// True if threads that never sleep outnumber the processors: idle ones give theirs away.
    pub crowded: bool,
    pub fabric: FabricName,
    pub domain: Option<String>,
    pub endpoint: EndpointKind,
    pub operation: Operation,
    pub flow: Flow,
    pub arrivals: Arrivals,
    /// The length of messages of the streams that load the fabric, in bytes; 0: there are no such
    /// streams.
    pub load_size_bytes: usize,
    /// The specification of a workload's calls.
    pub work: WorkSpec,
    /// The length of the longest message of the session in bytes.
    pub max_size_bytes: usize,
    /// The length of the memory that messages come from, at random offsets, and that one-sided
    /// operations go to, in bytes; 0: as much as the depth needs.
    pub memory_bytes: usize,
    /// The seed of all random numbers.
    pub seed: u64,
    /// The number of measuring threads of each node.
    pub threads: usize,
    /// The number of endpoints of each thread to each peer.
    pub endpoints: usize,
    /// The number of sends that may be in flight at the client, for each endpoint.
    pub tx_depth: usize,
    /// The number of receives that points may have posted at the server, for each endpoint.
    pub rx_depth: usize,
    /// The time without any progress after which a side gives up, in ms.
    pub timeout_ms: u64,
    /// The processors of the server's measuring threads, in turn; empty: any.
    pub server_cpus: Vec<usize>,
    /// The NUMA node of the server's measuring threads and their memory; `None`: any.
    pub server_numa: Option<usize>,
}

/// The condition that finishes a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    DurationMs(u64),
    Iterations(u64),
}

/// One measurement within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointSpec {
    pub size_bytes: usize,
    pub depth: usize,
    /// The number of receives posted at the receiver: as many as the depth, unless others were
    /// asked for.
    pub rx_depth: usize,
    pub limit: Limit,
    pub warmup_ms: u64,
    pub validate: bool,
    /// The number of messages per second of each thread that sends by the clock; 0: as fast as it
    /// can.
    pub rate_per_s: u64,
    /// The workload's parameter: records in a message (piggyback), levels of the tree that the
    /// client keeps (index), bytes of a chunk (fileget, incast, collective) or of a buffer
    /// (shuffle); 0 for other workloads.
    pub parameter: usize,
    /// The treatment of the order of a stream's messages.
    #[serde(default)]
    pub order: Order,
}

impl JobSpec {
    /// Returns the nodes that this one has endpoints to, in the order in which it connects them.
    pub fn peers(&self) -> Vec<usize> {
        self.benchmark.topology().peers(self.nodes, self.node)
    }
}

impl PointSpec {
    /// Makes a plain point: no warm-up by time, nothing checked, as fast as it can.
    pub const fn new(size_bytes: usize, depth: usize, limit: Limit) -> Self {
        Self {
            size_bytes,
            depth,
            rx_depth: depth,
            limit,
            warmup_ms: 0,
            validate: false,
            rate_per_s: 0,
            parameter: 0,
            order: Order::Any,
        }
    }

    /// Returns the warm-up of a point that counts iterations instead of time: a tenth, at least
    /// 100.
    pub const fn warmup_iterations(&self) -> u64 {
        match self.limit {
            Limit::DurationMs(_) => 0,
            Limit::Iterations(n) => {
                let tenth = n / 10;
                if tenth < 100 { 100 } else { tenth }
            }
        }
    }
}
