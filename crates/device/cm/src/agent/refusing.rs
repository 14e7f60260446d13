//! MRA and REJ, and unreachable peers.

use super::connection::{AnsweredMessage, Connection, State};
use super::table::Key;
use super::{Agent, padded};
use crate::config::{NO_LISTENER_WAIT, NO_ROUTE_WAIT};
use crate::mad::{Mad, Message, Mra, Rej, reason, sidr_status};
use crate::{CallError, ConnId, DropReason, Event, Route};
use std::net::SocketAddr;
use std::time::Duration;

/// Attribute of a REJ.
pub(super) const REJ: u16 = 0x12;

/// The ids of a connection at both ends; 0 where an end has not named it.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommIds {
    pub(super) ours: u32,
    pub(super) theirs: u32,
}

impl Agent {
    /// Refuses a connection that was requested or accepted, and forgets it.
    ///
    /// # Errors
    /// [`CallError::Unknown`], [`CallError::WrongState`], [`CallError::PrivateData`]: 148 bytes
    /// fit.
    pub fn reject(
        &mut self,
        now: Duration,
        conn: ConnId,
        reason: u16,
        private_data: &[u8],
    ) -> Result<(), CallError> {
        self.advance(now);
        let private_data: [u8; 148] = padded(private_data)?;
        let connection = self.lookup(conn)?;
        match connection.state {
            State::ReqRcvd | State::RepRcvd | State::RepSent | State::ReqSent => {}
            _ => return Err(CallError::WrongState),
        }
        self.taken(conn);
        self.send_rej(conn, reason, &private_data);
        Ok(())
    }

    /// Sends a REJ and remembers it for a peer that repeats its message (CM-4.7).
    pub(super) fn send_rej(&mut self, conn: ConnId, reason: u16, private_data: &[u8]) {
        let Some(connection) = self.table.get(conn) else { return };
        let (route, bytes) = (connection.route, connection.rej(reason, private_data).emit());
        self.answer(route, bytes);
        if is_unknown_to_peer(self, conn) {
            self.forget(conn);
        } else {
            self.enter_timewait(conn, Some(bytes));
        }
    }

    /// Answers a message of an unknown connection.
    pub(super) fn refuse(
        &mut self,
        route: Route,
        transaction_id: u64,
        ids: CommIds,
        answered: AnsweredMessage,
        reason: u16,
    ) {
        let message = Message::Rej(Rej {
            local_comm_id: ids.ours,
            remote_comm_id: ids.theirs,
            message: answered as u8,
            reason,
            ..Rej::ZERO
        });
        self.answer(route, Mad { transaction_id, message }.emit());
    }

    /// Answers a message that names an unknown connection, in which its sender believes (CM-3.3).
    pub(super) fn refuse_unknown(
        &mut self,
        route: Route,
        transaction_id: u64,
        ids: CommIds,
        answered: AnsweredMessage,
        why: DropReason,
    ) -> Result<(), DropReason> {
        if why == DropReason::UnknownConnection {
            self.refuse(route, transaction_id, ids, answered, reason::INVALID_COMM_ID);
        }
        Err(why)
    }

    /// Tells a peer that repeats its message that the program has not decided yet (CM-4.5).
    pub(super) fn ask_for_time(&mut self, conn: ConnId, answered: AnsweredMessage) {
        let service_timeout = self.config.service_timeout;
        let Some(connection) = self.table.get_mut(conn) else { return };
        let (mra, route) = (connection.mra(answered, service_timeout), connection.route);
        connection.repeats_by = self.now + self.config.wait(service_timeout) + connection.wait;
        self.answer(route, mra.emit());
    }

    pub(super) fn on_mra(
        &mut self,
        route: Route,
        transaction_id: u64,
        mra: &Mra,
    ) -> Result<(), DropReason> {
        let connection = self.by_our_id(route, mra.remote_comm_id)?;
        let is_about = |answered| mra.message == answered as u8;
        let is_meant = match connection.state {
            State::ReqSent => {
                is_about(AnsweredMessage::Req) && connection.transaction_id == transaction_id
            }
            State::RepSent => {
                is_about(AnsweredMessage::Rep) && connection.remote_comm_id == mra.local_comm_id
            }
            _ => return Err(DropReason::Duplicate),
        };
        if !is_meant {
            return Err(DropReason::WrongPeer);
        }
        if connection.delayed_until.is_some() {
            return Err(DropReason::Duplicate);
        }
        let until = self.now + connection.wait + self.config.wait(mra.service_timeout);
        let conn = ConnId(mra.remote_comm_id);
        if let Some(connection) = self.table.get_mut(conn) {
            // The listener behind the previous route may be gone.
            (connection.route, connection.delayed_until) = (route, Some(until));
        }
        self.await_end_of_delay(conn, until);
        Ok(())
    }

