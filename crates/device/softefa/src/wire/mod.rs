//! The network below the adapter: it sends and receives bursts of datagrams, whatever they contain.
//!
//! ```text
//! Batch --> Wire::send --> [Faulty: lose, hold, double, damage] --> [memory::MemoryWire: rings] --> udp::UdpWire --> kernel
//! ```

mod batch;
mod faulty;
mod gateway;
mod groups;
mod link;
mod memory;
mod name;
mod paths;
mod socket;
mod steering;
mod tap;
mod udp;
mod unsegmented;

use std::net::SocketAddr;

use srd::Instant;

use crate::memory::Piece;

pub(crate) use batch::{Batch, Impossible, MAX_PACKETS, Via};
pub(crate) use faulty::{DatagramFaults, Faulty};
pub(crate) use groups::{ForGroup, Groups};
pub(crate) use link::link_mtu_bytes;
pub(crate) use memory::RING_LISTENERS;
#[cfg(fuzzing)]
pub(crate) use memory::fuzzing::ring as fuzz_ring;
pub use memory::{check as check_memory, ring_socket_name};
pub use name::SocketName;
pub(crate) use paths::{PathSockets, QPN_FIRST};
pub(crate) use socket::Quote;
pub use socket::{SOCKET_BUFFER_BYTES, is_icmp};
pub(crate) use steering::{Port, Steering, SteeringInit};
pub(crate) use tap::Tap;

/// What a burst has sent, for the counters.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) pkts: u64,
    /// The number of these packets that went through memory.
    pub(crate) memory_pkts: u64,
    /// The number of these that were not sealed although the device has a key.
    pub(crate) unsealed_pkts: u64,
    pub(crate) bytes: u64,
    pub(crate) syscalls: u64,
    pub(crate) errors: u64,
    pub(crate) refused: u64,
    /// The number that found no room in their socket or ring, and leave later.
    pub(crate) blocked: u64,
    /// The number that a fault delays.
    pub(crate) held: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) blackholed: u64,
    pub(crate) mangled: u64,
    pub(crate) corrupted: u64,
}

impl Sent {
    /// Adds what a wire below has sent.
    pub(crate) fn add(&mut self, more: &Self) {
        self.pkts += more.pkts;
        self.bytes += more.bytes;
        self.syscalls += more.syscalls;
        self.errors += more.errors;
        self.refused += more.refused;
        self.blocked += more.blocked;
        self.memory_pkts += more.memory_pkts;
        self.unsealed_pkts += more.unsealed_pkts;
    }
}

/// One received run of datagrams of equal length (the last may be shorter), lent by the wire.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) from: SocketAddr,
    /// All bytes of the run.
    pub(crate) bytes: &'a mut [u8],
    /// The bytes of each datagram.
    pub(crate) segment: usize,
    /// If it is not empty, `bytes` are the headers of one datagram, whose rest lies here.
    pub(crate) rest: Option<Piece>,
    /// The run came through memory, without a system call.
    pub(crate) is_memory: bool,
    /// The run came through memory whose writer has the key of this device.
    pub(crate) is_proven: bool,
}

impl Run<'_> {
    /// Returns the bytes of all datagrams.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.rest.map_or(0, |rest| rest.len)
    }
}

/// Which arrivals wake a thread that waits on the socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// All arrivals.
    Sound,
    /// All but acknowledgements, for which at most a polling program waits.
    Light,
}

/// The wire of a queue pair whose socket is closed.
#[derive(Debug)]
pub(crate) struct Unplugged;

impl Wire for Unplugged {
    fn send(&mut self, _now: Instant, batch: &mut Batch) -> Sent {
        batch.clear();
        Sent::default()
    }

    fn receive(&mut self, _now: Instant) -> Option<Run<'_>> {
        None
    }

    fn release(&mut self, _now: Instant) -> Sent {
        Sent::default()
    }

    fn next_release(&self) -> Option<Instant> {
        None
    }
}

/// A network. It may lose datagrams, and may damage them in ways that their check finds.
pub(crate) trait Wire: Send {
    /// Sends and empties `batch`. Datagrams without room leave with [`Wire::release`].
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent;

    /// Returns the next run that has arrived, if there is one.
    fn receive(&mut self, now: Instant) -> Option<Run<'_>>;

    /// Sends delayed datagrams that are due.
    fn release(&mut self, now: Instant) -> Sent;

    /// Sends all delayed datagrams, because the process exits.
    fn release_all(&mut self, now: Instant) -> Sent {
        self.release(now)
    }

    /// Returns when [`Wire::release`] must be called next.
    fn next_release(&self) -> Option<Instant>;

    /// Returns true if the network has no room: then nothing must be sent until the wire has
    /// released what it holds.
    fn is_blocked(&self) -> bool {
        false
    }

    /// Makes every arrival readable at the socket from now on, except acknowledgements if the sleep
    /// is light. Returns true if something has arrived already that is not.
    fn sleep(&mut self, _sleep: Sleep) -> bool {
        false
    }

    /// Returns true if the socket was read since [`Wire::sleep`], so that it will not signal the
    /// next arrival: then the wire must be put to sleep again.
    fn was_called(&self) -> bool {
        false
    }

    /// Announces that [`Wire::receive`] is called soon and often from now on.
    fn wake(&mut self) {}

    /// Returns true if something may arrive without making the socket readable.
    fn has_rings(&self) -> bool {
        false
    }

    /// Returns true if there is a faster way than the kernel to the queue pair at `to`.
    fn has_ring_to(&self, _to: SocketAddr) -> bool {
        false
    }

    /// Returns true if equal datagrams to `to` leave the kernel as one train.
    fn has_trains_to(&self, _now: Instant, _to: SocketAddr) -> bool {
        false
    }

    /// Returns how many bytes a ring to the queue pair at `to` accepts now of what would otherwise
    /// leave by `via`; 0 if datagrams must stay as on the network.
    fn ring_room_bytes(&mut self, _to: SocketAddr, _via: Via) -> usize {
        0
    }

    /// Makes the next [`Wire::receive`] read every source.
    fn poll_everything(&mut self) {}

    /// Drops what waits for room in the network.
    fn forget_unsent(&mut self) {}

    /// Sends everything through the kernel from now on.
    fn leave_rings(&mut self) {}

    /// Injects `faults` from now on, which are taken out of it, or none; returns false if this wire
    /// cannot inject any.
    fn set_faults(&mut self, _now: Instant, _faults: &mut Option<DatagramFaults>) -> bool {
        false
    }
}
