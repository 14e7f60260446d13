//! Events: translates those of the agent to answers of GET_EVENT.

use super::host::Host;
use super::id::{Id, Stage, UDP_QKEY};
use super::{ChannelId, Ids, Reply, room_for};
use crate::mad::IpHeader;
use crate::ucma::{
    ConnParam, Errno, EventResp, EventsReportedResp, GetEvent, MigrateId, UdParam, event,
};
use crate::{ConnId, Event, ListenerId, Offer, Route};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Length of an event without the extensions of vendors.
const EVENT_MIN: usize = 324;

/// An event that waits for GET_EVENT.
#[derive(Debug)]
pub(super) struct Queued {
    /// The id in whose count the event is.
    pub(super) id: u32,
    /// The multicast membership that it is about.
    pub(super) group: Option<u32>,
    /// The connection that a peer requests, which has no id yet.
    request: Option<Pending>,
    resp: EventResp,
}

impl Queued {
    /// Returns the requested connection that no program has seen.
    pub(super) fn pending(&self) -> Option<ConnId> {
        Some(self.request?.conn)
    }
}

/// A disconnect that the program has not been notified of yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withheld {
    id: u32,
    /// The local address of its connection.
    local: IpAddr,
    qpn: u32,
    status: i32,
}

/// A requested connection without an id.
#[derive(Clone, Copy, Debug)]
struct Pending {
    conn: ConnId,
    source: SocketAddr,
    destination: SocketAddr,
    /// The address at which the request arrived, whatever address it names.
    local: IpAddr,
}

/// The source of a connection request, and the service that it names.
#[derive(Clone, Copy, Debug)]
struct ConnectionRequest {
    route: Route,
    addresses: Option<IpHeader>,
    service_id: u64,
}

/// The membership that an event is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Membership {
    pub(super) group: u32,
    /// The program's identifier for it.
    pub(super) uid: u64,
}

impl Ids {
    /// Moves the events of the agent to the queues.
    pub(super) fn take_events(&mut self) {
        while let Some(event) = self.agent.poll_event() {
            self.on_event(event);
        }
    }

    fn on_event(&mut self, event: Event) {
        match event {
            Event::Requested { listener, conn, request } => {
                let param = conn_param(&request.offer, &request.private_data);
                let asked = ConnectionRequest {
                    route: request.route,
                    addresses: request.addresses,
                    service_id: request.service_id,
                };
                self.queue_request(listener, conn, asked, padded(&param.emit()));
            }
            Event::ResolutionRequested { listener, conn, request } => {
                let param = ud_param(&request.private_data);
                let asked = ConnectionRequest {
                    route: request.route,
                    addresses: request.addresses,
                    service_id: request.service_id,
                };
                self.queue_request(listener, conn, asked, param.emit());
            }
            other => self.on_answer(&other),
        }
    }

    /// Handles an event of a connection that has, or had, an id.
    fn on_answer(&mut self, event: &Event) {
        let conn = event.conn();
        let Some(&number) = self.by_conn.get(&conn) else { return };
        let Some(id) = self.ids.get_mut(&number) else { return };
        let none = [0; 304];
        let (kind, status, param) = match event {
            Event::Accepted { offer, private_data, .. } => {
                let param = conn_param(offer, private_data);
                (event::CONNECT_RESPONSE, 0, padded(&param.emit()))
            }
            Event::Established { .. } => (event::ESTABLISHED, 0, none),
            Event::Rejected { reason, private_data, .. } => {
                let param = conn_param(&Offer::default(), private_data);
                (event::REJECTED, i32::from(*reason), padded(&param.emit()))
            }
            Event::Unreachable { .. } => (event::UNREACHABLE, -Errno::ETIMEDOUT.0, none),
            Event::Disconnected { timed_out, .. } => {
                let status = if *timed_out { -Errno::ETIMEDOUT.0 } else { 0 };
                if let Some((local, qpn)) = self.agent.queue_pair(conn) {
                    self.ended.push_back((local, qpn));
                    self.withheld.push(Withheld { id: number, local, qpn, status });
                    return;
                }
                (event::DISCONNECTED, status, none)
            }
            Event::TimewaitExit { .. } => (event::TIMEWAIT_EXIT, 0, none),
            Event::Resolved { qpn, qkey, private_data, .. } => {
                let ah_attr = id.path().map(|path| id.ah_attr(&path)).unwrap_or_default();
                let (qp_num, qkey) = (*qpn, *qkey);
                let param = UdParam { qp_num, qkey, ah_attr, ..ud_param(private_data) };
                (event::ESTABLISHED, 0, param.emit())
            }
            Event::NotResolved { status, private_data, .. } => {
                (event::UNREACHABLE, i32::from(*status), ud_param(private_data).emit())
            }
            Event::Requested { .. } | Event::ResolutionRequested { .. } => return,
        };
        if !matches!(kind, event::CONNECT_RESPONSE | event::DISCONNECTED)
            && !matches!(event, Event::Established { .. })
        {
            id.conn = None;
            self.by_conn.remove(&conn);
        }
        // After a standstill of the host the disconnect may still be withheld; it comes first.
        self.report_withheld(|end| end.id == number);
        self.queue(number, None, kind, status, param);
    }

