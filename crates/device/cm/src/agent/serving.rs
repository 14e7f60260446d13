//! The responder's side: REQ in, REP out, RTU in.

use super::connection::{AnsweredMessage, Connection, State};
use super::refusing::CommIds;
use super::table::Key;
use super::{Agent, padded, split_addresses};
use crate::mad::{IpHeader, Mad, Message, Rep, Req, Rtu, reason};
use crate::{
    CallError, ConnId, DropReason, Event, ListenerId, Offer, Path, QpParams, Request, Route,
    Transport,
};
use std::net::IpAddr;
use std::time::Duration;

impl Agent {
    /// Accepts a requested connection; ends with [`Event::Established`], [`Event::Rejected`] or
    /// [`Event::Unreachable`]. The queue pair must be able to receive by now.
    ///
    /// # Errors
    /// [`CallError::Unknown`], [`CallError::WrongState`], [`CallError::PrivateData`]: 196 bytes
    /// fit.
    pub fn accept(
        &mut self,
        now: Duration,
        conn: ConnId,
        offer: Offer,
        private_data: &[u8],
    ) -> Result<(), CallError> {
        self.advance(now);
        let private_data = padded(private_data)?;
        let target_ack_delay = self.config.ack_delay;
        let connection = self.lookup(conn)?;
        if connection.state != State::ReqRcvd {
            return Err(CallError::WrongState);
        }
        connection.local = offer;
        connection.qp.responder_resources = offer.responder_resources;
        connection.qp.initiator_depth = offer.initiator_depth;
        let rep = Rep {
            local_comm_id: connection.local_comm_id,
            remote_comm_id: connection.remote_comm_id,
            local_qpn: offer.qpn,
            starting_psn: connection.qp.rq_psn,
            responder_resources: offer.responder_resources,
            initiator_depth: offer.initiator_depth,
            target_ack_delay,
            failover_accepted: 1,
            flow_control: offer.flow_control,
            rnr_retry_count: offer.rnr_retry_count.min(7),
            srq: offer.srq,
            local_ca_guid: offer.ca_guid,
            private_data,
            ..Rep::ZERO
        };
        let mad = Mad { transaction_id: connection.transaction_id, message: Message::Rep(rep) };
        let (wait, retries) = (connection.wait, connection.retries_left);
        // A peer that announces a very long response time would stay half-open for as long.
        let wait = wait.min(self.config.wait(self.config.response_timeout));
        let retries = retries.min(self.config.retries_max);
        self.taken(conn);
        self.table.set_state(conn, State::RepSent);
        self.send_request(conn, &mad, wait, retries);
        Ok(())
    }

    /// Establishes an accepted connection because data arrived on it: its requester is ready, even
    /// if the RTU was lost (CM-4.4).
    ///
    /// # Errors
    /// [`CallError::Connected`], [`CallError::WrongState`], [`CallError::Unknown`].
    pub fn establish(&mut self, now: Duration, conn: ConnId) -> Result<(), CallError> {
        self.advance(now);
        match self.lookup(conn)?.state {
            State::RepSent => {
                self.set_established(conn);
                Ok(())
            }
            State::Established => Err(CallError::Connected),
            _ => Err(CallError::WrongState),
        }
    }

    /// Like [`establish`](Self::establish), for a host that knows the queue pair but not the
    /// connection; does nothing when none of its connections waits for an RTU.
    pub fn data_arrived(&mut self, now: Duration, ca_guid: u64, qpn: u32) {
        self.advance(now);
        if let Some(conn) = self.table.waiting_for_rtu(ca_guid, qpn) {
            self.set_established(conn);
        }
    }

    pub(super) fn set_established(&mut self, conn: ConnId) {
        self.table.set_state(conn, State::Established);
        self.await_keepalive(conn);
        if let Some(connection) = self.table.get_mut(conn) {
            connection.last = None;
        }
        self.queue_event(conn, Event::Established { conn });
    }

    pub(super) fn on_req(
        &mut self,
        route: Route,
        transaction_id: u64,
        req: &Req,
    ) -> Result<(), DropReason> {
        let address = route.peer.ip();
        let key = Key::Id(address, req.local_ca_guid, req.local_comm_id);
        if let Some(conn) = self.table.find(key) {
            return self.on_repeated_req(conn);
        }
        let refuse = |agent: &mut Self, reason| {
            let ids = CommIds { ours: 0, theirs: req.local_comm_id };
            agent.refuse(route, transaction_id, ids, AnsweredMessage::Req, reason);
        };
        let qpn = Key::Qpn(address, req.local_ca_guid, req.local_qpn);
        if let Some(stale) = self.table.find(qpn) {
            refuse(self, reason::STALE_CONNECTION);
            self.end_stale(stale);
            return Err(DropReason::Stale);
        }
        let (addresses, private_data) = split_addresses(req.service_id, &req.private_data);
        let listener = self.listener_of(route, req.service_id, addresses);
        let Some(listener) = listener else {
            refuse(self, reason::INVALID_SERVICE_ID);
            return Err(DropReason::NoListener);
        };
        let transport = Transport::from_code(req.transport);
        let Some(transport) = transport.filter(|_| !self.is_datagram(listener)) else {
            refuse(self, reason::INVALID_TRANSPORT);
            return Err(DropReason::NoListener);
        };
        self.admit(listener)?;
        let conn = self.insert_requested(route, transaction_id, req, transport, listener);
        self.table.add_key(conn, key);
        let _ = self.claim_qpn(conn, address, req.local_ca_guid, req.local_qpn);
        let request = Box::new(Request {
            route,
            addresses,
            service_id: req.service_id,
            transport,
            offer: Offer::of_req(req),
            path: Path::back_from(req),
            private_data,
        });
        self.queue_event(conn, Event::Requested { listener, conn, request });
        Ok(())
    }

