//! The addresses that lead the private data of a REQ or SIDR_REQ in the port spaces.
//!
//! ```text
//!  0       1       2       3
//! +---+---+---+---+---------------+
//! |maj|min|ipv| 0 |  source port  |
//! +---+---+---+---+---------------+
//! |   source address, 16 bytes    |   IPv4 in the last four
//! +-------------------------------+
//! |  destination address, 16 bytes|
//! +-------------------------------+
//! ```

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The addresses of the two ends (CM-2.4). The destination's port is in the service id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpHeader {
    /// The requester's address.
    pub source: IpAddr,
    /// The requester's port.
    pub source_port: u16,
    /// The address that it connects to; of the same family.
    pub destination: IpAddr,
}

impl IpHeader {
    /// Length in bytes.
    pub const LEN: usize = 36;

    /// Reads a header; `None` when there is none of version 0 and a known family.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::LEN] = bytes.first_chunk()?;
        let address = |at: usize| -> Option<IpAddr> {
            let mut octets = [0; 16];
            octets.copy_from_slice(&bytes[at..at + 16]);
            match bytes[1] >> 4 {
                4 => {
                    let v4: [u8; 4] = *octets.last_chunk()?;
                    Some(Ipv4Addr::from(v4).into())
                }
                6 => Some(Ipv6Addr::from(octets).into()),
                _ => None,
            }
        };
        if bytes[0] != 0 {
            return None;
        }
        let source_port = u16::from_be_bytes([bytes[2], bytes[3]]);
        Some(Self { source: address(4)?, source_port, destination: address(20)? })
    }

    /// Writes the header; `None` when the addresses are of two families.
    #[must_use]
    pub fn emit(&self) -> Option<[u8; Self::LEN]> {
        let mut bytes = [0; Self::LEN];
        bytes[2..4].copy_from_slice(&self.source_port.to_be_bytes());
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes[1] = 4 << 4;
                bytes[16..20].copy_from_slice(&source.octets());
                bytes[32..36].copy_from_slice(&destination.octets());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes[1] = 6 << 4;
                bytes[4..20].copy_from_slice(&source.octets());
                bytes[20..36].copy_from_slice(&destination.octets());
            }
            _ => return None,
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(source: &str, destination: &str) -> IpHeader {
        let [source, destination] = [source, destination].map(|text| text.parse().unwrap());
        IpHeader { source, source_port: 40_001, destination }
    }

    #[test]
    fn both_families_survive() {
        for header in [header("10.1.2.3", "10.1.2.4"), header("fe80::1", "2001:db8::7")] {
            let bytes = header.emit().unwrap();
            assert_eq!(IpHeader::parse(&bytes), Some(header));
            assert_eq!(IpHeader::parse(&bytes[..35]), None);
        }
    }

    #[test]
    fn other_versions_are_no_header() {
        let mut bytes = header("10.1.2.3", "10.1.2.4").emit().unwrap();
        bytes[0] = 0x10;
        assert_eq!(IpHeader::parse(&bytes), None);
        bytes[..2].copy_from_slice(&[0, 0x50]);
        assert_eq!(IpHeader::parse(&bytes), None);
        assert_eq!(header("10.1.2.3", "::1").emit(), None, "two families");
    }
}