    fn queue_request(
        &mut self,
        listener: ListenerId,
        conn: ConnId,
        asked: ConnectionRequest,
        param: [u8; 304],
    ) {
        let ConnectionRequest { route, addresses, service_id } = asked;
        let found = self.by_listener.get(&listener).copied();
        let Some((number, id)) = found.and_then(|n| Some((n, self.ids.get(&n)?))) else { return };
        let header = addresses.unwrap_or_else(|| IpHeader {
            source: route.peer.ip(),
            source_port: route.peer.port(),
            destination: route.local,
        });
        let pending = Pending {
            conn,
            source: SocketAddr::new(header.destination, service_id as u16),
            destination: SocketAddr::new(header.source, header.source_port),
            local: route.local,
        };
        let event = event::CONNECT_REQUEST;
        let resp = EventResp { uid: id.uid, id: number, event, param, ..EventResp::default() };
        let queued = Queued { id: number, group: None, request: Some(pending), resp };
        let channel = id.channel;
        self.push(channel, queued);
    }

    /// Queues an event without parameters.
    pub(super) fn queue_plain(&mut self, number: u32, kind: u32, status: i32) {
        self.queue(number, None, kind, status, [0; 304]);
    }

    pub(super) fn queue(
        &mut self,
        number: u32,
        member: Option<Membership>,
        kind: u32,
        status: i32,
        param: [u8; 304],
    ) {
        let Some(id) = self.ids.get(&number) else { return };
        // A new connection has no further events before its program has named it.
        if id.uid == 0 {
            return;
        }
        let (named, uid) = member.map_or((number, id.uid), |member| (member.group, member.uid));
        let resp = EventResp {
            uid,
            id: named,
            event: kind,
            status: status as u32,
            param,
            ..EventResp::default()
        };
        let group = member.map(|member| member.group);
        let queued = Queued { id: number, group, request: None, resp };
        let channel = id.channel;
        self.push(channel, queued);
    }

    fn push(&mut self, channel: ChannelId, queued: Queued) {
        self.channels.entry(channel).or_default().push_back(queued);
        self.readable.insert(channel);
    }

    /// Notifies the program that the connection of a queue pair returned by
    /// [`poll_ended`](Self::poll_ended) has ended; [`poll_readable`](Self::poll_readable) follows.
    /// Does nothing when the program was notified already or has destroyed the id.
    pub fn report_disconnect(&mut self, local: IpAddr, qpn: u32) {
        self.report_withheld(|end| (end.local, end.qpn) == (local, qpn));
    }

    fn report_withheld(&mut self, is_wanted: impl Fn(&Withheld) -> bool) {
        let (told, others): (Vec<_>, Vec<_>) =
            core::mem::take(&mut self.withheld).into_iter().partition(is_wanted);
        self.withheld = others;
        for Withheld { id, status, .. } in told {
            self.queue_plain(id, event::DISCONNECTED, status);
        }
    }

    /// Drops the events of an id that is destroyed; returns its requested connections that no
    /// program has seen.
    pub(super) fn forget_events(&mut self, id: &Id, number: u32) -> Vec<ConnId> {
        self.withheld.retain(|withheld| withheld.id != number);
        let Some(queue) = self.channels.get_mut(&id.channel) else { return Vec::new() };
        let (dropped, others) = core::mem::take(queue).into_iter().partition(|q| q.id == number);
        *queue = others;
        let dropped: VecDeque<Queued> = dropped;
        dropped.iter().filter_map(Queued::pending).collect()
    }

    /// Drops the events of a membership that was left.
    pub(super) fn forget_group_events(&mut self, channel: ChannelId, group: u32) {
        if let Some(queue) = self.channels.get_mut(&channel) {
            queue.retain(|queued| queued.group != Some(group));
        }
    }

