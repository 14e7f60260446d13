//! The measurements of `efa-bench` and their results: specs and names on one side, the result
//! schema on the other. Nothing here opens a fabric.
//!
//! The schema is `efa-bench/2`. Fields are only ever added; files of `efa-bench/1` can be read.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: 53 bits of a counter are plenty"
)]
#![allow(
    missing_docs,
    reason = "a field says by its name and unit what it holds; what is more is said beside it"
)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::spec::{Benchmark, EndpointKind, Flow, Operation};
use crate::wire::Wire;
use crate::workload::WorkSpec;

pub mod comparison;
pub mod cores;
pub mod counted;
pub mod fabric_name;
pub mod failure;
mod figures;
mod histogram;
mod machine;
pub mod names;
mod plan;
mod point;
mod ramp;
mod span;
pub mod spec;
mod timeline;
pub mod topology;
pub mod wire;
mod work;
pub mod workload;

pub use self::figures::{Bandwidth, Disorder, Distribution, Latency, OpenLoop, ReceiverCount};
pub use self::histogram::{PackedTimes, TimesOf};
pub use self::machine::Machine;
pub use self::plan::{DeviceCounters, LeftOut, PlanRecord};
pub use self::point::Point;
pub use self::ramp::Ramp;
pub use self::span::Span;
pub use self::timeline::{Slump, Timeline};
pub use self::work::{ActionTimes, Work};
pub use self::workload::{
    Atomics, BothWays, Bursts, Collective, Connections, IdealFrom, Incast, Matrix, NodePair,
    Shares, Shuffle, ShuffleCount, ShuffleOf,
};

/// The name and the version of the schema in every JSON file.
pub const SCHEMA: &str = "efa-bench/2";
/// The older version, whose files lack fields but hold nothing else.
pub const SCHEMA_BEFORE: &str = "efa-bench/1";

/// A complete result file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Results {
    pub schema: String,
    pub tool: String,
    /// The version of libfabric; empty if the machine had none.
    pub libfabric: String,
    /// The date and time in UTC, as ISO 8601.
    pub date: String,
    /// The command that made this file.
    pub command: String,
    pub host: Host,
    /// The hosts of other files that were united with this one; in no file.
    #[serde(skip)]
    pub other_hosts: Vec<Host>,
    /// The warnings that limit the meaning of the figures.
    pub warnings: Vec<String>,
    /// The plan that made the file, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<PlanRecord>,
    pub runs: Vec<Run>,
}

impl Results {
    /// Makes results from `runs`, without facts about their origin.
    #[must_use]
    pub fn of(runs: Vec<Run>, warnings: Vec<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            tool: String::new(),
            libfabric: String::new(),
            date: String::new(),
            command: String::new(),
            host: Host::default(),
            other_hosts: Vec::new(),
            warnings,
            plan: None,
            runs,
        }
    }
}

/// The facts about a machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Host {
    pub name: String,
    pub kernel: String,
    pub cpu: String,
    pub cores: usize,
    #[serde(default)]
    pub numa_nodes: usize,
    /// The measured cost of one clock read in ns.
    pub clock_read_ns: f64,
    /// The variables FI_* and SOFTEFA_*.
    pub environment: BTreeMap<String, String>,
}

/// The fabric in use, as its library describes it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct FabricRecord {
    pub provider: String,
    pub fabric: String,
    pub domain: String,
    pub mtu_bytes: Option<usize>,
    pub max_message_bytes: usize,
    pub inject_bytes: usize,
    pub tx_depth: usize,
    pub rx_depth: usize,
    /// The NUMA node of the adapter, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numa_node: Option<usize>,
    /// The description in words; for libfabric the text of `fi_info -v`.
    pub text: String,
}

/// One benchmark on one fabric.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The name that the reader sees: "Soft-EFA", "libfabric tcp", "EFA c5n.18xlarge (published)".
    pub name: String,
    /// The source of the figures: "measured", "imported" (from the output of another tool) or
    /// "published".
    pub source: String,
    /// The citation of published numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub citation: Option<String>,
    pub benchmark: Benchmark,
    pub endpoint: EndpointKind,
    pub operation: Operation,
    /// The name by which the user asked for the benchmark; empty in older files and for published
    /// figures.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub test: String,
    #[serde(default)]
    pub method: Method,
    /// The command that measures the run again.
    pub command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<FabricRecord>,
    /// True if all nodes were processes of one machine that met on its loopback address.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loopback: bool,
    /// The wire that the software device was told to send messages over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
    /// The set-up phases of the client in µs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub setup_us: Vec<(String, f64)>,
    /// The first round trip of the session in µs, whole, connection set-up of the provider
    /// included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold_start_us: Option<f64>,
    /// The first processor that the client's measuring threads were kept on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu: Option<usize>,
    /// The first processor that the server's measuring threads were kept on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu: Option<usize>,
    /// The software device's counters after the run, by side, if there is such a device.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, DeviceCounters>,
    /// False if the run ended early; then `error` says why and `points` are those that were done.
    pub complete: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    pub points: Vec<Point>,
}

/// The side that counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CountedAt {
    /// Messages are counted that arrived, at their receiver.
    #[default]
    Receiver,
    /// Operations are counted that completed, at their initiator.
    Initiator,
}

