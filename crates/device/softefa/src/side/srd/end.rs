//! Work requests that end early: in the error and reset states, and when their queue pair or
//! address handle is destroyed.

use std::net::IpAddr;

use srd::{Instant, PeerId};

use super::{SrdSide, host_at};

impl SrdSide {
    /// Makes the engine forget what was posted, and the responder what was requested.
    pub(super) fn restart_engine(&mut self, now: Instant) {
        for peer in self.shell.sq.peers().chain(self.rdma.peers()) {
            self.endpoint.cancel_peer(now, peer);
        }
        while self.endpoint.poll_event().is_some() {}
        self.rdma.clear();
    }

    /// Flushes what is in flight to `addr`.
    pub(super) fn flush_toward(&mut self, now: Instant, addr: IpAddr) {
        for peer in self.shell.sq.peers() {
            if is_at(&self.endpoint, peer, addr) {
                self.endpoint.cancel_peer(now, peer);
            }
        }
        self.harvest(now);
        // What is left had nothing in the engine: a WRITE that waits for its turn, a READ that
        // waits for its data.
        for index in 0..self.shell.sq.end() {
            let peer = self.shell.sq.get(index).and_then(|slot| slot.peer);
            if peer.is_some_and(|peer| is_at(&self.endpoint, peer, addr)) {
                self.flush_transfer(now, index);
            }
        }
    }
}

fn is_at(endpoint: &srd::Endpoint, peer: PeerId, addr: IpAddr) -> bool {
    endpoint.address(peer).is_some_and(|at| at.host == host_at(addr))
}
