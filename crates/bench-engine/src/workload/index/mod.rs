//! An index that its owner holds and others look up: the owner walks the tree when it is called, the
//! client READs its nodes, or both do a part.

mod owner;
mod tree;
mod walker;

pub(super) use self::owner::{Owner, stand_by, wire_key};
pub(crate) use self::tree::{NODE_BYTES, TREE_BYTES, VALUE_BYTES_MAX};
pub(super) use self::tree::{Tree, keys, scattered};
pub(super) use self::walker::{Inner, look_up};
