//! Speaks where no program does: for those that are gone, and where nobody listens (RC-1.16).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use cm::mad::{Dreq, MAD_LEN, Mad, Message};
use cm::{Agent, Config, Route, Seed};

use super::claims::Orphan;
use super::listener::Listener;
use crate::host;
use crate::mad::Packer;

/// How often a peer is told of an end that it does not answer, and how long it is waited for.
const TRIES: u8 = 5;
const BETWEEN: Duration = Duration::from_secs(1);
/// Ends that are due are looked for so often, and not for every packet.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Ends that are repeated; of others peers are told once.
const FAREWELLS_MAX: usize = 1 << 16;

/// A peer that is told the end of its connection.
#[derive(Debug)]
struct Farewell {
    peer: SocketAddr,
    dreq: [u8; MAD_LEN],
    again_at: Instant,
    tries_left: u8,
}

#[derive(Debug)]
pub(super) struct StandIn {
    /// It has no connection, and says so.
    nobody: Agent,
    packer: Packer,
    start: Instant,
    /// By address and id.
    farewells: BTreeMap<(IpAddr, u32), Farewell>,
    looked_at: Instant,
}

impl StandIn {
    pub(super) fn new(seed: Seed) -> Self {
        let nobody = Agent::new(Config::default(), seed);
        let (packer, start) = (Packer::new(), Instant::now());
        Self { nobody, packer, start, farewells: BTreeMap::new(), looked_at: start }
    }

    /// Answers a message from `host` that is for no program here; false when there is nothing to
    /// say.
    pub(super) fn answer(&mut self, listener: &Listener, host: IpAddr, mad: &Mad) -> bool {
        let local = listener.at().ip();
        if let Message::Drep(drep) = &mad.message {
            let end = (local, drep.remote_comm_id);
            let is_awaited = self.farewells.get(&end).is_some_and(|it| it.peer.ip() == host);
            return is_awaited && self.farewells.remove(&end).is_some();
        }
        let route = Route { local, peer: SocketAddr::new(host, listener.at().port()) };
        // It changes nothing, because there is nothing to change.
        let _ = self.nobody.handle_mad(self.start.elapsed(), route, &mad.emit());
        let Some(answer) = self.nobody.poll_transmit() else { return false };
        self.send(listener, answer.route.peer, &answer.bytes);
        true
    }

    /// Tells the other end that the connection is over, as Linux does for a process that is gone.
    pub(super) fn part(&mut self, listener: &Listener, orphan: &Orphan) {
        let Ok(random) = host::unguessable_bytes() else { return };
        let transaction_id = u64::from_ne_bytes(random);
        let message = Message::Dreq(Dreq {
            local_comm_id: orphan.id,
            remote_comm_id: orphan.far.id,
            remote_qpn: orphan.far.qpn,
            ..Dreq::ZERO
        });
        let dreq = Mad { transaction_id, message }.emit();
        let peer = SocketAddr::new(orphan.far.host, listener.at().port());
        self.send(listener, peer, &dreq);
        if self.farewells.len() < FAREWELLS_MAX {
            let (again_at, tries_left) = (Instant::now() + BETWEEN, TRIES - 1);
            let farewell = Farewell { peer, dreq, again_at, tries_left };
            self.farewells.insert((orphan.addr, orphan.id), farewell);
        }
    }

    /// Repeats what has had no answer for a while.
    pub(super) fn repeat(&mut self, listeners: &[Listener]) {
        if self.farewells.is_empty() {
            return;
        }
        let now = Instant::now();
        if now < self.looked_at + LOOK_EVERY {
            return;
        }
        self.looked_at = now;
        let mut due = Vec::new();
        self.farewells.retain(|&(addr, _), farewell| {
            if farewell.again_at > now {
                return true;
            }
            due.push((addr, farewell.peer, farewell.dreq));
            farewell.tries_left -= 1;
            farewell.again_at = now + BETWEEN;
            farewell.tries_left > 0
        });
        for (addr, peer, dreq) in due {
            if let Some(listener) = listeners.iter().find(|it| it.at().ip() == addr) {
                self.send(listener, peer, &dreq);
            }
        }
    }

    /// Some peer has not answered yet.
    #[cfg(test)]
    pub(super) fn waits_for_answers(&self) -> bool {
        !self.farewells.is_empty()
    }

    fn send(&mut self, listener: &Listener, peer: SocketAddr, mad: &[u8; MAD_LEN]) {
        let packet = self.packer.pack(listener.at(), peer, mad);
        // Lost, as on a network, when there is no room for it: whoever waits repeats itself.
        let _ = listener.send(peer, &packet);
    }
}
