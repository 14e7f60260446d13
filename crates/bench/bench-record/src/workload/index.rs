//! Lookups in a tree, by calls or by READs.

use serde::{Deserialize, Serialize};

use super::about::{CALLS, SLEEPS};
use super::{About, Figures, WorkSpec};
use crate::names::Preset;
use crate::spec::{Benchmark, Operation};

/// The number of levels of the tree of an index, its leaves included.
pub const INDEX_LEVELS: usize = 3;
/// The most levels that a client of an index may keep: all inner ones.
pub const KEPT_MAX: usize = INDEX_LEVELS - 1;

/// The side that walks the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum LookupMethod {
    /// The owner, for each call.
    #[default]
    Rpc,
    /// The client, by READs of one node after the other.
    Read,
    /// The owner down to the leaf, which the client READs (Ziegler et al., SIGMOD 2019).
    Hybrid,
}

impl LookupMethod {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rpc => "RPC",
            Self::Read => "READ",
            Self::Hybrid => "RPC, then READ",
        }
    }
}

pub(super) const ABOUT: About = About {
    name: "index",
    names: &[Preset {
        name: "index",
        help: "Lookups in a B+-tree of the server, by calls or by READs of its nodes (--way); --sizes is the \
               value",
        sizes: "8",
        benchmark: Benchmark::Index,
        ..super::rpc::RPC
    }],
    figures: Figures::Lookups,
    parameter: Some("levels kept"),
    words: |work| Some(format!("by {}", work.way.name())),
    reads: &[CALLS, SLEEPS, &["endpoints", "rx_depth", "post_list", "zipf", "way", "kept"]],
    parameters: |args| {
        let mut kept = args.index.kept.clone();
        kept.sort_unstable();
        kept.dedup();
        Ok(if kept.is_empty() { vec![0] } else { kept })
    },
    operation: |args| {
        matches!(args.index.way, Some(LookupMethod::Read | LookupMethod::Hybrid))
            .then_some(Operation::Read)
    },
    spec: |args, _| {
        let Args { way, kept } = &args.index;
        if !kept.is_empty() && *way != Some(LookupMethod::Read) {
            return Err("--kept does nothing without --way read".to_owned());
        }
        if kept.iter().any(|kept| *kept > KEPT_MAX) {
            return Err(format!("--kept: give 0 to {KEPT_MAX}, the tree has one more level"));
        }
        // The keys follow from the length of the values.
        Ok(WorkSpec { keys: 0, way: way.unwrap_or_default(), ..args.shared.by_key()? })
    },
    ..About::CALLS
};

/// Options of `index`.
#[derive(Debug, Clone, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Who walks the tree of index. Default: rpc.
    #[arg(long)]
    way: Option<LookupMethod>,
    /// Upper levels of the tree that the client keeps (index --way read), 0 to 2, or several:
    /// 0,1,2. Default: 0.
    #[arg(long, value_delimiter = ',', value_name = "LEVELS")]
    kept: Vec<usize>,
}
