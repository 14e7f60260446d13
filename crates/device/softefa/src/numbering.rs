//! How the number of a queue pair and the UDP port of its socket follow from one another.

use std::net::{IpAddr, SocketAddr};

use rc::ud::GROUP_QPN;

/// The way in which numbers are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    /// It is the port: 16 bits, as an EFA has.
    Port,
    /// `port << 8 | slot`: the 24 bits of RoCE. The slot is another one each time that a process
    /// uses the port, so that a successor is not taken for its predecessor.
    PortAndSlot,
    /// As `PortAndSlot`, for queue pairs behind a gateway: their peers have any number, and this
    /// UDP port.
    Behind(u16),
}

const SLOT_BITS: u32 = 8;
/// The UDP port of all multicast groups, whatever ports their members have (RC-10.1).
pub(crate) const GROUP_PORT: u16 = rc::wire::UDP_PORT;

impl Numbering {
    /// The number of the queue pair at `port`.
    pub(crate) fn number(self, port: u16, slot: u8) -> u32 {
        match self {
            Self::Port => u32::from(port),
            Self::PortAndSlot | Self::Behind(_) => {
                let qpn = u32::from(port) << SLOT_BITS | u32::from(slot);
                // No queue pair has that number: it means all members of a group.
                if qpn == GROUP_QPN { qpn - 1 } else { qpn }
            }
        }
    }

    /// The port of queue pair `qpn` of this device; 0, where nobody is, when there is no such
    /// number.
    #[inline]
    pub(crate) fn port(self, qpn: u32) -> u16 {
        let port = match self {
            Self::Port => qpn,
            Self::PortAndSlot | Self::Behind(_) => qpn >> SLOT_BITS,
        };
        u16::try_from(port).unwrap_or(0)
    }

    /// Returns the port to which packets for a peer's queue pair `qpn` are sent.
    #[inline]
    pub(crate) fn port_of_peer(self, qpn: u32) -> u16 {
        if let Self::Behind(port) = self { port } else { self.port(qpn) }
    }

    /// Returns where a datagram for queue pair `qpn` at `addr`, or for a group of that address, is
    /// sent.
    #[inline]
    pub(crate) fn way_to(self, addr: IpAddr, qpn: u32) -> SocketAddr {
        let is_group = self != Self::Port && addr.is_multicast();
        let port = if is_group { GROUP_PORT } else { self.port_of_peer(qpn) };
        SocketAddr::new(addr, port)
    }

    /// A queue pair can have this number.
    #[inline]
    pub(crate) fn allows(self, qpn: u32) -> bool {
        match self {
            Self::Port => qpn <= u32::from(u16::MAX),
            Self::PortAndSlot | Self::Behind(_) => qpn <= GROUP_QPN,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn numbers_lead_back_to_their_ports() {
        for port in [16_384, 40_000, u16::MAX] {
            for slot in 0..=u8::MAX {
                for numbering in [Numbering::Port, Numbering::PortAndSlot] {
                    let qpn = numbering.number(port, slot);
                    assert_eq!(numbering.port(qpn), port, "{numbering:?}");
                    assert!(numbering.allows(qpn) && qpn != GROUP_QPN);
                }
            }
        }
        assert!(!Numbering::Port.allows(1 << 16) && !Numbering::PortAndSlot.allows(1 << 24));
        assert_eq!(Numbering::Port.port(1 << 16), 0);
    }

    /// RC-10.1.
    #[test]
    fn groups_have_one_port() {
        let group = IpAddr::from([239, 1, 2, 3]);
        for numbering in [Numbering::PortAndSlot, Numbering::Behind(4000)] {
            assert_eq!(numbering.way_to(group, GROUP_QPN), SocketAddr::new(group, 4791));
        }
        let one = IpAddr::V4(Ipv4Addr::LOCALHOST);
        assert_eq!(Numbering::PortAndSlot.way_to(one, 40_000 << 8), SocketAddr::new(one, 40_000));
        assert_eq!(Numbering::Port.way_to(group, 40_000), SocketAddr::new(group, 40_000));
    }

    #[test]
    fn behind_a_gateway_peers_have_one_port() {
        let numbering = Numbering::Behind(4791);
        let own = numbering.number(40_000, 3);
        assert_eq!((own, numbering.port(own)), (Numbering::PortAndSlot.number(40_000, 3), 40_000));
        for foreign in [1, 17, own, 0xFF_FFFE] {
            assert_eq!(numbering.port_of_peer(foreign), 4791);
            assert!(numbering.allows(foreign));
        }
        assert_eq!(Numbering::PortAndSlot.port_of_peer(own), 40_000);
    }
}
