//! The end of connections: DREQ, DREP, and the time after them.

use super::Agent;
use super::connection::State;
use crate::mad::{Drep, Dreq, Mad, Message, reason, sidr_status};
use crate::{CallError, ConnId, DropReason, Event, Route, ServiceQp};
use std::time::Duration;

/// Attribute of a DREP.
const DREP: u16 = 0x16;

impl Agent {
    /// Ends an established connection, or accepts the peer's DREQ (CM-5.1). The former ends with
    /// [`Event::Disconnected`]; both then end with [`Event::TimewaitExit`].
    ///
    /// # Errors
    /// [`CallError::Unknown`], [`CallError::WrongState`].
    pub fn disconnect(&mut self, now: Duration, conn: ConnId) -> Result<(), CallError> {
        self.advance(now);
        match self.lookup(conn)?.state {
            State::Established => self.send_dreq(conn),
            State::DreqRcvd => self.send_drep(conn),
            _ => return Err(CallError::WrongState),
        }
        Ok(())
    }

    /// Discards the connection, whatever its state: no event of it follows. Its peer is notified as
    /// its state requires (CM-5.5).
    pub fn destroy(&mut self, now: Duration, conn: ConnId) {
        self.advance(now);
        self.taken(conn);
        let Ok(connection) = self.lookup(conn) else { return };
        let state = connection.state;
        self.events.retain(|event| event.conn() != conn);
        match state {
            State::ReqSent => self.send_rej(conn, reason::TIMEOUT, &[]),
            State::ReqRcvd | State::RepRcvd | State::RepSent => {
                self.send_rej(conn, reason::CONSUMER_DEFINED, &[]);
            }
            State::Established => self.send_dreq(conn),
            State::DreqRcvd => self.send_drep(conn),
            State::SidrReqSent => self.forget(conn),
            State::SidrReqRcvd => {
                self.send_sidr_rep(conn, sidr_status::REJECT, ServiceQp::NONE, [0; 136]);
            }
            State::DreqSent | State::TimeWait => {}
        }
        if let Some(connection) = self.table.get_mut(conn) {
            connection.is_abandoned = true;
        }
    }

    fn send_dreq(&mut self, conn: ConnId) {
        let (transaction_id, retries) = (self.random.next(), self.config.retries_max);
        let wait = self.config.wait(self.config.response_timeout);
        self.table.set_state(conn, State::DreqSent);
        let Some(connection) = self.table.get_mut(conn) else { return };
        connection.transaction_id = transaction_id;
        let dreq = connection.dreq();
        self.send_request(conn, &dreq, wait, retries);
    }

    fn send_drep(&mut self, conn: ConnId) {
        let Some(connection) = self.table.get_mut(conn) else { return };
        connection.wants_exit_event = true;
        let (route, bytes) = (connection.route, connection.drep().emit());
        self.answer(route, bytes);
        self.enter_timewait(conn, Some(bytes));
    }

    /// Disconnects: the peer has ended the connection, or does not answer any more.
    pub(super) fn set_disconnected(&mut self, conn: ConnId, timed_out: bool) {
        if let Some(connection) = self.table.get_mut(conn) {
            connection.wants_exit_event = true;
        }
        self.queue_event(conn, Event::Disconnected { conn, timed_out });
        self.enter_timewait(conn, None);
    }

    /// Ends a connection whose peer has begun another one with the same queue pair (CM-4.8).
    pub(super) fn end_stale(&mut self, conn: ConnId) {
        if self.table.get(conn).is_some_and(|c| c.state == State::Established) {
            self.send_dreq(conn);
        }
    }

    pub(super) fn on_dreq(
        &mut self,
        route: Route,
        transaction_id: u64,
        dreq: &Dreq,
    ) -> Result<(), DropReason> {
        let (ours, theirs) = (dreq.remote_comm_id, dreq.local_comm_id);
        let state = match self.by_both_ids(route, ours, theirs) {
            Ok(state) => state,
            Err(DropReason::UnknownConnection) => {
                self.answer_dreq(route, transaction_id, dreq);
                return Err(DropReason::UnknownConnection);
            }
            Err(other) => return Err(other),
        };
        let conn = ConnId(ours);
        let Some(connection) = self.table.get_mut(conn) else { return Ok(()) };
        if connection.local.qpn & 0x00FF_FFFF != dreq.remote_qpn {
            return Err(DropReason::WrongPeer);
        }
        match state {
            State::RepSent => self.set_established(conn),
            State::Established | State::DreqSent => {}
            State::TimeWait => {
                self.repeat_drep(conn, transaction_id);
                return Err(DropReason::Duplicate);
            }
            _ => return Err(DropReason::Duplicate),
        }
        let Some(connection) = self.table.get_mut(conn) else { return Ok(()) };
        connection.transaction_id = transaction_id;
        connection.last = None;
        let answers_at_once = state == State::DreqSent || connection.is_abandoned;
        self.queue_event(conn, Event::Disconnected { conn, timed_out: false });
        if answers_at_once {
            self.send_drep(conn);
        } else {
            self.table.set_deadline(conn, None);
            self.table.set_state(conn, State::DreqRcvd);
        }
        Ok(())
    }

    /// Answers a DREQ for a connection that is not known: it has ended here (CM-3.3).
    fn answer_dreq(&mut self, route: Route, transaction_id: u64, dreq: &Dreq) {
        let message = Message::Drep(Drep {
            local_comm_id: dreq.remote_comm_id,
            remote_comm_id: dreq.local_comm_id,
            ..Drep::ZERO
        });
        self.answer(route, Mad { transaction_id, message }.emit());
    }

    /// Repeats the DREP, because the peer has not received it.
    fn repeat_drep(&mut self, conn: ConnId, transaction_id: u64) {
        let Some(connection) = self.table.get_mut(conn) else { return };
        connection.transaction_id = transaction_id;
        if connection.last_attribute() != super::refusing::REJ {
            connection.last = Some(Box::new(connection.drep().emit()));
        }
        debug_assert!(matches!(connection.last_attribute(), DREP | super::refusing::REJ));
        self.repeat(conn);
    }

    pub(super) fn on_drep(&mut self, route: Route, drep: &Drep) -> Result<(), DropReason> {
        let (ours, theirs) = (drep.remote_comm_id, drep.local_comm_id);
        match self.by_both_ids(route, ours, theirs)? {
            State::DreqSent => {
                self.set_disconnected(ConnId(ours), false);
                Ok(())
            }
            _ => Err(DropReason::Duplicate),
        }
    }
}