    pub(super) fn get_event(
        &mut self,
        host: &impl Host,
        channel: ChannelId,
        command: &GetEvent,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(EVENT_MIN, out_len)?;
        let front = self.channels.get(&channel).and_then(VecDeque::front);
        let (owner, request) = front.map(|q| (q.id, q.request)).ok_or(Errno::EAGAIN)?;
        let new = match request {
            Some(pending) => Some(self.adopt(host, channel, owner, pending)?),
            None => None,
        };
        let queue = self.channels.get_mut(&channel).ok_or(Errno::EAGAIN)?;
        let mut queued = queue.pop_front().ok_or(Errno::EAGAIN)?;
        queued.resp.id = new.unwrap_or(queued.resp.id);
        if let Some(id) = self.ids.get_mut(&queued.id) {
            id.events_reported += 1;
        }
        if let Some(group) = queued.group.and_then(|group| self.groups.get_mut(&group)) {
            group.events_reported += 1;
        }
        let mut bytes = Vec::from(queued.resp.emit());
        bytes.truncate(out_len);
        Ok(Reply { at: command.response, bytes })
    }

    /// Creates an id for a connection that a peer requested.
    fn adopt(
        &mut self,
        host: &impl Host,
        channel: ChannelId,
        listener: u32,
        pending: Pending,
    ) -> Result<u32, Errno> {
        let parent = self.ids.get(&listener).ok_or(Errno::ENOENT)?;
        let (space, qp_type) = (parent.space, parent.qp_type);
        let (tos, ack_timeout) = (parent.tos, parent.ack_timeout);
        let mut id = Id::new(channel, 0, space, qp_type)?;
        let number = self.draw_number()?;
        id.stage = Stage::Connect;
        id.source = Some(pending.source);
        id.destination = Some(pending.destination);
        // Programs rely on its presence.
        let named = host.device(pending.source.ip());
        id.device = named.or_else(|_| host.device(pending.local)).ok();
        id.conn = Some(pending.conn);
        id.is_passive = true;
        (id.tos, id.ack_timeout) = (tos, ack_timeout);
        self.agent.taken(pending.conn);
        self.by_conn.insert(pending.conn, number);
        self.ids.insert(number, id);
        Ok(number)
    }

    pub(super) fn migrate(
        &mut self,
        host: &impl Host,
        channel: ChannelId,
        command: &MigrateId,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(EventsReportedResp::LEN, out_len)?;
        let from = host.channel(command.fd).ok_or(Errno::ENOENT)?;
        let id = self.find(from, command.id)?;
        id.channel = channel;
        let events_reported = id.events_reported;
        if from != channel {
            let old = self.channels.entry(from).or_default();
            let (moved, others): (VecDeque<Queued>, VecDeque<Queued>) =
                core::mem::take(old).into_iter().partition(|q| q.id == command.id);
            *old = others;
            if !moved.is_empty() {
                self.readable.insert(channel);
            }
            self.channels.entry(channel).or_default().extend(moved);
        }
        let bytes = EventsReportedResp { events_reported }.emit().into();
        Ok(Reply { at: command.response, bytes })
    }
}

/// Returns the peer's parameters as its program sees them: the peer's initiator depth becomes the
/// responder resources, and vice versa.
fn conn_param(offer: &Offer, private_data: &[u8]) -> ConnParam {
    let mut param = ConnParam {
        qp_num: offer.qpn,
        private_data_len: private_data.len() as u8,
        srq: u8::from(offer.srq),
        responder_resources: offer.initiator_depth,
        initiator_depth: offer.responder_resources,
        flow_control: u8::from(offer.flow_control),
        retry_count: offer.retry_count,
        rnr_retry_count: offer.rnr_retry_count,
        ..ConnParam::default()
    };
    param.private_data[..private_data.len()].copy_from_slice(private_data);
    param
}

pub(super) fn ud_param(private_data: &[u8]) -> UdParam {
    let private_data_len = private_data.len() as u8;
    let mut param = UdParam { qkey: UDP_QKEY, private_data_len, ..UdParam::default() };
    param.private_data[..private_data.len()].copy_from_slice(private_data);
    param
}

/// Pads the parameters of a connection to the length of the union.
fn padded(param: &[u8]) -> [u8; 304] {
    let mut bytes = [0; 304];
    bytes[..param.len()].copy_from_slice(param);
    bytes
}
