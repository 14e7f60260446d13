//! Addresses of devices in the forms in which they are kept and hashed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;

/// Nobody's address.
pub(crate) const NOWHERE: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
/// Words that an address of either family takes in memory that is shared.
pub(crate) const WORDS: usize = 2;

/// The address means something on a single link only.
pub(crate) fn is_of_a_link(addr: IpAddr) -> bool {
    match addr {
        IpAddr::V4(addr) => addr.is_link_local(),
        IpAddr::V6(addr) => addr.is_unicast_link_local(),
    }
}

/// A queue pair of some device as traces name it: `IP:QPN`, with brackets around an address of
/// IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerName {
    /// Address of the device.
    pub addr: IpAddr,
    /// Number of the queue pair.
    pub qpn: u32,
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.addr {
            IpAddr::V4(addr) => write!(f, "{addr}:{}", self.qpn),
            IpAddr::V6(addr) => write!(f, "[{addr}]:{}", self.qpn),
        }
    }
}

/// The bytes of an address, 4 or 16.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Octets {
    V4([u8; 4]),
    V6([u8; 16]),
}

impl Deref for Octets {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::V4(octets) => octets,
            Self::V6(octets) => octets,
        }
    }
}

pub(crate) fn octets(ip: IpAddr) -> Octets {
    match ip {
        IpAddr::V4(ip) => Octets::V4(ip.octets()),
        IpAddr::V6(ip) => Octets::V6(ip.octets()),
    }
}

/// An address as IPv6 writes it: IPv4 is mapped.
pub(crate) fn to_v6(ip: IpAddr) -> Ipv6Addr {
    match ip {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    }
}

pub(crate) fn to_words(ip: IpAddr) -> [u64; WORDS] {
    let bits = to_v6(ip).to_bits();
    #[expect(clippy::cast_possible_truncation, reason = "the halves")]
    [(bits >> 64) as u64, bits as u64]
}

/// The inverse of [`to_words`].
pub(crate) fn of_words([high, low]: [u64; WORDS]) -> IpAddr {
    let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
    IpAddr::V6(ip).to_canonical()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_survive_in_words() {
        for (text, octets_len) in
            [("10.1.2.3", 4), ("2001:db8::7", 16), ("0.0.0.0", 4), ("::1", 16)]
        {
            let ip: IpAddr = text.parse().unwrap();
            assert_eq!(of_words(to_words(ip)), ip);
            assert_eq!(octets(ip).len(), octets_len);
        }
    }
}
