//! The figures of an operation of all ranks.

use serde::{Deserialize, Serialize};

/// The operations of all ranks of a program, one after the other, with barriers between them. An
/// operation lasts as long as on its slowest rank; the distribution is the point's
/// `operation_time`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Collective {
    /// The number of ranks; 0: unknown.
    #[serde(default, skip_serializing_if = "is_unknown")]
    pub ranks: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    pub mean_us: f64,
    /// The rate that every link carries at least, by the mean time: the bus bandwidth of
    /// nccl-tests; absent for barriers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_gbit_per_s: Option<f64>,
    /// The share of the operation's time that computing hides, if the operation does not block.
    /// Then all other times contain as much computing as the operation lasts alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overlap_percent: Option<f64>,
    /// The mean time of the operation alone, if other times contain computing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone_us: Option<f64>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_unknown(ranks: &usize) -> bool {
    *ranks == 0
}
