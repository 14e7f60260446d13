//! The InfiniBand connection manager as a value.
//!
//! It sets connections up between queue pairs, and takes them down: `rdma_connect`, `rdma_accept`
//! and `rdma_disconnect` are made of its messages. Nothing here owns a socket, clock, thread or
//! device: the host program hands in datagrams and the time, and asks what to send.
//! Rules are numbered `CM-n.m` in `docs/PROTOCOL.md`.
//!
//! [`mad`] knows the messages.
#![forbid(unsafe_code)]

pub mod mad;
