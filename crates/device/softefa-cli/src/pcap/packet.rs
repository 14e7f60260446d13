//! The IPv4 and UDP headers a captured datagram had, or would have had.

use softefa::capture::Record;

/// Length of both headers in bytes.
pub(super) const LEN: usize = IPV4_LEN + UDP_LEN;
const IPV4_LEN: usize = 20;
const UDP_LEN: usize = 8;
/// Where every tool looks for packets of RoCEv2, whichever port they took.
const ROCE_PORT: u16 = 4791;

/// Both headers (RFC 791, RFC 768). What the adapter cannot know is as Linux sends it; the UDP
/// checksum is 0, which means that there is none.
pub(super) fn headers(record: &Record) -> [u8; LEN] {
    let mut raw = [0; LEN];
    let (ip, udp) = raw.split_at_mut(IPV4_LEN);
    let datagram_len = record.len.saturating_add(UDP_LEN as u16);
    // Version 4, 5 words; do not fragment; time to live; UDP.
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&datagram_len.saturating_add(IPV4_LEN as u16).to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = 17;
    ip[12..16].copy_from_slice(&record.src.ip().octets());
    ip[16..20].copy_from_slice(&record.dst.ip().octets());
    let checksum = checksum(ip);
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    udp[0..2].copy_from_slice(&record.src.port().to_be_bytes());
    let dst_port = if record.is_roce_packet() { ROCE_PORT } else { record.dst.port() };
    udp[2..4].copy_from_slice(&dst_port.to_be_bytes());
    udp[4..6].copy_from_slice(&datagram_len.to_be_bytes());
    raw
}

/// Complement of the sum in one's complement (RFC 1071).
fn checksum(header: &[u8]) -> u16 {
    let pairs = header.chunks_exact(2).filter_map(<[u8]>::first_chunk);
    let sum: u32 = pairs.map(|pair| u32::from(u16::from_be_bytes(*pair))).sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    #[expect(clippy::cast_possible_truncation, reason = "folded to 16 bits")]
    let folded = ((sum & 0xffff) + (sum >> 16)) as u16;
    !folded
}

#[cfg(test)]
mod tests {
    use softefa::capture::{Fate, Protocol};

    use super::*;

    #[test]
    fn lengths_and_checksum_agree() {
        let record = Record {
            time_ns: 0,
            fate: Fate::Sent,
            protocol: Protocol::Srd,
            src: "127.0.0.1:10240".parse().unwrap(),
            dst: "127.0.0.2:16400".parse().unwrap(),
            len: 100,
            bytes: Vec::new(),
        };
        let raw = headers(&record);
        assert_eq!(checksum(&raw[..IPV4_LEN]), 0, "a right header sums up to nothing");
        assert_eq!(u16::from_be_bytes([raw[2], raw[3]]), 128);
        assert_eq!(u16::from_be_bytes([raw[24], raw[25]]), 108);
        assert_eq!(raw[20..24], [40, 0, 64, 16]);
        let roce = Record { protocol: Protocol::Roce, ..record };
        assert_eq!(headers(&roce)[20..24], [40, 0, 0x12, 0xb7]);
    }
}
