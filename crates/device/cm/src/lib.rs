//! The InfiniBand connection manager as a value.
//!
//! It sets connections up between queue pairs, and takes them down: `rdma_connect`, `rdma_accept`
//! and `rdma_disconnect` are made of its messages. Nothing here owns a socket, clock, thread or
//! device: the host program hands in datagrams and the time, and asks what to send.
//! Rules are numbered `CM-n.m` in `docs/PROTOCOL.md`.
//!
//! [`mad`] knows the messages, [`Agent`] the connections and listeners of one process, [`ucma`] the
//! kernel's interface, and [`ids::Ids`] serves it above an agent.
//!
//! One turn of a host:
//!
//! 1. [`Agent::handle_mad`] for each datagram received, [`Agent::unreachable`] for each peer that
//!    the network says is not there.
//! 2. [`Agent::handle_timeout`] when [`Agent::poll_timeout`] has passed.
//! 3. [`Agent::poll_transmit`] and [`Agent::poll_event`] until they return `None`.
#![forbid(unsafe_code)]

/// The program of the README, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod agent;
mod config;
mod event;
pub mod ids;
pub mod mad;
mod param;
mod random;
pub mod ucma;

pub use agent::{Agent, ConnId, ListenParams, ListenerId};
pub use config::Config;
pub use event::{CallError, DropReason, Event, Request, Resolution, Route, Transmit};
pub use param::{ConnectParams, Offer, Path, QpParams, ResolveParams, ServiceQp, Transport};
pub use random::Seed;
