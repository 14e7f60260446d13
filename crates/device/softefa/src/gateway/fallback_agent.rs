//! Sends messages of the connection manager in place of programs: for those that are gone, and
//! where none listens (RC-1.16).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use cm::mad::{Dreq, MAD_LEN, Mad, Message};
use cm::{Agent, Config, Route, Seed};

use super::claims::OrphanedConnection;
use super::listener::Listener;
use crate::host;
use crate::mad::Packer;

/// How often a peer is told of the end of a connection.
const TRIES: u8 = 5;
/// The time between two of these attempts.
const RETRY_EVERY: Duration = Duration::from_secs(1);
/// How often overdue disconnects are looked for. Doing so for every packet would be too expensive.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// The most disconnects that are repeated; beyond it a peer is told once.
const PENDING_MAX: usize = 1 << 16;

/// A DREQ that the peer has not answered yet.
#[derive(Debug)]
struct PendingDisconnect {
    peer: SocketAddr,
    dreq: [u8; MAD_LEN],
    again_at: Instant,
    tries_left: u8,
}

#[derive(Debug)]
pub(super) struct FallbackAgent {
    /// An agent without connections: it rejects whatever it receives.
    agent: Agent,
    packer: Packer,
    start: Instant,
    /// The unanswered disconnects, by local address and id.
    pending: BTreeMap<(IpAddr, u32), PendingDisconnect>,
    checked_at: Instant,
}

impl FallbackAgent {
    pub(super) fn new(seed: Seed) -> Self {
        let agent = Agent::new(Config::default(), seed);
        let (packer, start) = (Packer::new(), Instant::now());
        Self { agent, packer, start, pending: BTreeMap::new(), checked_at: start }
    }

    /// Answers a message from `host` that is for no program here, or takes it as the answer to a
    /// disconnect; returns false if it is neither answered nor awaited.
    pub(super) fn answer(&mut self, listener: &Listener, host: IpAddr, mad: &Mad) -> bool {
        let local = listener.at().ip();
        if let Message::Drep(drep) = &mad.message {
            let end = (local, drep.remote_comm_id);
            let is_awaited = self.pending.get(&end).is_some_and(|it| it.peer.ip() == host);
            return is_awaited && self.pending.remove(&end).is_some();
        }
        let route = Route { local, peer: SocketAddr::new(host, listener.at().port()) };
        // The agent has no state that the message could change.
        let _ = self.agent.handle_mad(self.start.elapsed(), route, &mad.emit());
        let Some(answer) = self.agent.poll_transmit() else { return false };
        self.send(listener, answer.route.peer, &answer.bytes);
        true
    }

    /// Tells the peer that the connection is over, as Linux does for a process that is gone.
    pub(super) fn disconnect(&mut self, listener: &Listener, orphan: &OrphanedConnection) {
        let Ok(random) = host::unguessable_bytes() else { return };
        let transaction_id = u64::from_ne_bytes(random);
        let message = Message::Dreq(Dreq {
            local_comm_id: orphan.id,
            remote_comm_id: orphan.remote.id,
            remote_qpn: orphan.remote.qpn,
            ..Dreq::ZERO
        });
        let dreq = Mad { transaction_id, message }.emit();
        let peer = SocketAddr::new(orphan.remote.host, listener.at().port());
        self.send(listener, peer, &dreq);
        if self.pending.len() < PENDING_MAX {
            let (again_at, tries_left) = (Instant::now() + RETRY_EVERY, TRIES - 1);
            let disconnect = PendingDisconnect { peer, dreq, again_at, tries_left };
            self.pending.insert((orphan.addr, orphan.id), disconnect);
        }
    }

    /// Repeats the disconnects that have not been answered in time.
    pub(super) fn repeat_overdue(&mut self, listeners: &[Listener]) {
        if self.pending.is_empty() {
            return;
        }
        let now = Instant::now();
        if now < self.checked_at + CHECK_EVERY {
            return;
        }
        self.checked_at = now;
        let mut due = Vec::new();
        self.pending.retain(|&(addr, _), disconnect| {
            if disconnect.again_at > now {
                return true;
            }
            due.push((addr, disconnect.peer, disconnect.dreq));
            disconnect.tries_left -= 1;
            disconnect.again_at = now + RETRY_EVERY;
            disconnect.tries_left > 0
        });
        for (addr, peer, dreq) in due {
            if let Some(listener) = listeners.iter().find(|it| it.at().ip() == addr) {
                self.send(listener, peer, &dreq);
            }
        }
    }

    /// Returns true while some peer has not answered.
    #[cfg(test)]
    pub(super) fn waits_for_answers(&self) -> bool {
        !self.pending.is_empty()
    }

    fn send(&mut self, listener: &Listener, peer: SocketAddr, mad: &[u8; MAD_LEN]) {
        let packet = self.packer.pack(listener.at(), peer, mad);
        // If there is no room, the packet is lost as on a network, and the peer repeats its own.
        let _ = listener.send(peer, &packet);
    }
}
