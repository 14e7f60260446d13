//! Safe verbs: queue pairs that own their message memory and talk to one peer each.
//!
//! [`Prepared::open`] opens a device, a queue pair and its memory; [`Prepared::connect`] takes the
//! peer's [`address`](Prepared::address) and answers an [`Endpoint`], ready for posting. The memory
//! is cut into slots. An operation names a slot, which is busy until its completion and cannot be
//! borrowed meanwhile (`Error::SlotBusy`), because the device reads or writes it. A frozen slot
//! ([`Endpoint::freeze`]) can be posted any number of times at once, and is never written again.
//!
//! Everything belongs to the thread that opened it (`!Send`). Nothing happens between calls as far
//! as completions go: poll until every expected one came.
//!
//! SRD is that of EFA devices, made and posted by EFA's own calls; UD and RC work on any device
//! that has them.

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod device;
mod endpoint;
mod error;
mod events;
mod gid;
mod library;
mod memory;
mod poll;
mod post;
mod poster;
mod prepare;
mod sys;

pub use device::Facts;
pub use endpoint::{Endpoint, Remote};
pub use error::Error;
pub use poll::{Completion, CompletionKind};
pub use post::{Post, PostOptions};
pub use poster::Atomic;
pub use prepare::{Config, Prepared, Transport};
