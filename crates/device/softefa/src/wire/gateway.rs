//! UDP behind a gateway: datagrams go to the network as they are, and come in the gateway's
//! envelopes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use srd::Instant;

use super::socket::Train;
use super::udp::UdpWire;
use super::{Batch, Run, Sent, Wire};
use crate::gateway::{ENVELOPE_LEN, Gateway, Seat, SeatKind};
use crate::say::say;

/// Bytes that are left of a stranger's datagram: fewer than any packet has, so that it is counted
/// and dropped as one that cannot be read.
const STUB_LEN: usize = 1;

/// The socket of a queue pair, and its seat at the gateway. The seat is given up first.
#[derive(Debug)]
pub(super) struct GatewayWire {
    seat: Seat,
    udp: UdpWire,
}

impl GatewayWire {
    /// Around the socket that is bound at `local`.
    pub(super) fn new(
        mut udp: UdpWire,
        local: SocketAddr,
        gateway: &Arc<Gateway>,
    ) -> io::Result<Self> {
        use std::os::fd::AsFd;
        udp.part_trains()?;
        let seat = gateway.admit(local, udp.socket().as_fd(), SeatKind::QueuePair);
        // Of a queue pair that is refused a program is told a number.
        let seat = seat.inspect_err(|error| say(&format!("softefa: {error}")))?;
        Ok(Self { seat, udp })
    }
}

impl Wire for GatewayWire {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        self.udp.send(now, batch)
    }

    fn receive(&mut self, _now: Instant) -> Option<Run<'_>> {
        let train = self.udp.fetch()?;
        let sender = self.seat.sender_of(train.from, self.udp.fetched(&train));
        let Some(sender) = sender else {
            // Whoever sends past the gateway has not been checked by anybody.
            let stub = Train { len: train.len.min(STUB_LEN), ..train };
            return Some(self.udp.run_behind(stub, 0, train.from));
        };
        Some(self.udp.run_behind(train, ENVELOPE_LEN, sender))
    }

    fn release(&mut self, now: Instant) -> Sent {
        self.udp.release(now)
    }

    fn next_release(&self) -> Option<Instant> {
        self.udp.next_release()
    }

    fn is_blocked(&self) -> bool {
        self.udp.is_blocked()
    }
}
