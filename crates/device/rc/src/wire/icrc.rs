//! The invariant CRC behind every packet (RC-1.5).
//!
//! It covers what no router changes: the packet with its pad, and the IP and UDP headers, in which
//! the fields that routers change are set to all ones.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crc32fast::Hasher;

use super::Bth;

/// Length in bytes.
pub const LEN: usize = 4;

const UDP: u8 = 17;

/// The network layer's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// IPv4, with the identification of its header: 0 from a socket that is not connected and sets
    /// "do not fragment".
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
        /// Identification.
        id: u16,
        /// "Do not fragment".
        dont_fragment: bool,
    },
    /// IPv6.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address.
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// Returns the addresses of a datagram from a socket that is not connected and does not
    /// fragment. If the families of the two ends differ, IPv4 is mapped to IPv6.
    #[must_use]
    pub fn of_datagram(src: IpAddr, dst: IpAddr) -> Self {
        match (src, dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Self::V4 { src, dst, id: 0, dont_fragment: true },
            (src, dst) => Self::V6 { src: to_v6(src), dst: to_v6(dst) },
        }
    }
}

fn to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

/// The headers in front of the packet that the CRC covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Addresses of the network layer.
    pub addresses: Addresses,
    /// UDP source port.
    pub src_port: u16,
    /// UDP destination port.
    pub dst_port: u16,
}

/// A CRC that is being computed.
#[derive(Clone, Debug)]
pub struct Icrc(Hasher);

impl Icrc {
    /// Begins with everything in front of the packet; `packet_len` is the length of the packet with
    /// pad and ICRC.
    #[must_use]
    pub fn new(route: &Route, packet_len: usize) -> Self {
        let udp_len = packet_len.saturating_add(8).min(usize::from(u16::MAX)) as u16;
        let mut hasher = Hasher::new();
        // The masked link header.
        hasher.update(&[0xFF; 8]);
        match route.addresses {
            Addresses::V4 { src, dst, id, dont_fragment } => {
                let mut ip = [0; 20];
                ip[..2].copy_from_slice(&[0x45, 0xFF]);
                ip[2..4].copy_from_slice(&udp_len.saturating_add(20).to_be_bytes());
                ip[4..6].copy_from_slice(&id.to_be_bytes());
                ip[6] = if dont_fragment { 0x40 } else { 0 };
                ip[8..12].copy_from_slice(&[0xFF, UDP, 0xFF, 0xFF]);
                ip[12..16].copy_from_slice(&src.octets());
                ip[16..].copy_from_slice(&dst.octets());
                hasher.update(&ip);
            }
            Addresses::V6 { src, dst } => {
                let mut ip = [0; 40];
                ip[..4].copy_from_slice(&[0x6F, 0xFF, 0xFF, 0xFF]);
                ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
                ip[6..8].copy_from_slice(&[UDP, 0xFF]);
                ip[8..24].copy_from_slice(&src.octets());
                ip[24..].copy_from_slice(&dst.octets());
                hasher.update(&ip);
            }
        }
        let mut udp = [0xFF; 8];
        udp[..2].copy_from_slice(&route.src_port.to_be_bytes());
        udp[2..4].copy_from_slice(&route.dst_port.to_be_bytes());
        udp[4..6].copy_from_slice(&udp_len.to_be_bytes());
        hasher.update(&udp);
        Self(hasher)
    }

    /// Adds the headers of the packet, which begin with the base transport header.
    pub fn update_headers(&mut self, headers: &[u8]) {
        let (bth, rest) = headers.split_at(headers.len().min(Bth::LEN));
        let mut masked = [0; Bth::LEN];
        masked[..bth.len()].copy_from_slice(bth);
        if bth.len() > 4 {
            masked[4] = 0xFF;
        }
        self.0.update(&masked[..bth.len()]);
        self.0.update(rest);
    }

    /// Adds payload, and the pad behind it.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// Returns the four bytes behind the pad.
    #[must_use]
    pub fn finish(self) -> [u8; LEN] {
        self.0.finalize().to_le_bytes()
    }
}

/// Returns the CRC of a whole packet, which begins with the base transport header and ends with its
/// pad.
#[must_use]
pub fn of(route: &Route, packet: &[u8]) -> [u8; LEN] {
    let mut icrc = Icrc::new(route, packet.len() + LEN);
    icrc.update_headers(packet);
    icrc.finish()
}

/// Returns whether the last four bytes of `packet` are its CRC.
#[must_use]
pub fn is_right(route: &Route, packet: &[u8]) -> bool {
    packet.split_last_chunk::<LEN>().is_some_and(|(rest, icrc)| of(route, rest) == *icrc)
}
