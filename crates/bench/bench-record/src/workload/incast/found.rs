//! The figures of an incast. Names and meanings are those of netsim's results (docs/SIMULATOR.md),
//! so that both can be compared.

use serde::{Deserialize, Serialize};

/// Flows of several nodes into one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Incast {
    pub flows: usize,
    /// The rate that the receiver can take in Gbit/s.
    pub ideal_gbps: f64,
    /// The source of this rate.
    pub ideal_from: IdealFrom,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
}

/// The source of the rate that the receiver can take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IdealFrom {
    /// The rate was given (`--link-gbit`).
    Link,
    /// The rate was measured before each block, with one flow alone.
    SingleFlow,
}

/// Flows that all began at once; the distribution of their times is the point's `operation_time`.
/// "To ideal" is over `ideal_us`, in which the receiver can take all bytes of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    pub bursts: u64,
    pub ideal_us: f64,
    pub mean_us: f64,
    /// The time of the fastest flow of a burst, as a mean over bursts.
    pub min_to_ideal: f64,
    /// The mean time of all flows of all bursts.
    pub mean_to_ideal: f64,
    /// The time of the slowest flow of a burst, as a mean over bursts.
    pub max_to_ideal: f64,
    /// The time of the slowest flow of all bursts.
    pub worst_to_ideal: f64,
    /// Jain's index of the flows' mean rates, as a mean over bursts.
    pub jain: f64,
}

/// Flows that send all the time. "To fair" is over the mean throughput of a flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Shares {
    /// The mean length of an interval.
    pub interval_ms: f64,
    pub fair_gbps: f64,
    /// Jain's index of the flows' throughput over all intervals.
    pub jain: f64,
    /// The lowest index of one interval.
    pub jain_worst: f64,
    /// The mean throughput of the flow in which it is lowest.
    pub flow_min_to_fair: f64,
    /// The lowest throughput of any flow in any interval.
    pub min_to_fair: f64,
    /// The highest throughput of any flow in any interval.
    pub max_to_fair: f64,
    /// The throughput of each flow in each interval in Gbit/s.
    pub flows_gbps: Vec<Vec<f64>>,
}
