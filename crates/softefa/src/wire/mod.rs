//! The network below the adapter: bursts of datagrams out, bursts in, whatever is inside them.
//!
//! ```text
//! Batch --> Wire::send --> [Faulty: lose, hold, double, damage] --> udp::UdpWire --> kernel
//! ```

mod batch;
mod faulty;
mod link;
mod paths;
mod socket;
mod steering;
mod tap;
mod udp;
mod unsegmented;

use std::net::SocketAddrV4;

use srd::Instant;

pub(crate) use batch::{Batch, Impossible, MAX_PACKETS, OWN_SOCKET};
pub(crate) use faulty::Faulty;
pub(crate) use link::link_mtu_bytes;
pub(crate) use paths::{PathSockets, QPN_FIRST};
pub(crate) use socket::Quote;
pub(crate) use steering::{Port, Steering, SteeringInit};
pub(crate) use udp::UdpWire;

/// What a burst did, for the counters.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) pkts: u64,
    pub(crate) bytes: u64,
    pub(crate) syscalls: u64,
    pub(crate) errors: u64,
    pub(crate) refused: u64,
    /// Found no room in their socket and leave later.
    pub(crate) blocked: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) blackholed: u64,
    pub(crate) mangled: u64,
    pub(crate) corrupted: u64,
}

/// One received run of datagrams of equal length (the last may be shorter), lent by the wire.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) from: SocketAddrV4,
    /// All of them.
    pub(crate) bytes: &'a mut [u8],
    /// Bytes of each.
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

    fn receive(&mut self) -> Option<Run<'_>> {
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
    /// Sends and empties `batch`. What finds no room leaves with [`Wire::release`].
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent;

    /// The next run that has arrived; `None` when nothing is there.
    fn receive(&mut self) -> Option<Run<'_>>;

    /// Sends what was held back and is due.
    fn release(&mut self, now: Instant) -> Sent;

    /// When [`Wire::release`] must be called next.
    fn next_release(&self) -> Option<Instant>;

    /// The network has no room: give it nothing more until it has released what it holds.
    fn is_blocked(&self) -> bool {
        false
    }
}
