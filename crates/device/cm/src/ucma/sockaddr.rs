//! Socket addresses in the kernel's structures.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

const AF_INET: u16 = 2;
const AF_INET6: u16 = 10;
/// Family of InfiniBand's own addresses.
const AF_IB: u16 = 27;

const V4_LEN: usize = 16;
const V6_LEN: usize = 28;
/// Length of a `sockaddr_ib`.
const IB_LEN: usize = 48;

/// An address, as far as its family is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockaddr {
    /// No address.
    Unspecified,
    /// IPv4 or IPv6.
    Ip(SocketAddr),
    /// InfiniBand's own, which is not supported.
    Ib,
    /// Another family.
    Other(u16),
}

impl Sockaddr {
    /// Reads the `sockaddr` at the start of `bytes`. Too few bytes for the family give no address.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Self {
        let Some(&[a, b, high, low]) = bytes.first_chunk() else { return Self::Unspecified };
        let port = u16::from_be_bytes([high, low]);
        match u16::from_ne_bytes([a, b]) {
            0 => Self::Unspecified,
            AF_INET if bytes.len() >= V4_LEN => {
                let ip = Ipv4Addr::new(bytes[4], bytes[5], bytes[6], bytes[7]);
                Self::Ip(SocketAddrV4::new(ip, port).into())
            }
            AF_INET6 if bytes.len() >= V6_LEN => {
                let mut octets = [0; 16];
                octets.copy_from_slice(&bytes[8..24]);
                let word = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
                let (flow, scope) = (u32::from_be_bytes(word(4)), u32::from_ne_bytes(word(24)));
                Self::Ip(SocketAddrV6::new(Ipv6Addr::from(octets), port, flow, scope).into())
            }
            AF_IB => Self::Ib,
            family => Self::Other(family),
        }
    }

    /// Returns the length that the family requires; 0 for families without one.
    #[must_use]
    pub const fn size(&self) -> usize {
        match self {
            Self::Ip(SocketAddr::V4(_)) => V4_LEN,
            Self::Ip(SocketAddr::V6(_)) => V6_LEN,
            Self::Ib => IB_LEN,
            Self::Unspecified | Self::Other(_) => 0,
        }
    }
}

/// Writes `address` to the start of a structure's field; returns its length.
///
/// # Panics
/// When `bytes` are too few for the address: 8 of IPv4, 28 of IPv6.
pub fn write_ip(address: SocketAddr, bytes: &mut [u8]) -> u16 {
    bytes[2..4].copy_from_slice(&address.port().to_be_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[..2].copy_from_slice(&AF_INET.to_ne_bytes());
            bytes[4..8].copy_from_slice(&v4.ip().octets());
            V4_LEN as u16
        }
        SocketAddr::V6(v6) => {
            bytes[..2].copy_from_slice(&AF_INET6.to_ne_bytes());
            bytes[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
            bytes[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            V6_LEN as u16
        }
    }
}

/// Writes a `sockaddr_ib` with a GID, partition key and service id; returns its length.
///
/// # Panics
/// When `bytes` are fewer than 32.
pub fn write_ib(gid: [u8; 16], pkey: u16, service_id: u64, bytes: &mut [u8]) -> u16 {
    bytes[..2].copy_from_slice(&AF_IB.to_ne_bytes());
    bytes[2..4].copy_from_slice(&pkey.to_be_bytes());
    bytes[8..24].copy_from_slice(&gid);
    bytes[24..32].copy_from_slice(&service_id.to_be_bytes());
    IB_LEN as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive() {
        for text in ["10.1.2.3:7471", "[2001:db8::7]:65535", "0.0.0.0:0"] {
            let address: SocketAddr = text.parse().unwrap();
            let mut bytes = [0; 128];
            let len = write_ip(address, &mut bytes);
            assert_eq!(Sockaddr::parse(&bytes), Sockaddr::Ip(address));
            assert_eq!(Sockaddr::parse(&bytes).size(), usize::from(len));
            let short = Sockaddr::parse(&bytes[..usize::from(len) - 1]);
            assert_eq!(short.size(), 0, "{short:?}");
        }
    }

    #[test]
    fn other_families_have_no_address() {
        assert_eq!(Sockaddr::parse(&[]), Sockaddr::Unspecified);
        assert_eq!(Sockaddr::parse(&[0; 128]), Sockaddr::Unspecified);
        let mut bytes = [0; 128];
        assert_eq!(write_ib([7; 16], 0xFFFF, 9, &mut bytes), 48);
        assert_eq!((Sockaddr::parse(&bytes), Sockaddr::Ib.size()), (Sockaddr::Ib, 48));
        bytes[0] = 1;
        assert_eq!(Sockaddr::parse(&bytes), Sockaddr::Other(1));
    }
}
