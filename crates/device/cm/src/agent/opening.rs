//! The requester's side: REQ out, REP in, RTU out.

use super::connection::{AnsweredMessage, Connection, State};
use super::refusing::CommIds;
use super::table::Key;
use super::{Agent, with_addresses};
use crate::mad::{Mad, Message, Rej, Rep, Req, reason};
use crate::param::ack_timeout;
use crate::{CallError, ConnId, ConnectParams, DropReason, Event, Offer, QpParams, Route};
use std::time::Duration;

/// LID of a port behind a router; on Ethernet all ports are.
const PERMISSIVE_LID: u16 = 0xFFFF;

impl Agent {
    /// Requests a connection from the agent at `route` (CM-4.1, CM-4.2); ends with one of
    /// [`Event::Accepted`], [`Event::Rejected`] and [`Event::Unreachable`].
    ///
    /// # Errors
    /// [`CallError::PrivateData`], [`CallError::MixedFamilies`], [`CallError::Full`].
    pub fn connect(
        &mut self,
        now: Duration,
        route: Route,
        params: &ConnectParams<'_>,
    ) -> Result<ConnId, CallError> {
        self.advance(now);
        let private_data = with_addresses(params.addresses, params.private_data)?;
        if self.table.len() >= self.config.connections_max {
            return Err(CallError::Full);
        }
        let (id, transaction_id) = (self.draw_id(), self.random.next());
        let qp = self.requester_qp(params);
        let req = self.req(id, &qp, params, private_data);
        let mut connection = Connection::new(State::ReqSent, route, transaction_id, qp);
        connection.local = params.offer;
        let conn = self.table.insert(id, connection);
        let mad = Mad { transaction_id, message: Message::Req(req) };
        self.send_request(conn, &mad, self.config.request_wait(), self.config.retries_max);
        Ok(conn)
    }

    /// Establishes the connection: the requester's program has set up its queue pair (CM-4.3).
    ///
    /// # Errors
    /// [`CallError::Unknown`], [`CallError::WrongState`].
    pub fn ready(&mut self, now: Duration, conn: ConnId) -> Result<(), CallError> {
        self.advance(now);
        let connection = self.lookup(conn)?;
        if connection.state != State::RepRcvd {
            return Err(CallError::WrongState);
        }
        let (route, bytes) = (connection.route, connection.rtu().emit());
        connection.last = Some(Box::new(bytes));
        self.table.set_state(conn, State::Established);
        self.answer(route, bytes);
        self.await_keepalive(conn);
        Ok(())
    }

    fn requester_qp(&mut self, params: &ConnectParams<'_>) -> QpParams {
        QpParams {
            transport: params.transport,
            remote_qpn: 0,
            rq_psn: self.random.psn(),
            sq_psn: 0,
            responder_resources: params.offer.responder_resources,
            initiator_depth: params.offer.initiator_depth,
            retry_count: params.offer.retry_count.min(7),
            rnr_retry_count: params.offer.rnr_retry_count.min(7),
            ack_timeout: ack_timeout(self.config.ack_delay, self.config.packet_life_time),
            is_answered: false,
            path: params.path,
        }
    }

    fn req(
        &self,
        local_comm_id: u32,
        qp: &QpParams,
        params: &ConnectParams<'_>,
        private_data: [u8; 92],
    ) -> Req {
        let (offer, path) = (&params.offer, &params.path);
        let is_local = path.hop_limit <= 1;
        let lid = if is_local { 0 } else { PERMISSIVE_LID };
        Req {
            local_comm_id,
            service_id: params.service_id,
            local_ca_guid: offer.ca_guid,
            local_qpn: offer.qpn,
            responder_resources: offer.responder_resources,
            initiator_depth: offer.initiator_depth,
            remote_response_timeout: self.config.response_timeout,
            transport: params.transport.code(),
            flow_control: offer.flow_control,
            starting_psn: qp.rq_psn,
            local_response_timeout: self.config.response_timeout,
            retry_count: qp.retry_count,
            pkey: path.pkey,
            mtu: path.mtu,
            rnr_retry_count: qp.rnr_retry_count,
            max_cm_retries: self.config.retries_max,
            srq: offer.srq,
            primary_local_lid: lid,
            primary_remote_lid: lid,
            primary_local_gid: path.local_gid,
            primary_remote_gid: path.remote_gid,
            primary_flow_label: path.flow_label,
            primary_packet_rate: path.rate,
            primary_traffic_class: path.traffic_class,
            primary_hop_limit: path.hop_limit,
            primary_sl: path.sl,
            primary_subnet_local: is_local,
            primary_ack_timeout: qp.ack_timeout,
            private_data,
            ..Req::ZERO
        }
    }

