//! MRA and REJ, and peers that are not there.

use super::connection::{About, Connection, State};
use super::table::Key;
use super::{Agent, padded};
use crate::config::{NO_WAY_WAIT, NOBODY_WAIT};
use crate::mad::{Mad, Message, Mra, Rej, reason, sidr_status};
use crate::{CallError, ConnId, DropReason, Event, Route};
use std::net::SocketAddr;
use std::time::Duration;

/// Attribute of a REJ.
pub(super) const REJ: u16 = 0x12;

/// What the two ends call a connection; 0 where an end has not named it.
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
        let connection = self.known(conn)?;
        match connection.state {
            State::ReqRcvd | State::RepRcvd | State::RepSent | State::ReqSent => {}
            _ => return Err(CallError::WrongState),
        }
        self.taken(conn);
        self.send_rej(conn, reason, &private_data);
        Ok(())
    }

    /// Sends a REJ and remembers it for a peer that repeats itself (CM-4.7).
    pub(super) fn send_rej(&mut self, conn: ConnId, reason: u16, private_data: &[u8]) {
        let Some(connection) = self.table.get(conn) else { return };
        let (route, bytes) = (connection.route, connection.rej(reason, private_data).emit());
        self.answer(route, bytes);
        if connection_is_ours_alone(self, conn) {
            self.forget(conn);
        } else {
            self.linger(conn, Some(bytes));
        }
    }

    /// Answers a message of a connection that is not known.
    pub(super) fn refuse(
        &mut self,
        route: Route,
        transaction_id: u64,
        ids: CommIds,
        about: About,
        reason: u16,
    ) {
        let message = Message::Rej(Rej {
            local_comm_id: ids.ours,
            remote_comm_id: ids.theirs,
            message: about as u8,
            reason,
            ..Rej::ZERO
        });
        self.answer(route, Mad { transaction_id, message }.emit());
    }

    /// A message names a connection that is not known: its sender believes in one (CM-3.3).
    pub(super) fn unknown(
        &mut self,
        route: Route,
        transaction_id: u64,
        ids: CommIds,
        about: About,
        why: DropReason,
    ) -> Result<(), DropReason> {
        if why == DropReason::UnknownConnection {
            self.refuse(route, transaction_id, ids, about, reason::INVALID_COMM_ID);
        }
        Err(why)
    }

    /// Tells a peer that repeats itself that the program has not decided yet (CM-4.5).
    pub(super) fn ask_for_time(&mut self, conn: ConnId, about: About) {
        let service_timeout = self.config.service_timeout;
        let Some(connection) = self.table.get_mut(conn) else { return };
        let (mra, route) = (connection.mra(about, service_timeout), connection.route);
        connection.repeats_by = self.now + self.config.wait(service_timeout) + connection.wait;
        self.answer(route, mra.emit());
    }

    pub(super) fn on_mra(
        &mut self,
        route: Route,
        transaction_id: u64,
        mra: &Mra,
    ) -> Result<(), DropReason> {
        let connection = self.named(route, mra.remote_comm_id)?;
        let is_about = |about| mra.message == about as u8;
        let is_meant = match connection.state {
            State::ReqSent => is_about(About::Req) && connection.transaction_id == transaction_id,
            State::RepSent => {
                is_about(About::Rep) && connection.remote_comm_id == mra.local_comm_id
            }
            _ => return Err(DropReason::Duplicate),
        };
        if !is_meant {
            return Err(DropReason::WrongPeer);
        }
        if connection.is_delayed {
            return Err(DropReason::Duplicate);
        }
        let at = self.now + connection.wait + self.config.wait(mra.service_timeout);
        let conn = ConnId(mra.remote_comm_id);
        self.table.set_deadline(conn, Some(at));
        if let Some(connection) = self.table.get_mut(conn) {
            // The listener that it was said to may be gone.
            (connection.route, connection.is_delayed) = (route, true);
        }
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
                self.ask_soon(conn);
            }
            State::ReqSent | State::RepRcvd => self.end(conn, event),
            State::ReqRcvd | State::RepSent => {
                self.tell(conn, event);
                // A REQ that was repeated before may still come, and must not begin anew.
                self.linger(conn, None);
            }
            State::Established | State::DreqSent => self.set_disconnected(conn, false),
            // Its program has been told, and agrees or leaves.
            _ => return Err(DropReason::Duplicate),
        }
        Ok(())
    }

    /// The connection that a REJ is about. A requester that gives up may not know our id, but what
    /// it asked by; a responder that never had one does not know its own.
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
        let connection = self.named(route, rej.remote_comm_id)?;
        let is_meant = match connection.state {
            State::ReqSent => connection.transaction_id == transaction_id,
            _ => connection.remote_comm_id == rej.local_comm_id,
        };
        if is_meant { Ok(ConnId(rej.remote_comm_id)) } else { Err(DropReason::WrongPeer) }
    }

    /// Whether the message that begins with `bytes` is one that this agent says to `peer` about a
    /// connection of theirs: who cannot read our messages cannot quote one in an ICMP message.
    #[must_use]
    pub fn is_said_to(&self, peer: SocketAddr, bytes: &[u8]) -> bool {
        let Some(conn) = Mad::sender_id(bytes).map(ConnId) else { return false };
        self.table.get(conn).is_some_and(|connection| connection.route.peer == peer)
    }

    /// Nobody receives at `peer`: the host was told by its network (ICMP), or otherwise knows
    /// (CM-4.9).
    pub fn unreachable(&mut self, now: Duration, peer: SocketAddr) {
        self.advance(now);
        for conn in self.table.with_peer(peer) {
            let Some(connection) = self.table.get(conn) else { continue };
            match connection.state {
                State::ReqSent | State::SidrReqSent if self.is_early(connection) => {
                    self.ask_soon(conn);
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
                // As if by the DREQ that Linux sends for a process that is killed.
                State::Established | State::DreqSent => self.set_disconnected(conn, false),
                // Its program has been told, and agrees or leaves.
                State::DreqRcvd | State::TimeWait => {}
            }
        }
    }
}

impl Agent {
    /// The network knows no way to `peer`: a question that has been asked for a while is given up
    /// (CM-4.9).
    pub fn no_way(&mut self, now: Duration, peer: SocketAddr) {
        self.advance(now);
        for conn in self.table.with_peer(peer) {
            let Some(connection) = self.table.get(conn) else { continue };
            let is_question = matches!(connection.state, State::ReqSent | State::SidrReqSent);
            if is_question && self.now >= connection.asked_at + NO_WAY_WAIT {
                self.end(conn, Event::Unreachable { conn });
            }
        }
    }

    /// The peer's program may be about to listen (CM-4.9).
    fn is_early(&self, connection: &Connection) -> bool {
        self.now < connection.asked_at + self.config.nobody_wait
    }

    /// Repeats a question soon, which does not count as a repetition.
    fn ask_soon(&mut self, conn: ConnId) {
        let at = self.now + NOBODY_WAIT;
        let retries_max = self.config.retries_max;
        let Some(connection) = self.table.get_mut(conn) else { return };
        // Once, though the peer's host answers each of many questions for all of them.
        if connection.deadline.is_none_or(|deadline| deadline > at) {
            connection.retries_left = connection.retries_left.saturating_add(1).min(retries_max);
        }
        self.table.set_deadline(conn, Some(at));
    }
}

/// The peer has not named the connection yet, so that nothing of it need be remembered.
fn connection_is_ours_alone(agent: &Agent, conn: ConnId) -> bool {
    agent.table.get(conn).is_none_or(|c| c.state == State::ReqSent)
}
