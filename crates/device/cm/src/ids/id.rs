//! One id of a program.

use super::host::{Binding, Device};
use super::{ChannelId, Ids};
use crate::ucma::{AhAttr, Errno, port_space, qp_type};
use crate::{ConnId, ListenerId, Path};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Queue key of datagram services in the port spaces.
pub(super) const UDP_QKEY: u32 = 0x0123_4567;

/// What a program has done with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Idle,
    Bound,
    AddrResolved,
    RouteResolved,
    Listening,
    /// Connecting, connected, or over.
    Connect,
}

#[derive(Debug)]
pub(super) struct Id {
    pub(super) channel: ChannelId,
    /// What events bring back; 0 before the program has named it.
    pub(super) uid: u64,
    pub(super) space: u16,
    pub(super) qp_type: u8,
    pub(super) stage: Stage,
    pub(super) binding: Option<Binding>,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
    pub(super) device: Option<Device>,
    /// Its connection, while the agent knows it.
    pub(super) conn: Option<ConnId>,
    /// A peer began the connection.
    pub(super) is_passive: bool,
    pub(super) listener: Option<ListenerId>,
    pub(super) events_reported: u32,
    pub(super) tos: u8,
    pub(super) is_shared: bool,
    /// A listener at every IPv6 address does not serve IPv4.
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

    /// The service at a port of this id's space (CM-2.3).
    pub(super) fn service_id(&self, port: u16) -> u64 {
        u64::from(self.space) << 16 | u64::from(port)
    }

    /// The way to the other side; `None` before its address is known.
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
            // As Linux without priorities of the link: bits 5 to 7 of the type of service.
            sl: self.tos >> 5,
            rate: device.rate,
        })
    }

    /// The way to a port, for a queue pair or an address handle.
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

/// The GID of whoever is at `there`. Loopback is this machine, and on a device with another address
/// it is that device. So are all addresses of loopback of the family that the device has not.
fn remote_gid(device: &Device, there: IpAddr) -> [u8; 16] {
    let own = Ipv6Addr::from(device.gid).to_canonical();
    let has_others = own.is_loopback() && own.is_ipv4() == there.is_ipv4();
    if there.is_loopback() && !has_others { device.gid } else { gid_of(there) }
}

/// The GID that stands for an address.
pub(super) fn gid_of(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

impl Ids {
    /// The id of a program's descriptor: ENOENT when there is none, EINVAL when it is another
    /// descriptor's.
    pub(super) fn find(&mut self, channel: ChannelId, id: u32) -> Result<&mut Id, Errno> {
        let found = self.ids.get_mut(&id).ok_or(Errno::ENOENT)?;
        if found.channel == channel { Ok(found) } else { Err(Errno::EINVAL) }
    }

    /// A number for a new id (CM-8.2).
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
