//! An index that its owner holds and others look up: the owner walks the tree when it is called, the
//! client READs its nodes, or both do a part.

mod owner;
mod tree;
mod walker;

use serde::{Deserialize, Serialize};

pub(super) use self::owner::{Owner, stand_by, wire_key};
pub(crate) use self::tree::{NODE_BYTES, TREE_BYTES, VALUE_BYTES_MAX};
pub(super) use self::tree::{Tree, keys, scattered};
pub(super) use self::walker::{Inner, look_up};

/// Levels that a client may keep: all inner ones.
pub(super) const KEPT_MAX: usize = tree::LEVELS - 1;

/// Who walks the tree.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// The owner, for each call.
    #[default]
    Rpc,
    /// The client, by READs of one node after the other.
    Read,
    /// The owner down to the leaf, which the client READs (Ziegler et al., SIGMOD 2019).
    Hybrid,
}

impl Way {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rpc => "RPC",
            Self::Read => "READ",
            Self::Hybrid => "RPC, then READ",
        }
    }
}
