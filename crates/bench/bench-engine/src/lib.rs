//! The measuring engine: backends for each kind of fabric, lanes of threads, the sessions of a
//! client and its servers, benchmarks and workloads. A caller hands [`client::run`] a
//! [`client::MeasureRequest`], and gets a run of points.
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "figures for people: 53 bits of a counter are plenty"
)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod affinity;
pub mod backend;
mod bench;
pub mod client;
mod counters;
pub mod exchange;
mod group;
pub mod host;
pub mod interrupt;
mod lane;
mod lanes;
mod link;
mod live;
pub mod looks;
pub mod measure;
mod numa;
mod one_line;
mod pattern;
mod ramp;
mod refusal;
pub mod server;
mod session;
mod shared_clock;
mod sleeper;
#[cfg(test)]
mod stream_job;
pub mod target;
mod timeline;
mod watch;
mod workload;

pub use crate::pattern::SEQUENCE_BYTES;
