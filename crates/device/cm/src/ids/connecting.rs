//! Connections: CONNECT, ACCEPT, REJECT, DISCONNECT and NOTIFY.

use super::host::Host;
use super::id::{Id, Stage, UDP_QKEY};
use super::{ChannelId, Ids};
use crate::mad::{IpHeader, reason, sidr_status};
use crate::ucma::{Accept, ConnParam, Connect, Disconnect, Errno, Notify, Reject, qp_type};
use crate::{CallError, ConnectParams, Offer, ResolveParams, Route, ServiceQp, Transport};
use std::time::Duration;

/// The only queue pair event that a program may report: data arrived.
const COMM_EST: u32 = 4;

impl Ids {
    pub(super) fn connect(
        &mut self,
        now: Duration,
        host: &impl Host,
        channel: ChannelId,
        command: &Connect,
    ) -> Result<(), Errno> {
        let id = self.find(channel, command.id)?;
        if command.conn_param.valid == 0 || id.stage != Stage::RouteResolved {
            return Err(Errno::EINVAL);
        }
        let (source, destination) = id.source.zip(id.destination).ok_or(Errno::EINVAL)?;
        let path = id.path().ok_or(Errno::EINVAL)?;
        let route = Route { local: source.ip(), peer: host.agent_at(source.ip(), destination) };
        let addresses = Some(IpHeader {
            source: source.ip(),
            source_port: source.port(),
            destination: destination.ip(),
        });
        let service_id = id.service_id(destination.port());
        let param = &command.conn_param;
        let private_data = private_data(param);
        let conn = if id.is_datagram() {
            let pkey = path.pkey;
            let params = ResolveParams { service_id, addresses, pkey, private_data };
            self.agent.resolve(now, route, &params)
        } else {
            let (transport, offer) = (transport_of(id)?, offer_of(id, param));
            let params =
                ConnectParams { service_id, addresses, transport, offer, path, private_data };
            self.agent.connect(now, route, &params)
        }
        .map_err(errno_of)?;
        let id = self.find(channel, command.id)?;
        id.conn = Some(conn);
        id.stage = Stage::Connect;
        self.by_conn.insert(conn, command.id);
        Ok(())
    }

    pub(super) fn accept(
        &mut self,
        now: Duration,
        channel: ChannelId,
        command: &Accept,
    ) -> Result<(), Errno> {
        let id = self.find(channel, command.id)?;
        let conn = id.conn.filter(|_| id.stage == Stage::Connect).ok_or(Errno::EINVAL)?;
        let param = &command.conn_param;
        let (offer, is_datagram) = (offer_of(id, param), id.is_datagram());
        let taken = match (id.is_passive, param.valid != 0) {
            (false, false) => self.agent.ready(now, conn),
            (false, true) | (true, false) => return Err(Errno::EINVAL),
            (true, true) if is_datagram => {
                let queue_pair = ServiceQp { qpn: param.qp_num, qkey: UDP_QKEY };
                self.agent.accept_resolution(now, conn, queue_pair, private_data(param))
            }
            (true, true) => self.agent.accept(now, conn, offer, private_data(param)),
        };
        taken.map_err(errno_of)?;
        let id = self.find(channel, command.id)?;
        if param.valid != 0 {
            id.uid = command.uid;
        }
        Ok(())
    }

    pub(super) fn reject(
        &mut self,
        now: Duration,
        channel: ChannelId,
        command: &Reject,
    ) -> Result<(), Errno> {
        let why = match u16::from(command.reason) {
            0 | reason::CONSUMER_DEFINED => reason::CONSUMER_DEFINED,
            reason::VENDOR_OPTION_NOT_SUPPORTED => reason::VENDOR_OPTION_NOT_SUPPORTED,
            _ => return Err(Errno::EINVAL),
        };
        let id = self.find(channel, command.id)?;
        let conn = id.conn.ok_or(Errno::EINVAL)?;
        let said = &command.private_data[..usize::from(command.private_data_len)];
        let refused = if id.is_datagram() {
            self.agent.reject_resolution(now, conn, sidr_status::REJECT, said)
        } else {
            self.agent.reject(now, conn, why, said)
        };
        refused.map_err(errno_of)?;
        self.by_conn.remove(&conn);
        self.find(channel, command.id)?.conn = None;
        Ok(())
    }

    /// Succeeds in every state of a connection, as in Linux: the program may not know yet that the
    /// peer has ended it.
    pub(super) fn disconnect(
        &mut self,
        now: Duration,
        channel: ChannelId,
        command: &Disconnect,
    ) -> Result<(), Errno> {
        let id = self.find(channel, command.id)?;
        if id.stage != Stage::Connect {
            return Err(Errno::EINVAL);
        }
        if let Some(conn) = id.conn {
            let _ = self.agent.disconnect(now, conn);
        }
        Ok(())
    }

    pub(super) fn notify(
        &mut self,
        now: Duration,
        channel: ChannelId,
        command: &Notify,
    ) -> Result<(), Errno> {
        let conn = self.find(channel, command.id)?.conn.ok_or(Errno::EINVAL)?;
        if command.event != COMM_EST {
            return Err(Errno::EINVAL);
        }
        self.agent.establish(now, conn).map_err(errno_of)
    }
}

fn transport_of(id: &Id) -> Result<Transport, Errno> {
    match id.qp_type {
        qp_type::RC => Ok(Transport::Rc),
        qp_type::UC => Ok(Transport::Uc),
        _ => Err(Errno::EINVAL),
    }
}

fn private_data(param: &ConnParam) -> &[u8] {
    &param.private_data[..usize::from(param.private_data_len)]
}

fn offer_of(id: &Id, param: &ConnParam) -> Offer {
    Offer {
        ca_guid: id.device.map_or(0, |device| device.guid),
        qpn: param.qp_num & 0x00FF_FFFF,
        responder_resources: param.responder_resources,
        initiator_depth: param.initiator_depth,
        flow_control: param.flow_control != 0,
        retry_count: param.retry_count.min(7),
        rnr_retry_count: param.rnr_retry_count.min(7),
        srq: param.srq != 0,
    }
}

fn errno_of(error: CallError) -> Errno {
    match error {
        CallError::Connected => Errno::EISCONN,
        CallError::Full => Errno::ENOMEM,
        CallError::ServiceInUse => Errno::EADDRINUSE,
        CallError::Unknown
        | CallError::WrongState
        | CallError::PrivateData(..)
        | CallError::MixedFamilies => Errno::EINVAL,
    }
}
