//! The benchmarks: the names and options by which the user asks for each, their meanings, and the
//! figures. `list` names all benchmarks, and [`About`] has the facts about each.

#[macro_use]
mod list;
mod about;
mod args;
mod atomics;
mod bandwidth;
mod bidirectional;
mod collective;
mod connections;
mod fileget;
mod incast;
mod index;
mod kv;
mod latency;
mod log;
mod matrix;
mod open_loop;
mod own;
mod piggyback;
mod ping_pong;
mod rma;
mod rpc;
mod sat_latency;
mod shuffle;
mod twopc;

use serde::{Deserialize, Serialize};

pub use self::about::{About, Figures, JobRequest};
pub use self::args::WorkArgs;
pub use self::atomics::Atomics;
pub use self::bidirectional::BothWays;
pub use self::collective::{Algorithm, Collective, CollectiveSpec, Pattern};
pub use self::connections::Connections;
pub use self::fileget::Source;
pub use self::incast::{Bursts, IdealFrom, Incast, IncastSpec, Shares};
pub use self::index::{INDEX_LEVELS, KEPT_MAX, LookupMethod};
pub use self::list::Benchmark;
pub use self::log::{Ack, Commit, LogSpec};
pub use self::matrix::{Matrix, NodePair};
pub use self::own::OwnSpec;
pub use self::shuffle::{Shuffle, ShuffleCount, ShuffleOf, TUPLE_BYTES_MIN};
use crate::spec::parse_list;

use self::args::NoArgs;

/// The length of a key in bytes, as in HERD and FaSST.
pub const KEY_BYTES: usize = 16;
/// The usual length of a flow's message: with its header within the MTU of an EFA.
const PART: &str = "8K";
/// The length of the longest chunk in bytes; longer ones are a mistake.
const CHUNK_MAX: usize = 1 << 28;

/// The specification of a workload, as its client asks for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkSpec {
    /// The length of the body of a get in bytes: the key and the data that comes with it.
    pub request_bytes: usize,
    /// The number of keys of all server threads together.
    pub keys: usize,
    /// The number of gets among 100 calls; the others are puts.
    pub gets_percent: u32,
    /// The exponent of Zipf's law times 100; 0: all keys are equally popular.
    pub zipf_hundredths: u32,
    /// The largest [`PointSpec::parameter`](crate::spec::PointSpec) of the session.
    #[serde(default)]
    pub parameter_max: usize,
    /// The time that the first record of a message waits for others, in µs.
    #[serde(default)]
    pub flush_us: u64,
    /// The side that walks the tree of an index.
    #[serde(default)]
    pub way: LookupMethod,
    /// The place where the server has its file.
    #[serde(default)]
    pub source: Source,
    /// Whether the workload is one of transactions.
    #[serde(default)]
    pub transactions: bool,
    /// Whether the rows of transactions are locked from prepare to end.
    #[serde(default)]
    pub locks: bool,
    /// The rate that the link of the client (incast) or of each node (shuffle) takes, in Mbit/s; 0:
    /// it was not given.
    #[serde(default)]
    pub link_mbit_per_s: u64,
    /// The part that only one workload has.
    #[serde(flatten, with = "own")]
    pub own: OwnSpec,
}

impl WorkSpec {
    /// The specification of benchmarks that are no workload.
    pub const NONE: Self = Self {
        request_bytes: 0,
        keys: 0,
        gets_percent: 0,
        zipf_hundredths: 0,
        parameter_max: 0,
        flush_us: 0,
        way: LookupMethod::Rpc,
        source: Source::Memory,
        transactions: false,
        locks: false,
        link_mbit_per_s: 0,
        own: OwnSpec::Nothing,
    };
}

/// Parses the numbers of an option. Fails if one of them is not right.
fn numbers(
    option: &str,
    text: &str,
    is_right: impl Fn(usize) -> bool,
    hint: &str,
) -> Result<Vec<usize>, String> {
    let numbers = parse_list(text).map_err(|reason| format!("{option}: {reason}"))?;
    match numbers.iter().find(|number| !is_right(**number)) {
        Some(number) => Err(format!("{option}: {number}: give {hint}")),
        None => Ok(numbers),
    }
}
