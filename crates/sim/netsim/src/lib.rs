//! A packet-level datacenter in virtual time that hosts the [`srd`] and [`rc`] engines unchanged.
//!
//! Time is integer picoseconds, randomness comes from one seed: the same scenario and seed give
//! the same run on every machine, to the last packet. A [`Scenario`] is a TOML file; running it
//! gives an [`Outcome`], or the [`Violation`] of a rule that holds in every run: messages arrive
//! exactly once, packets neither appear nor disappear, queues stay within their buffers.
//!
//! Below: `sim` (the loop, hosts, sockets) with `transport` (what sockets speak) on `network`
//! (packets on their way) on `topology` (where they go), `link` (queue, rate, faults), `pfc`
//! (pauses) and [`Wheel`] (what happens next).
#![forbid(unsafe_code)]
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "indices are 32 bits wide to keep packets small; scenarios bound every count"
)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod census;
mod check;
mod delivered;
mod fault;
mod flow;
mod id;
mod link;
mod network;
pub mod nic;
mod outcome;
mod packet;
mod percentile;
mod pfc;
mod rng;
mod sample;
mod scenario;
mod share;
mod sim;
mod slowdown;
mod socket;
mod table;
mod time;
mod topology;
mod transport;
mod wheel;
mod workload;

pub use check::Violation;
pub use id::{FlowId, MessageId, SocketId};
pub use outcome::{FlowOutcome, Outcome, Summary};
pub use pfc::PausedLink;
pub use sample::{FlowSamples, QueueUse, Samples, UplinkUse};
pub use scenario::{Bound, Figures, Scenario, ScenarioError};
pub use share::{FlowShares, ShareSummary, Shares};
pub use slowdown::{SizeClass, by_size, slowdown_table};
pub use table::{open_flows, shares_table, table};
pub use time::Time;
pub use transport::Kind as Transport;
pub use wheel::Wheel;
