//! The state of one id.

use super::host::{Binding, Device};
use super::{ChannelId, Ids};
use crate::ucma::{AhAttr, Errno, port_space, qp_type};
use crate::{ConnId, ListenerId, Path};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Queue key of datagram services in the port spaces.
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

/// The stage that an id has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// Connecting, connected or disconnected.
    Connect,
}

#[derive(Debug)]
pub(super) struct Id {
    pub(super) channel: ChannelId,
    /// The program's identifier in events; 0 before the program has set it.
    pub(super) uid: u64,
    pub(super) space: u16,
    pub(super) qp_type: u8,
    pub(super) stage: Stage,
    pub(super) binding: Option<Binding>,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    pub(super) device: Option<Device>,
    /// The connection, while the agent knows it.
    pub(super) conn: Option<ConnId>,
    /// The connection was requested by the peer.
    pub(super) is_passive: bool,
    pub(super) listener: Option<ListenerId>,
    pub(super) events_reported: u32,
    pub(super) tos: u8,
    pub(super) is_shared: bool,
    /// A listener at every IPv6 address does not accept IPv4.
    pub(super) is_family_only: bool,
    pub(super) ack_timeout: Option<u8>,
}

impl Id {
    pub(super) fn new(channel: ChannelId, uid: u64, space: u16, kind: u8) -> Result<Self, Errno> {
        let qp_type = match space {
            port_space::TCP => qp_type::RC,
            port_space::UDP | port_space::IPOIB => qp_type::UD,
            port_space::IB => kind,
            _ => return Err(Errno::EINVAL),
        };
        Ok(Self {
            channel,
            uid,
            space,
            qp_type,
            stage: Stage::Idle,
            binding: None,
            source: None,
            destination: None,
            device: None,
            conn: None,
            is_passive: false,
            listener: None,
            events_reported: 0,
            tos: 0,
            is_shared: false,
            is_family_only: false,
            ack_timeout: None,
        })
    }

    pub(super) fn is_datagram(&self) -> bool {
        self.qp_type == qp_type::UD
    }

    /// Returns the service id of a port in this id's port space (CM-2.3).
    pub(super) fn service_id(&self, port: u16) -> u64 {
        u64::from(self.space) << 16 | u64::from(port)
    }

    /// Returns the path to the other side; `None` before its address is known.
    pub(super) fn path(&self) -> Option<Path> {
        let (device, destination) = (self.device?, self.destination?);
        Some(Path {
            local_gid: device.gid,
            remote_gid: remote_gid(&device, destination.ip()),
            pkey: device.pkey,
            mtu: device.mtu,
            flow_label: 0,
            traffic_class: self.tos,
            hop_limit: device.hop_limit,
            // As in Linux without priorities on the link: bits 5 to 7 of the type of service.
            sl: self.tos >> 5,
            rate: device.rate,
        })
    }

    /// Returns the address of a port for a queue pair or an address handle.
    pub(super) fn ah_attr(&self, path: &Path) -> AhAttr {
        let device = self.device.unwrap_or_default();
        AhAttr {
            dgid: path.remote_gid,
            flow_label: path.flow_label,
            sgid_index: device.gid_index,
            hop_limit: path.hop_limit,
            traffic_class: path.traffic_class,
            sl: path.sl,
            is_global: 1,
            port_num: device.port_num,
            ..AhAttr::default()
        }
    }
}

/// Returns the GID of the host at `there`. A loopback address is this machine: on a device with
/// another address it means that device, and so do all loopback addresses of the family that the
/// device does not have.
fn remote_gid(device: &Device, there: IpAddr) -> [u8; 16] {
    let device_ip = Ipv6Addr::from(device.gid).to_canonical();
    let has_others = device_ip.is_loopback() && device_ip.is_ipv4() == there.is_ipv4();
    if there.is_loopback() && !has_others { device.gid } else { gid_of(there) }
}

/// Returns the GID of an address.
pub(super) fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Ids {
    /// Returns the id of a program's descriptor: ENOENT when there is none, EINVAL when it belongs
    /// to another descriptor.
    pub(super) fn find(&mut self, channel: ChannelId, id: u32) -> Result<&mut Id, Errno> {
        let found = self.ids.get_mut(&id).ok_or(Errno::ENOENT)?;
        if found.channel == channel { Ok(found) } else { Err(Errno::EINVAL) }
    }

    /// Draws a number for a new id (CM-8.2).
    pub(super) fn draw_number(&mut self) -> Result<u32, Errno> {
        for _ in 0..super::IDS_MAX {
            let number = self.next_number;
            self.next_number = (number + 1) % super::IDS_MAX;
            if !self.ids.contains_key(&number) {
                return Ok(number);
            }
        }
        Err(Errno::ENOMEM)
    }
}
