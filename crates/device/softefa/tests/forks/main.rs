//! Tests whose program forks: the child would keep descriptors open that other tests close.

#[path = "../common/mod.rs"]
mod common;
mod fork_handlers;
mod local_scripted;
mod threads;
