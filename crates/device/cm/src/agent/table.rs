//! The connections of an agent, indexed by id, peer and deadline.

use super::connection::{Connection, State};
use crate::{ConnId, ListenerId};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// A key by which a message finds a connection whose id its sender does not know.
///
/// The address is part of the key, so that no other host can impersonate the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// Address, node GUID and the peer's id of the connection.
    Id(IpAddr, u64, u32),
    /// Address, node GUID and queue pair of the peer.
    Qpn(IpAddr, u64, u32),
    /// Address, and the peer's id of its SIDR query.
    Question(SocketAddr, u32),
}

#[derive(Debug, Default)]
pub(super) struct Table {
    connections: BTreeMap<u32, Connection>,
    keys: BTreeMap<Key, u32>,
    deadlines: BTreeSet<(Duration, u32)>,
    half_open: usize,
    established: usize,
}

impl Table {
    pub(super) fn len(&self) -> usize {
        self.connections.len()
    }

    pub(super) fn established(&self) -> usize {
        self.established
    }

    pub(super) fn half_open(&self) -> usize {
        self.half_open
    }

    pub(super) fn has(&self, id: u32) -> bool {
        self.connections.contains_key(&id)
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.connections.get(&id.0)
    }

    /// State, deadline and keys are changed only by the methods of the table.
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.connections.get_mut(&id.0)
    }

    pub(super) fn find(&self, key: Key) -> Option<ConnId> {
        self.keys.get(&key).copied().map(ConnId)
    }

    /// Returns the requests to a listener that its program has taken but not decided.
    pub(super) fn requested_of(&self, listener: ListenerId) -> Vec<ConnId> {
        let is_meant = |connection: &Connection| {
            let is_decided = connection.state != State::ReqRcvd || connection.is_untaken;
            connection.listener == Some(listener) && !is_decided
        };
        let all = self.connections.iter().filter(|(_, connection)| is_meant(connection));
        all.map(|(&id, _)| ConnId(id)).collect()
    }

    pub(super) fn insert(&mut self, id: u32, mut connection: Connection) -> ConnId {
        assert!(id != 0 && !self.has(id), "ids are drawn until they are new");
        connection.local_comm_id = id;
        self.count_in(connection.state);
        self.connections.insert(id, connection);
        ConnId(id)
    }

    /// Adds a key for the connection; false when another connection has it.
    pub(super) fn add_key(&mut self, id: ConnId, key: Key) -> bool {
        if self.keys.get(&key).is_some_and(|&other| other != id.0) {
            return false;
        }
        let Some(connection) = self.connections.get_mut(&id.0) else { return false };
        let Some(free) = connection.keys.iter_mut().find(|slot| slot.is_none()) else {
            return false;
        };
        *free = Some(key);
        self.keys.insert(key, id.0);
        true
    }

    /// Removes the key with the peer's queue pair, so that a new connection may use it at once.
    pub(super) fn forget_qpn(&mut self, id: ConnId) {
        let Some(connection) = self.connections.get_mut(&id.0) else { return };
        for slot in &mut connection.keys {
            if let Some(key @ Key::Qpn(..)) = *slot {
                self.keys.remove(&key);
                *slot = None;
            }
        }
    }

    pub(super) fn set_state(&mut self, id: ConnId, state: State) {
        let Some(connection) = self.connections.get_mut(&id.0) else { return };
        let before = std::mem::replace(&mut connection.state, state);
        self.count_out(before);
        self.count_in(state);
    }

    fn count_in(&mut self, state: State) {
        self.half_open += usize::from(state.is_half_open());
        self.established += usize::from(state == State::Established);
    }

    fn count_out(&mut self, state: State) {
        self.half_open -= usize::from(state.is_half_open());
        self.established -= usize::from(state == State::Established);
    }

    pub(super) fn set_deadline(&mut self, id: ConnId, at: Option<Duration>) {
        let Some(connection) = self.connections.get_mut(&id.0) else { return };
        if let Some(old) = connection.deadline {
            self.deadlines.remove(&(old, id.0));
        }
        connection.deadline = at;
        self.deadlines.extend(at.map(|at| (at, id.0)));
    }

    pub(super) fn remove(&mut self, id: ConnId) -> Option<Connection> {
        self.set_deadline(id, None);
        let connection = self.connections.remove(&id.0)?;
        self.count_out(connection.state);
        for key in connection.keys.iter().flatten() {
            self.keys.remove(key);
        }
        Some(connection)
    }

    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|&(at, _)| at)
    }

    /// Returns a connection whose deadline is not after `now`.
    pub(super) fn due(&self, now: Duration) -> Option<ConnId> {
        let &(at, id) = self.deadlines.first()?;
        (at <= now).then_some(ConnId(id))
    }

    /// Returns the accepted connection of a local queue pair that waits for its RTU.
    pub(super) fn waiting_for_rtu(&self, ca_guid: u64, qpn: u32) -> Option<ConnId> {
        let mut waiting = self.connections.values().filter(|c| c.state == State::RepSent);
        let found = waiting.find(|c| c.local.ca_guid == ca_guid && c.local.qpn == qpn)?;
        Some(ConnId(found.local_comm_id))
    }

    /// Returns the connections with the peer at this address.
    pub(super) fn with_peer(&self, peer: SocketAddr) -> Vec<ConnId> {
        let with_peer = self.connections.values().filter(|c| c.route.peer == peer);
        with_peer.map(|c| ConnId(c.local_comm_id)).collect()
    }
}
