//! RoCEv2 transports as values: reliable and unreliable connections, datagrams, XRC.
//!
//! An [`Endpoint`] is one queue pair's requester and responder. It owns no socket, clock, thread or
//! random source: the host program (a software NIC, a simulator, a test) hands it packet headers
//! and the time, asks it what to transmit, and reads completions. It never sees payload bytes, only
//! where they belong. Rules are numbered `RC-n.m` in `docs/PROTOCOL.md`.
//!
//! One turn of a host:
//!
//! 1. [`Endpoint::handle_packet`] for each packet received; each [`Arrival`] is done and answered
//!    at once with [`Endpoint::accept`], [`Endpoint::accept_atomic`] or [`Endpoint::reject`].
//! 2. [`Endpoint::post`] for each work request the application posted.
//! 3. [`Endpoint::handle_timeout`] when [`Endpoint::poll_timeout`] has passed.
//! 4. [`Endpoint::poll_transmit`] until it returns `None`, or until other endpoints want their
//!    turn.
//! 5. [`Endpoint::poll_event`] until it returns `None`.
//!
//! Unreliable datagrams need no state: see [`ud`].
#![forbid(unsafe_code)]
#![deny(missing_docs)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod clock_codes;
mod config;
mod endpoint;
mod error;
mod event;
mod id;
mod request;
mod requester;
mod responder;
mod rtt;
mod stats;
mod time;
pub mod ud;
pub mod wire;

pub use clock_codes::{rnr_timer_ns, timeout_ns};
pub use config::{Access, Config, Mtu, ReceiveAttr, SendAttr, Service};
pub use endpoint::{Endpoint, State};
pub use error::{DropReason, PostError, Reject, Status};
pub use event::{
    Arrival, Atomic, AtomicOp, Cause, Event, Payload, PlainPacket, Range, ReadData, Received,
    Right, SendData, SendEnd, ShortArrival, Transmit, Verify, WriteData, WriteReceive,
};
pub use id::{Psn, WrId};
pub use request::{MESSAGE_MAX_BYTES, Operation, Remote, SendRequest};
pub use stats::Stats;
pub use time::Instant;

/// Size in bytes of the header buffer that [`Endpoint::poll_transmit`] fills.
pub const HEADER_MAX: usize = 48;

/// Size in bytes of the header buffer that [`Endpoint::poll_plain`] fills.
pub const PLAIN_HEADER_MAX: usize = wire::Bth::LEN + wire::Reth::LEN;
