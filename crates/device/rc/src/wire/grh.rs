//! The 40 bytes before the payload of a received unreliable datagram (RC-1.6).

use core::net::{Ipv4Addr, Ipv6Addr};

/// Length in bytes.
pub const LEN: usize = 40;

const UDP: u8 = 17;

/// Returns the bytes for a datagram that arrived over IPv4: 20 zeros and a valid IPv4 header, by
/// which programs distinguish the two. `udp_len` is the length of UDP header, packet and ICRC.
#[must_use]
pub fn of_ipv4(src: Ipv4Addr, dst: Ipv4Addr, tos: u8, ttl: u8, udp_len: u16) -> [u8; LEN] {
    let mut out = [0; LEN];
    let header = &mut out[20..];
    header[0] = 0x45;
    header[1] = tos;
    header[2..4].copy_from_slice(&udp_len.saturating_add(20).to_be_bytes());
    header[6] = 0x40;
    header[8] = ttl;
    header[9] = UDP;
    header[12..16].copy_from_slice(&src.octets());
    header[16..20].copy_from_slice(&dst.octets());
    let check = checksum(header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    out
}

/// Returns the bytes for a datagram that arrived over IPv6: its header.
#[must_use]
pub fn of_ipv6(src: Ipv6Addr, dst: Ipv6Addr, class: u8, hops: u8, udp_len: u16) -> [u8; LEN] {
    let mut out = [0; LEN];
    out[..4].copy_from_slice(&(6 << 28 | u32::from(class) << 20).to_be_bytes());
    out[4..6].copy_from_slice(&udp_len.to_be_bytes());
    out[6] = UDP;
    out[7] = hops;
    out[8..24].copy_from_slice(&src.octets());
    out[24..40].copy_from_slice(&dst.octets());
    out
}

/// Returns the checksum of an IPv4 header whose checksum field is zero.
fn checksum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xFFFF) + (sum >> 16);
    !((folded & 0xFFFF) as u16).wrapping_add((folded >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RC-1.6. The example header of RFC 1071's usual illustration.
    #[test]
    fn an_ipv4_header_has_the_right_checksum() {
        let (src, dst) = (Ipv4Addr::new(192, 168, 0, 1), Ipv4Addr::new(192, 168, 0, 199));
        let grh = of_ipv4(src, dst, 0, 64, 95);
        assert_eq!(grh[..20], [0; 20]);
        assert_eq!(grh[30..32], [0xB8, 0x61]);
        assert_eq!(checksum(&grh[20..]), 0, "the sum over a valid header is all ones");
    }

    #[test]
    fn an_ipv6_header_says_six() {
        let grh = of_ipv6(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 0x12, 3, 0x1234);
        assert_eq!(grh[..8], [0x61, 0x20, 0, 0, 0x12, 0x34, 17, 3]);
        assert_eq!(grh[39], 1);
    }
}
