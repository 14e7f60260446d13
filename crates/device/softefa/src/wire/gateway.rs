//! UDP behind a gateway: datagrams are sent to the network as they are, and arrive in envelopes of
//! the gateway.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use srd::Instant;

use super::socket::Train;
use super::udp::UdpWire;
use super::{Batch, Run, Sent, Wire};
use crate::gateway::{ENVELOPE_LEN, Gateway, RegisteredSocket, SocketKind};
use crate::say::say;

/// The length to which a datagram that did not come from the gateway is cut. It is shorter than any
/// packet, so that the datagram is counted as malformed and dropped.
const STUB_LEN: usize = 1;

/// The socket of a queue pair, and its registration at the gateway, which is dropped first.
#[derive(Debug)]
pub(super) struct GatewayWire {
    registered: RegisteredSocket,
    udp: UdpWire,
}

impl GatewayWire {
    /// Registers the socket, which is bound to `local`.
    pub(super) fn new(
        mut udp: UdpWire,
        local: SocketAddr,
        gateway: &Arc<Gateway>,
    ) -> io::Result<Self> {
        use std::os::fd::AsFd;
        udp.part_trains()?;
        let registered = gateway.register(local, udp.socket().as_fd(), SocketKind::QueuePair);
        // The program itself receives only an error number.
        let registered = registered.inspect_err(|error| say(&format!("softefa: {error}")))?;
        Ok(Self { registered, udp })
    }
}

impl Wire for GatewayWire {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        self.udp.send(now, batch)
    }

    fn receive(&mut self, _now: Instant) -> Option<Run<'_>> {
        let train = self.udp.fetch()?;
        let sender = self.registered.sender_of(train.from, self.udp.fetched(&train));
        let Some(sender) = sender else {
            // Nobody has verified a datagram that did not pass the gateway.
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
