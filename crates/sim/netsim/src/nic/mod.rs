//! A model of an RDMA adapter and its host, in virtual time: it predicts what a benchmark would
//! measure on them.
//!
//! Threads post messages and take completions (`program`), adapters work in rounds (`adapter`), the
//! network delays (`model`). A [`Profile`] holds what each of these costs. The benchmarks of
//! published tables run as programs on the model (`experiment`, `replay`); the tables themselves
//! (crate `published`) are read only to be put beside the results ([`Comparison`]).
//! `docs/NIC-MODEL.md` explains mechanism and parameters.

mod adapter;
mod comparison;
mod experiment;
mod model;
mod node;
mod profile;
mod program;
mod receive_window;
mod replay;

pub use comparison::{Comparison, Errors, Line, Record};
pub use profile::{Profile, ProfileError};
pub use published::Fabric;
