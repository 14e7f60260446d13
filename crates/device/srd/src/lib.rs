//! The SRD protocol as a value: reliable, unordered, multipath datagrams.
//!
//! An [`Endpoint`] is one queue pair's half of the protocol. It owns no socket, clock, thread or
//! random source: the host program (a software NIC, a simulator, a test) hands it datagram headers
//! and the time, asks it what to transmit, and reads completions. It never sees payload bytes,
//! only descriptors and lengths. Rules are numbered `SRD-n.m` in `docs/PROTOCOL.md`.
//!
//! One turn of a host:
//!
//! 1. [`Endpoint::handle_datagram`] for each datagram received; each [`Arrival`] is answered at
//!    once with [`Endpoint::accept`] or [`Endpoint::reject`]. A frame has several, see
//!    [`Endpoint::next_framed`].
//! 2. [`Endpoint::send`] for each message the application posted.
//! 3. [`Endpoint::handle_timeout`] when [`Endpoint::poll_timeout`] has passed.
//! 4. [`Endpoint::flush_acks`] when nothing more is going to be sent in this turn.
//! 5. [`Endpoint::poll_transmit`] until it returns `None`.
//! 6. [`Endpoint::poll_event`] until it returns `None`.
#![forbid(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod config;
mod congestion;
mod context;
mod endpoint;
mod error;
mod event;
mod hint;
mod id;
mod loss;
mod pacer;
mod path;
mod peer;
mod recv;
mod rng;
mod rtt;
mod secret;
mod send;
mod siphash;
mod stats;
mod time;
mod timer;
pub mod wire;

pub use config::{Config, CongestionKind};
pub use endpoint::Endpoint;
pub use error::{DropReason, Reject, SendError, Status};
pub use event::{Arrival, Event, Framed, Message, Received, Transmit};
pub use id::{Address, MsgId, PathId, PeerId, Psn};
pub use secret::Seed;
pub use stats::{OrderStats, PathStats, Stats, StrangerStats};
pub use time::Instant;

/// Size in bytes of the header buffer that [`Endpoint::poll_transmit`] fills.
pub const HEADER_MAX: usize = 320;

/// No message is overtaken by this many later messages to the same peer (SRD-4.2), and
/// duplicates are recognised within this many sequence numbers.
pub const PSN_WINDOW: u32 = 8192;