/// The method of a run, beyond the sizes and depths of its points.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Method {
    pub flow: Flow,
    /// The number of nodes that took part, the client included.
    pub nodes: usize,
    /// The number of measuring threads of each node.
    pub threads: usize,
    /// The number of endpoints of each thread to each peer.
    pub endpoints: usize,
    /// The number of directions: if it is 2, both sides sent at the same time, and figures are of
    /// both directions together.
    pub directions: usize,
    /// The number of sessions that were measured one after the other. With several sessions the
    /// blocks of a point are the figures of its sessions.
    pub runs: usize,
    /// The length of memory that is used at random offsets, in bytes; 0: as much as the depth
    /// needs.
    pub memory_bytes: usize,
    /// The length of messages of the streams beside a latency in bytes; 0: there were no streams.
    pub load_size_bytes: usize,
    pub counted_at: CountedAt,
    /// True if threads outnumbered processors and took turns.
    pub crowded: bool,
    /// The specification of a workload's calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub work: Option<WorkSpec>,
    /// The bound for the tail up to which rates were raised.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ramp: Option<Ramp>,
    /// The seed of the order of blocks and of all other random numbers.
    pub seed: u64,
}

impl Default for Method {
    fn default() -> Self {
        Self {
            flow: Flow::default(),
            nodes: 2,
            threads: 1,
            endpoints: 1,
            directions: 1,
            runs: 1,
            memory_bytes: 0,
            load_size_bytes: 0,
            counted_at: CountedAt::Receiver,
            crowded: false,
            work: None,
            ramp: None,
            seed: 0,
        }
    }
}

impl Run {
    /// Makes a complete run of reliable messages, of which nothing but its points is known.
    pub fn new(name: &str, benchmark: Benchmark, points: Vec<Point>) -> Self {
        Self {
            name: name.to_owned(),
            source: "measured".to_owned(),
            citation: None,
            benchmark,
            endpoint: EndpointKind::Rdm,
            operation: Operation::Send,
            test: String::new(),
            method: Method::default(),
            command: String::new(),
            fabric: None,
            is_loopback: false,
            wire: None,
            setup_us: Vec::new(),
            cold_start_us: None,
            client_cpu: None,
            server_cpu: None,
            counters: BTreeMap::new(),
            complete: true,
            error: None,
            points,
        }
    }

    /// Returns true if messages went through memory that both ends share, by the software device.
    pub fn is_in_memory(&self) -> bool {
        self.wire == Some(Wire::Shm)
    }

    /// Joins the same run of several sessions, one after the other: each session is one value of a
    /// point, and the middle one counts. `None` without sessions.
    pub fn of_sessions(sessions: Vec<Self>) -> Option<Self> {
        let runs = sessions.len();
        let mut sessions = sessions.into_iter();
        let mut whole = sessions.next()?;
        if runs == 1 {
            return Some(whole);
        }
        let place = |point: &Point| {
            (point.size_bytes, point.depth, point.rate_per_s, point.parameter, point.order)
        };
        let mut values: Vec<Vec<Point>> = whole.points.drain(..).map(|point| vec![point]).collect();
        for session in sessions {
            whole.complete &= session.complete;
            whole.error = whole.error.or(session.error);
            // A session that was interrupted has fewer points.
            for point in session.points {
                match values.iter_mut().find(|own| place(&own[0]) == place(&point)) {
                    Some(own) => own.push(point),
                    None => values.push(vec![point]),
                }
            }
        }
        whole.points = values.into_iter().filter_map(Point::middle).collect();
        whole.method.runs = runs;
        Some(whole)
    }

    /// Returns the kind of measurement in one word: the benchmark, or the operation of all ranks.
    pub fn kind(&self) -> &str {
        match self.benchmark {
            Benchmark::Collective if !self.test.is_empty() => &self.test,
            benchmark => benchmark.name(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_session_is_one_value_of_a_point() {
        let point = |size_bytes, p50_us: f64| {
            let distribution = Some(Distribution { p50_us, ..Distribution::default() });
            let latency = Latency { round_trips: Some(1), mean_us: p50_us, distribution };
            // The blocks of a session are not its value.
            let blocks = vec![p50_us, p50_us * 9.0];
            Point { blocks, latency: Some(latency), ..Point::new(size_bytes, 1) }
        };
        let session = |points| Run::new("mine", Benchmark::Latency, points);
        let mut cut = session(vec![point(16, 40.0)]);
        cut.complete = false;
        let sessions = vec![
            session(vec![point(8, 3.0), point(16, 30.0)]),
            session(vec![point(8, 1.0), point(16, 10.0)]),
            cut,
        ];
        let whole = Run::of_sessions(sessions).expect("sessions");
        assert_eq!((whole.method.runs, whole.complete), (3, false));
        assert_eq!((whole.points[0].figure(), whole.points[1].figure()), (Some(3.0), Some(30.0)));
        assert_eq!(whole.points[1].blocks, [30.0, 10.0, 40.0]);
        let alone = Run::of_sessions(vec![session(vec![point(8, 3.0)])]).expect("a session");
        assert_eq!((alone.method.runs, alone.points[0].blocks.len()), (1, 2));
        assert!(Run::of_sessions(Vec::new()).is_none());
    }
}
