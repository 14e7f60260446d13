//! Gets and puts of a key-value store: calls as those of `rpc`, of which some put.

pub(super) use super::rpc::Rpc as Kv;