    /// Returns the listener for a request. Addresses of another family than the message's are
    /// forged.
    pub(super) fn listener_of(
        &self,
        route: Route,
        service_id: u64,
        addresses: Option<IpHeader>,
    ) -> Option<ListenerId> {
        let asked = addresses.map_or(route.local, |header| header.destination);
        let is_of_family = asked.is_ipv4() == route.local.is_ipv4();
        self.listeners.find(service_id, asked).filter(|_| is_of_family)
    }

    pub(super) fn is_datagram(&mut self, listener: ListenerId) -> bool {
        self.listeners.get_mut(listener).is_some_and(|listener| listener.params.is_datagram)
    }

    /// Counts one more request in the listener's backlog, if it and the limits have room. Otherwise
    /// the request gets no answer, as in Linux: the requester repeats it.
    pub(super) fn admit(&mut self, listener: ListenerId) -> Result<(), DropReason> {
        let is_full = self.table.len() >= self.config.connections_max
            || self.table.half_open() >= self.config.half_open_max;
        if is_full {
            return Err(DropReason::Full);
        }
        let listener = self.listeners.get_mut(listener).ok_or(DropReason::NoListener)?;
        if listener.waiting >= listener.params.backlog {
            return Err(DropReason::Backlog);
        }
        listener.waiting += 1;
        Ok(())
    }

    fn insert_requested(
        &mut self,
        route: Route,
        transaction_id: u64,
        req: &Req,
        transport: Transport,
        listener: ListenerId,
    ) -> ConnId {
        let qp = QpParams {
            transport,
            remote_qpn: req.local_qpn,
            rq_psn: self.random.psn(),
            sq_psn: req.starting_psn,
            responder_resources: req.initiator_depth,
            initiator_depth: req.responder_resources,
            retry_count: req.retry_count,
            rnr_retry_count: req.rnr_retry_count,
            ack_timeout: req.primary_ack_timeout,
            is_answered: true,
            path: Path::back_from(req),
        };
        let mut connection = Connection::new(State::ReqRcvd, route, transaction_id, qp);
        connection.remote_comm_id = req.local_comm_id;
        (connection.listener, connection.is_untaken) = (Some(listener), true);
        connection.wait = self.config.wait(req.local_response_timeout);
        connection.retries_left = req.max_cm_retries;
        let id = self.draw_id();
        self.table.insert(id, connection)
    }

    /// Makes this the only connection with that queue pair of the peer; fails with another one that
    /// has it.
    pub(super) fn claim_qpn(
        &mut self,
        conn: ConnId,
        address: IpAddr,
        ca_guid: u64,
        qpn: u32,
    ) -> Result<(), ConnId> {
        let key = Key::Qpn(address, ca_guid, qpn);
        match self.table.find(key) {
            Some(other) if other != conn => Err(other),
            // Programs that connect without a queue pair all send 0.
            _ if qpn == 0 => Ok(()),
            _ => {
                self.table.add_key(conn, key);
                Ok(())
            }
        }
    }

    /// Handles a repeated REQ (CM-4.2).
    fn on_repeated_req(&mut self, conn: ConnId) -> Result<(), DropReason> {
        let connection = self.table.get(conn).ok_or(DropReason::UnknownConnection)?;
        match connection.state {
            State::ReqRcvd => self.ask_for_time(conn, AnsweredMessage::Req),
            State::RepSent => self.repeat(conn),
            State::TimeWait if connection.last_attribute() == super::refusing::REJ => {
                self.repeat(conn);
            }
            _ => {}
        }
        Err(DropReason::Duplicate)
    }

    pub(super) fn on_rtu(
        &mut self,
        route: Route,
        transaction_id: u64,
        rtu: &Rtu,
    ) -> Result<(), DropReason> {
        let (ours, theirs) = (rtu.remote_comm_id, rtu.local_comm_id);
        let state = match self.by_both_ids(route, ours, theirs) {
            Ok(state) => state,
            Err(reason) => {
                let ids = CommIds { ours, theirs };
                return self.refuse_unknown(
                    route,
                    transaction_id,
                    ids,
                    AnsweredMessage::Other,
                    reason,
                );
            }
        };
        let conn = ConnId(ours);
        match state {
            State::RepSent => {
                self.set_established(conn);
                return Ok(());
            }
            // It was refused after the REP, and the requester believes that it is connected.
            State::TimeWait => self.repeat(conn),
            _ => {}
        }
        Err(DropReason::Duplicate)
    }
}
