//! Tests whose program forks: the child would hold on to what other tests close.

#[path = "../common/mod.rs"]
mod common;
mod fork_handlers;
mod local_scripted;
mod threads;
