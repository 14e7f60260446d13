//! The network below the adapter: bursts of datagrams out, bursts in, whatever is inside them.
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
    /// Found no room in their socket and leave later.
    pub(crate) blocked: u64,
    /// Held back on purpose, and leave later.
    pub(crate) held: u64,
    pub(crate) lost: u64,
    pub(crate) reordered: u64,
    pub(crate) duplicated: u64,
    pub(crate) blackholed: u64,
    pub(crate) mangled: u64,
    pub(crate) corrupted: u64,
}

impl Sent {
    /// Counts what a wire below has sent.
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
    /// All of them.
    pub(crate) bytes: &'a mut [u8],
    /// Bytes of each.
    pub(crate) segment: usize,
    /// Then `bytes` are the headers of one datagram, and the bytes behind them lie here.
    pub(crate) rest: Option<Piece>,
    /// It came through memory, without a system call.
    pub(crate) is_memory: bool,
    /// It came through memory whose writer has the key of this device.
    pub(crate) is_proven: bool,
}

impl Run<'_> {
    /// Bytes of all datagrams.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.rest.map_or(0, |rest| rest.len)
    }
}

/// How whoever waits on the socket is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sleep {
    /// For everything.
    Sound,
    /// Not for acknowledgements, for which nothing waits but perhaps a program that polls.
    Light,
}

/// No network: what a queue pair has after its socket was closed.
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

/// A network. Losing datagrams is allowed, and damage that their check finds.
pub(crate) trait Wire: Send {
    /// Sends and empties `batch`. What finds no room leaves with [`Wire::release`].
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent;

    /// The next run that has arrived; `None` when nothing is there.
    fn receive(&mut self, now: Instant) -> Option<Run<'_>>;

    /// Sends what was held back and is due.
    fn release(&mut self, now: Instant) -> Sent;

    /// Sends all that was held back, due or not: the process ends.
    fn release_all(&mut self, now: Instant) -> Sent {
        self.release(now)
    }

    /// When [`Wire::release`] must be called next.
    fn next_release(&self) -> Option<Instant>;

    /// The network has no room: give it nothing more until it has released what it holds.
    fn is_blocked(&self) -> bool {
        false
    }

    /// From now on whatever comes makes the socket readable, but for acknowledgements while the
    /// sleep is light; whether something has come that does not.
    fn sleep(&mut self, _sleep: Sleep) -> bool {
        false
    }

    /// The socket was read since [`Wire::sleep`], and will not tell of what comes next: it must
    /// sleep again.
    fn was_called(&self) -> bool {
        false
    }

    /// From now on [`Wire::receive`] is called soon and often.
    fn wake(&mut self) {}

    /// Something may come that does not make the socket readable.
    fn has_rings(&self) -> bool {
        false
    }

    /// There is a faster way than the kernel to the queue pair at `to`.
    fn has_ring_to(&self, _to: SocketAddr) -> bool {
        false
    }

    /// Datagrams to `to` that leave through the kernel and are alike leave as one train.
    fn has_trains_to(&self, _now: Instant, _to: SocketAddr) -> bool {
        false
    }

    /// Bytes that a ring to the queue pair at `to` takes now of what would otherwise leave by
    /// `via`; 0 where datagrams must stay as the network has them.
    fn ring_room_bytes(&mut self, _to: SocketAddr, _via: Via) -> usize {
        0
    }

    /// The next [`Wire::receive`] looks wherever something may have come.
    fn poll_everything(&mut self) {}

    /// What waits for room in the network is not sent any more.
    fn forget_unsent(&mut self) {}

    /// From now on everything goes through the kernel.
    fn leave_rings(&mut self) {}

    /// From now on `faults` are dealt, which are taken out of it, or none; `false` of a wire that
    /// deals none.
    fn set_faults(&mut self, _now: Instant, _faults: &mut Option<DatagramFaults>) -> bool {
        false
    }
}
