//! The IP and UDP headers of a captured datagram, which it had or would have had.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use softefa::Gid;
use softefa::capture::Record;

const IPV4_LEN: usize = 20;
const IPV6_LEN: usize = 40;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
const HOP_LIMIT: u8 = 64;
/// The port at which every tool looks for packets of RoCEv2, whichever port they took.
const ROCE_PORT: u16 = 4791;

/// Returns both headers (RFC 791, RFC 8200, RFC 768). Fields that the adapter cannot know are as
/// Linux sends them. The UDP checksum is 0, which means none; with IPv6, which requires one, it is
/// present unless the datagram was cut.
pub(super) fn headers(record: &Record) -> Vec<u8> {
    let udp_len = record.len.saturating_add(UDP_LEN as u16);
    let mut raw = Vec::with_capacity(IPV6_LEN + UDP_LEN);
    match (record.src.ip(), record.dst.ip()) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => raw.extend(ipv4(src, dst, udp_len)),
        (src, dst) => raw.extend(ipv6(to_v6(src), to_v6(dst), udp_len)),
    }
    let ip_len = raw.len();
    raw.extend(record.src.port().to_be_bytes());
    let dst_port = if record.is_roce_packet() { ROCE_PORT } else { record.dst.port() };
    raw.extend(dst_port.to_be_bytes());
    raw.extend(udp_len.to_be_bytes());
    raw.extend([0, 0]);
    if ip_len == IPV6_LEN && record.bytes.len() == usize::from(record.len) {
        let pseudo = [&raw[8..IPV6_LEN], &[0, 0], &udp_len.to_be_bytes(), &[0, 0, 0, UDP]].concat();
        let sum = sum(&pseudo) + sum(&raw[IPV6_LEN..]) + sum(&record.bytes);
        // A checksum of zero is written as its other form.
        let check = if fold(sum) == 0 { u16::MAX } else { fold(sum) };
        raw[IPV6_LEN + 6..].copy_from_slice(&check.to_be_bytes());
    }
    raw
}

fn ipv4(src: Ipv4Addr, dst: Ipv4Addr, udp_len: u16) -> [u8; IPV4_LEN] {
    let mut ip = [0; IPV4_LEN];
    // Version 4, 5 words; do not fragment.
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&udp_len.saturating_add(IPV4_LEN as u16).to_be_bytes());
    ip[6] = 0x40;
    ip[8..10].copy_from_slice(&[HOP_LIMIT, UDP]);
    ip[12..16].copy_from_slice(&src.octets());
    ip[16..].copy_from_slice(&dst.octets());
    let checksum = fold(sum(&ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    ip
}

fn ipv6(src: Ipv6Addr, dst: Ipv6Addr, udp_len: u16) -> [u8; IPV6_LEN] {
    let mut ip = [0; IPV6_LEN];
    ip[0] = 0x60;
    ip[4..6].copy_from_slice(&udp_len.to_be_bytes());
    ip[6..8].copy_from_slice(&[UDP, HOP_LIMIT]);
    ip[8..24].copy_from_slice(&src.octets());
    ip[24..].copy_from_slice(&dst.octets());
    ip
}

/// Returns an address in the form of IPv6, which identifies a RoCE device there.
fn to_v6(ip: IpAddr) -> Ipv6Addr {
    Gid::of_roce(ip).0.into()
}

/// Returns the sum of the words of `bytes`, the last of which is padded with zeros.
fn sum(bytes: &[u8]) -> u32 {
    let word = |pair: &[u8]| {
        u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or_default()]))
    };
    bytes.chunks(2).map(word).sum()
}

/// Returns the complement of a sum in one's complement (RFC 1071).
fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    let folded = ((sum & 0xffff) + (sum >> 16)) as u16;
    !folded
}

#[cfg(test)]
mod tests {
    use softefa::capture::{Fate, Protocol};

    use super::*;

    fn record(src: &str, dst: &str) -> Record {
        Record {
            time_ns: 0,
            fate: Fate::Sent,
            protocol: Protocol::Srd,
            src: src.parse().unwrap(),
            dst: dst.parse().unwrap(),
            len: 100,
            bytes: Vec::new(),
        }
    }

    #[test]
    fn lengths_and_checksum_agree() {
        let record = record("127.0.0.1:10240", "127.0.0.2:16400");
        let raw = headers(&record);
        assert_eq!(raw.len(), 28);
        assert_eq!(fold(sum(&raw[..IPV4_LEN])), 0, "a right header sums up to nothing");
        assert_eq!(u16::from_be_bytes([raw[2], raw[3]]), 128);
        assert_eq!(u16::from_be_bytes([raw[24], raw[25]]), 108);
        assert_eq!(raw[20..24], [40, 0, 64, 16]);
        let roce = Record { protocol: Protocol::Roce, ..record };
        assert_eq!(headers(&roce)[20..24], [40, 0, 0x12, 0xb7]);
    }

    /// The expected checksums were computed with Python.
    #[test]
    fn ipv6_has_a_checksum_of_what_is_whole() {
        let cut = record("[2001:db8::1]:10240", "[2001:db8::2]:16400");
        let raw = headers(&cut);
        assert_eq!((raw.len(), raw[0], u16::from_be_bytes([raw[4], raw[5]])), (48, 0x60, 108));
        assert_eq!(raw[46..], [0, 0]);
        let whole = Record { len: 5, bytes: b"hello".to_vec(), ..cut };
        assert_eq!(headers(&whole)[46..], [0xf8, 0x7c]);
    }
}
