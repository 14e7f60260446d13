//! Gets and puts of a key-value store: calls like those of `rpc`, some of which put.

pub(super) use super::rpc::Rpc as Kv;
