//! Multicast: JOIN_IP_MCAST, JOIN_MCAST and LEAVE_MCAST (CM-8.6).
//!
//! Over Ethernet joining a group needs no permission: its GID follows from its address, and
//! librdmacm attaches the queue pair when it gets the event.

use super::events::{Membership, ud_param};
use super::id::gid_of;
use super::{ChannelId, Ids, Reply, room_for};
use crate::ucma::{
    AhAttr, CreateIdResp, DestroyId, Errno, EventsReportedResp, JoinIpMcast, JoinMcast, Sockaddr,
    UdParam, event,
};

/// The queue pair number of all members of a group.
const MULTICAST_QPN: u32 = 0x00FF_FFFF;

/// A membership.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: u32,
    pub(super) events_reported: u32,
}

impl Ids {
    pub(super) fn join_ip(
        &mut self,
        channel: ChannelId,
        command: &JoinIpMcast,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        let mut addr = [0; 128];
        addr[..28].copy_from_slice(&command.addr);
        let join = JoinMcast {
            response: command.response,
            uid: command.uid,
            id: command.id,
            addr_size: Sockaddr::parse(&command.addr).size() as u16,
            join_flags: 0,
            addr,
        };
        self.join(channel, &join, out_len)
    }

    pub(super) fn join(
        &mut self,
        channel: ChannelId,
        command: &JoinMcast,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(CreateIdResp::LEN, out_len)?;
        let address = Sockaddr::parse(&command.addr);
        let is_sized = usize::from(command.addr_size) == address.size();
        let Sockaddr::Ip(address) = address else { return Err(Errno::EINVAL) };
        // Like IGMP in the kernel, which is not used for IPv6.
        let is_group = address.is_ipv6() || address.ip().is_multicast();
        if !is_sized || !is_group || command.join_flags > 1 {
            return Err(Errno::EINVAL);
        }
        let is_full = self.groups.len() >= super::IDS_MAX as usize;
        let id = self.find(channel, command.id)?;
        let device = id.device.filter(|_| id.is_datagram()).ok_or(Errno::EINVAL)?;
        if is_full {
            return Err(Errno::ENOMEM);
        }
        let ah_attr = AhAttr {
            dgid: gid_of(address.ip()),
            sgid_index: device.gid_index,
            hop_limit: device.hop_limit,
            traffic_class: id.tos,
            is_global: 1,
            port_num: device.port_num,
            ..AhAttr::default()
        };
        let group = self.next_group;
        self.next_group = self.next_group.wrapping_add(1);
        self.groups.insert(group, Group { id: command.id, events_reported: 0 });
        let param = UdParam { qp_num: MULTICAST_QPN, ah_attr, ..ud_param(&[]) };
        let member = Some(Membership { group, uid: command.uid });
        self.queue(command.id, member, event::MULTICAST_JOIN, 0, param.emit());
        Ok(Reply { at: command.response, bytes: CreateIdResp { id: group }.emit().into() })
    }

    pub(super) fn leave(
        &mut self,
        channel: ChannelId,
        command: &DestroyId,
        out_len: usize,
    ) -> Result<Reply, Errno> {
        room_for(EventsReportedResp::LEN, out_len)?;
        let owner = self.groups.get(&command.id).ok_or(Errno::ENOENT)?.id;
        self.find(channel, owner)?;
        self.forget_group_events(channel, command.id);
        let group = self.groups.remove(&command.id).ok_or(Errno::ENOENT)?;
        let events_reported = group.events_reported;
        let bytes = EventsReportedResp { events_reported }.emit().into();
        Ok(Reply { at: command.response, bytes })
    }
}