    pub(super) fn on_rej(
        &mut self,
        route: Route,
        transaction_id: u64,
        rej: &Rej,
    ) -> Result<(), DropReason> {
        let conn = self.rejected(route, transaction_id, rej)?;
        let connection = self.table.get(conn).ok_or(DropReason::UnknownConnection)?;
        let private_data = rej.private_data.into();
        let event = Event::Rejected { conn, reason: rej.reason, private_data };
        match connection.state {
            State::ReqSent
                if rej.reason == reason::INVALID_SERVICE_ID && self.is_early(connection) =>
            {
                self.repeat_soon(conn);
            }
            State::ReqSent | State::RepRcvd => self.end(conn, event),
            State::ReqRcvd | State::RepSent => {
                self.queue_event(conn, event);
                // A repeated REQ may still arrive, and must not open a new connection.
                self.enter_timewait(conn, None);
            }
            State::Established | State::DreqSent => self.set_disconnected(conn, false),
            // The program was notified, and will disconnect or destroy it.
            _ => return Err(DropReason::Duplicate),
        }
        Ok(())
    }

    /// Returns the connection that a REJ is about. A requester that gives up may know only the id
    /// of its REQ, not ours; a responder that never had the connection has no id of its own.
    fn rejected(&self, route: Route, transaction_id: u64, rej: &Rej) -> Result<ConnId, DropReason> {
        if rej.reason == reason::TIMEOUT && rej.remote_comm_id == 0 {
            let mut guid = [0; 8];
            guid.copy_from_slice(&rej.ari[..8]);
            let guid = u64::from_be_bytes(guid);
            let key = Key::Id(route.peer.ip(), guid, rej.local_comm_id);
            let conn = self.table.find(key).ok_or(DropReason::UnknownConnection)?;
            let connection = self.table.get(conn).ok_or(DropReason::UnknownConnection)?;
            let is_unanswered = matches!(connection.state, State::ReqRcvd | State::RepSent);
            let is_meant = is_unanswered && connection.transaction_id == transaction_id;
            return if is_meant { Ok(conn) } else { Err(DropReason::WrongPeer) };
        }
        let connection = self.by_our_id(route, rej.remote_comm_id)?;
        let is_meant = match connection.state {
            State::ReqSent => connection.transaction_id == transaction_id,
            _ => connection.remote_comm_id == rej.local_comm_id,
        };
        if is_meant { Ok(ConnId(rej.remote_comm_id)) } else { Err(DropReason::WrongPeer) }
    }

    /// Returns whether this agent sends the message that begins with `bytes` to `peer`, about a
    /// connection with it: only a host that can read our messages can quote one in an ICMP error.
    #[must_use]
    pub fn has_sent_to(&self, peer: SocketAddr, bytes: &[u8]) -> bool {
        let Some(conn) = Mad::sender_id(bytes).map(ConnId) else { return false };
        self.table.get(conn).is_some_and(|connection| connection.route.peer == peer)
    }

    /// Reports that nothing receives at `peer`, as an ICMP error says or the host knows (CM-4.9).
    pub fn unreachable(&mut self, now: Duration, peer: SocketAddr) {
        self.advance(now);
        for conn in self.table.with_peer(peer) {
            let Some(connection) = self.table.get(conn) else { continue };
            match connection.state {
                State::ReqSent | State::SidrReqSent if self.is_early(connection) => {
                    self.repeat_soon(conn);
                }
                State::ReqSent => {
                    let (reason, private_data) = (reason::INVALID_SERVICE_ID, [0; 148].into());
                    self.end(conn, Event::Rejected { conn, reason, private_data });
                }
                State::SidrReqSent => {
                    let (status, private_data) = (sidr_status::UNSUPPORTED, [0; 136].into());
                    self.end(conn, Event::NotResolved { conn, status, private_data });
                }
                State::ReqRcvd | State::RepRcvd | State::RepSent | State::SidrReqRcvd => {
                    self.end(conn, Event::Unreachable { conn });
                }
                // Handled like the DREQ that Linux sends for a process that is killed.
                State::Established | State::DreqSent => self.set_disconnected(conn, false),
                // The program was notified, and will disconnect or destroy it.
                State::DreqRcvd | State::TimeWait => {}
            }
        }
    }
}

impl Agent {
    /// Reports that the network has no route to `peer`: requests that have been repeated for a
    /// while are given up (CM-4.9).
    pub fn no_route(&mut self, now: Duration, peer: SocketAddr) {
        self.advance(now);
        for conn in self.table.with_peer(peer) {
            let Some(connection) = self.table.get(conn) else { continue };
            let is_request = matches!(connection.state, State::ReqSent | State::SidrReqSent);
            if is_request && self.now >= connection.requested_at + NO_ROUTE_WAIT {
                self.end(conn, Event::Unreachable { conn });
            }
        }
    }

    /// Returns whether the peer's program may still be about to listen (CM-4.9).
    fn is_early(&self, connection: &Connection) -> bool {
        self.now < connection.requested_at + self.config.no_listener_wait
    }

    /// Repeats a request soon, without counting a repetition.
    fn repeat_soon(&mut self, conn: ConnId) {
        let at = self.now + NO_LISTENER_WAIT;
        let retries_max = self.config.retries_max;
        let Some(connection) = self.table.get_mut(conn) else { return };
        // Only once, even if the peer's host sends an ICMP error for each of many requests.
        if connection.deadline.is_none_or(|deadline| deadline > at) {
            connection.retries_left = connection.retries_left.saturating_add(1).min(retries_max);
        }
        self.table.set_deadline(conn, Some(at));
    }
}

/// Returns whether the peer has not named the connection yet, so that nothing of it need be
/// remembered.
fn is_unknown_to_peer(agent: &Agent, conn: ConnId) -> bool {
    agent.table.get(conn).is_none_or(|c| c.state == State::ReqSent)
}
