//! SIDR: finding the queue pair that serves the datagrams of a service.

use super::connection::{Connection, State};
use super::table::Key;
use super::{Agent, padded, split_addresses, with_addresses};
use crate::mad::{Mad, Message, SidrRep, SidrReq, sidr_status};
use crate::{
    CallError, ConnId, DropReason, Event, Offer, Path, QpParams, Resolution, ResolveParams, Route,
    ServiceQp, Transport,
};
use std::time::Duration;

/// A SIDR query has no queue pair of its own.
const NO_QP: QpParams = QpParams {
    transport: Transport::Uc,
    remote_qpn: 0,
    rq_psn: 0,
    sq_psn: 0,
    responder_resources: 0,
    initiator_depth: 0,
    retry_count: 0,
    rnr_retry_count: 0,
    ack_timeout: 0,
    is_answered: false,
    path: Path {
        local_gid: [0; 16],
        remote_gid: [0; 16],
        pkey: 0,
        mtu: 0,
        flow_label: 0,
        traffic_class: 0,
        hop_limit: 0,
        sl: 0,
        rate: 0,
    },
};

impl Agent {
    /// Asks the agent at `route` for the queue pair of a datagram service; ends with one of
    /// [`Event::Resolved`], [`Event::NotResolved`] and [`Event::Unreachable`].
    ///
    /// # Errors
    /// [`CallError::PrivateData`], [`CallError::MixedFamilies`], [`CallError::Full`].
    pub fn resolve(
        &mut self,
        now: Duration,
        route: Route,
        params: &ResolveParams<'_>,
    ) -> Result<ConnId, CallError> {
        self.advance(now);
        let private_data = with_addresses(params.addresses, params.private_data)?;
        if self.table.len() >= self.config.connections_max {
            return Err(CallError::Full);
        }
        let (id, transaction_id) = (self.draw_id(), self.random.next());
        let connection = Connection::new(State::SidrReqSent, route, transaction_id, NO_QP);
        let conn = self.table.insert(id, connection);
        let (service_id, pkey) = (params.service_id, params.pkey);
        let req = SidrReq { request_id: id, pkey, service_id, private_data };
        let mad = Mad { transaction_id, message: Message::SidrReq(req) };
        self.send_request(conn, &mad, self.config.request_wait(), self.config.retries_max);
        Ok(conn)
    }

    /// Answers a SIDR query with a queue pair and its key, and forgets the query.
    ///
    /// # Errors
    /// [`CallError::Unknown`], [`CallError::WrongState`], [`CallError::PrivateData`]: 136 bytes
    /// fit.
    pub fn accept_resolution(
        &mut self,
        now: Duration,
        conn: ConnId,
        qp: ServiceQp,
        private_data: &[u8],
    ) -> Result<(), CallError> {
        self.answer_resolution(now, conn, sidr_status::SUCCESS, qp, private_data)
    }

    /// Refuses a SIDR query and forgets it.
    ///
    /// # Errors
    /// As [`accept_resolution`](Self::accept_resolution).
    pub fn reject_resolution(
        &mut self,
        now: Duration,
        conn: ConnId,
        status: u8,
        private_data: &[u8],
    ) -> Result<(), CallError> {
        self.answer_resolution(now, conn, status, ServiceQp::NONE, private_data)
    }

    fn answer_resolution(
        &mut self,
        now: Duration,
        conn: ConnId,
        status: u8,
        qp: ServiceQp,
        private_data: &[u8],
    ) -> Result<(), CallError> {
        self.advance(now);
        let private_data = padded(private_data)?;
        if self.lookup(conn)?.state != State::SidrReqRcvd {
            return Err(CallError::WrongState);
        }
        self.send_sidr_rep(conn, status, qp, private_data);
        Ok(())
    }

    /// Sends the answer and remembers it for a peer that repeats its query (CM-7.2).
    pub(super) fn send_sidr_rep(
        &mut self,
        conn: ConnId,
        status: u8,
        qp: ServiceQp,
        private_data: [u8; 136],
    ) {
        let ServiceQp { qpn, qkey } = qp;
        let Some(connection) = self.table.get(conn) else { return };
        let request_id = connection.remote_comm_id;
        // The service id is stored where a connection has the GUID of its adapter.
        let service_id = connection.local.ca_guid;
        let rep =
            SidrRep { request_id, status, qpn, service_id, qkey, private_data, ..SidrRep::ZERO };
        let (route, transaction_id) = (connection.route, connection.transaction_id);
        let bytes = Mad { transaction_id, message: Message::SidrRep(rep) }.emit();
        self.answer(route, bytes);
        self.enter_timewait(conn, Some(bytes));
    }

    pub(super) fn on_sidr_req(
        &mut self,
        route: Route,
        transaction_id: u64,
        req: &SidrReq,
    ) -> Result<(), DropReason> {
        let key = Key::Question(route.peer, req.request_id);
        if let Some(conn) = self.table.find(key) {
            self.repeat(conn);
            return Err(DropReason::Duplicate);
        }
        let (addresses, private_data) = split_addresses(req.service_id, &req.private_data);
        let listener = self.listener_of(route, req.service_id, addresses);
        let Some(listener) = listener.filter(|&listener| self.is_datagram(listener)) else {
            self.refuse_resolution(route, transaction_id, req);
            return Err(DropReason::NoListener);
        };
        self.admit(listener)?;
        let mut connection = Connection::new(State::SidrReqRcvd, route, transaction_id, NO_QP);
        connection.remote_comm_id = req.request_id;
        (connection.listener, connection.is_untaken) = (Some(listener), true);
        connection.wait = self.config.request_wait();
        connection.local = Offer { ca_guid: req.service_id, ..Offer::default() };
        let id = self.draw_id();
        let conn = self.table.insert(id, connection);
        self.table.add_key(conn, key);
        let (service_id, pkey) = (req.service_id, req.pkey);
        let request = Box::new(Resolution { route, addresses, service_id, pkey, private_data });
        self.queue_event(conn, Event::ResolutionRequested { listener, conn, request });
        Ok(())
    }

    fn refuse_resolution(&mut self, route: Route, transaction_id: u64, req: &SidrReq) {
        let message = Message::SidrRep(SidrRep {
            request_id: req.request_id,
            status: sidr_status::UNSUPPORTED,
            service_id: req.service_id,
            ..SidrRep::ZERO
        });
        self.answer(route, Mad { transaction_id, message }.emit());
    }

    pub(super) fn on_sidr_rep(
        &mut self,
        route: Route,
        transaction_id: u64,
        rep: &SidrRep,
    ) -> Result<(), DropReason> {
        let connection = self.by_our_id(route, rep.request_id)?;
        let is_meant = connection.transaction_id == transaction_id;
        if connection.state != State::SidrReqSent || !is_meant {
            return Err(DropReason::WrongPeer);
        }
        let (conn, private_data) = (ConnId(rep.request_id), rep.private_data.into());
        let event = if rep.status == sidr_status::SUCCESS {
            Event::Resolved { conn, qpn: rep.qpn, qkey: rep.qkey, private_data }
        } else {
            Event::NotResolved { conn, status: rep.status, private_data }
        };
        self.end(conn, event);
        Ok(())
    }
}