    pub(super) fn on_rep(
        &mut self,
        route: Route,
        transaction_id: u64,
        rep: &Rep,
    ) -> Result<(), DropReason> {
        let conn = ConnId(rep.remote_comm_id);
        let connection = match self.by_our_id(route, rep.remote_comm_id) {
            Ok(connection) => connection,
            Err(reason) => {
                let ids = CommIds { ours: rep.remote_comm_id, theirs: rep.local_comm_id };
                return self.refuse_unknown(
                    route,
                    transaction_id,
                    ids,
                    AnsweredMessage::Rep,
                    reason,
                );
            }
        };
        match connection.state {
            State::ReqSent if connection.transaction_id == transaction_id => {
                self.take_rep(conn, route, rep)
            }
            State::ReqSent => Err(DropReason::WrongPeer),
            _ => self.on_late_rep(conn, route, rep),
        }
    }

    fn take_rep(&mut self, conn: ConnId, route: Route, rep: &Rep) -> Result<(), DropReason> {
        let address = route.peer.ip();
        let id = Key::Id(address, rep.local_ca_guid, rep.local_comm_id);
        if rep.local_comm_id == 0 || !self.table.add_key(conn, id) {
            return Err(DropReason::Duplicate);
        }
        if let Err(stale) = self.claim_qpn(conn, address, rep.local_ca_guid, rep.local_qpn) {
            return self.refuse_stale_rep(conn, route, rep, stale);
        }
        let life_time = self.config.packet_life_time;
        self.table.set_deadline(conn, None);
        self.table.set_state(conn, State::RepRcvd);
        let Some(connection) = self.table.get_mut(conn) else { return Ok(()) };
        connection.route = route;
        connection.remote_comm_id = rep.local_comm_id;
        connection.last = None;
        let qp = &mut connection.qp;
        qp.remote_qpn = rep.local_qpn;
        qp.sq_psn = rep.starting_psn;
        // The requests that one side may have outstanding are those that the other must be able to
        // answer.
        qp.responder_resources = rep.initiator_depth;
        qp.initiator_depth = rep.responder_resources;
        qp.rnr_retry_count = rep.rnr_retry_count;
        qp.ack_timeout = ack_timeout(rep.target_ack_delay, life_time);
        let private_data = rep.private_data.into();
        self.queue_event(conn, Event::Accepted { conn, offer: Offer::of_rep(rep), private_data });
        Ok(())
    }

    /// Refuses a REP whose queue pair has a connection that the responder does not know (CM-4.8).
    fn refuse_stale_rep(
        &mut self,
        conn: ConnId,
        route: Route,
        rep: &Rep,
        stale: ConnId,
    ) -> Result<(), DropReason> {
        if let Some(connection) = self.table.get_mut(conn) {
            connection.remote_comm_id = rep.local_comm_id;
            let rej = Message::Rej(Rej {
                local_comm_id: connection.local_comm_id,
                remote_comm_id: connection.remote_comm_id,
                message: AnsweredMessage::Rep as u8,
                reason: reason::STALE_CONNECTION,
                ..Rej::ZERO
            });
            let mad = Mad { transaction_id: connection.transaction_id, message: rej };
            self.answer(route, mad.emit());
        }
        let private_data = vec![0; 148].into();
        self.end(conn, Event::Rejected { conn, reason: reason::STALE_CONNECTION, private_data });
        self.end_stale(stale);
        Err(DropReason::Stale)
    }

    /// Handles a REP that was repeated: the RTU was lost, or the program has not decided yet.
    fn on_late_rep(&mut self, conn: ConnId, route: Route, rep: &Rep) -> Result<(), DropReason> {
        let state = self.by_both_ids(route, rep.remote_comm_id, rep.local_comm_id)?;
        match state {
            State::RepRcvd => self.ask_for_time(conn, AnsweredMessage::Rep),
            State::Established | State::TimeWait => self.repeat(conn),
            // The connection is ending (CM-5.3).
            _ => {}
        }
        Err(DropReason::Duplicate)
    }
}
