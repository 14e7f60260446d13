//! The network below the adapter: bursts of datagrams out, bursts in.
//!
//! ```text
//! Batch --> Wire::send --> [Faulty: lose, hold, double, damage] --> udp::UdpWire --> kernel
//! ```

mod batch;
mod check;
mod faulty;
mod link;
mod socket;
mod tap;
mod udp;

use std::net::SocketAddrV4;

use srd::Instant;

pub(crate) use batch::{Batch, Impossible, MAX_PACKETS, Piece};
pub(crate) use check::{Cover, is_intact};
pub(crate) use faulty::Faulty;
pub(crate) use link::link_mtu_bytes;
pub(crate) use udp::{PathSockets, QPN_FIRST, UdpWire};

/// What stands in front of the bytes of an RDMA message.
pub(crate) const RDMA_BLOCK_BYTES: usize = 24;

/// What a burst did, for the counters.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) pkts: u64,
    pub(crate) bytes: u64,
    pub(crate) syscalls: u64,
    pub(crate) errors: u64,
    pub(crate) refused: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) blackholed: u64,
    pub(crate) mangled: u64,
    pub(crate) corrupted: u64,
}

/// One received run of datagrams of equal length (the last may be shorter).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    pub(crate) from: SocketAddrV4,
    /// Bytes in the receive buffer.
    pub(crate) len: usize,
    /// Bytes of each datagram in it.
    pub(crate) segment: usize,
}

/// No network: what a queue pair has after its socket was closed.
#[derive(Debug)]
pub(crate) struct Unplugged;

impl Wire for Unplugged {
    fn send(&mut self, _now: Instant, batch: &mut Batch) -> Sent {
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, _buffer: &mut [u8]) -> Option<Run> {
        None
    }

    fn release(&mut self, _now: Instant) -> Sent {
        Sent::default()
    }

    fn next_release(&self) -> Option<Instant> {
        None
    }
}

/// A network. Losing datagrams is allowed, and damage that their check finds.
pub(crate) trait Wire: Send {
    /// Sends and empties `batch`.
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent;

    /// Receives one run into `buffer`; `None` when nothing is there.
    fn receive(&mut self, buffer: &mut [u8]) -> Option<Run>;

    /// Sends what was held back and is due.
    fn release(&mut self, now: Instant) -> Sent;

    /// When [`Wire::release`] must be called next.
    fn next_release(&self) -> Option<Instant>;
}
