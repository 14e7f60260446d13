//! Who sent a datagram, as the 40 bytes in front of its payload say on a RoCE device.

use std::net::Ipv4Addr;

/// Where the IPv4 header begins; what is before it means nothing.
const HEADER_AT: usize = 20;

/// Where an answer goes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) addr: Ipv4Addr,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

/// The sender of a datagram to `own`; `None` when there is no intact IPv4 header, or one to
/// somebody else: a group, whose members answer from no address of it.
pub(super) fn in_header(bytes: &[u8; 40], own: Ipv4Addr) -> Option<Sender> {
    const VERSION_AND_LEN: u8 = 0x45;
    let header = &bytes[HEADER_AT..];
    let addr =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let is_intact = header[0] == VERSION_AND_LEN && sum(header) == u16::MAX;
    let sender = Sender { addr: addr(12), hop_limit: header[8], traffic_class: header[1] };
    (is_intact && addr(16) == own).then_some(sender)
}

/// The one's complement sum of all words: all ones over a header with its checksum.
fn sum(header: &[u8]) -> u16 {
    let words =
        header.chunks_exact(2).map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])));
    let sum: u32 = words.sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_intact_header_to_this_device_names_a_sender() {
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 0, 9));
        let header = rc::wire::grh::of_ipv4(src, dst, 0x68, 61, 300);
        let sender = Sender { addr: src, hop_limit: 61, traffic_class: 0x68 };
        assert_eq!(in_header(&header, dst), Some(sender));
        assert_eq!(in_header(&header, src), None, "to somebody else");
        for at in HEADER_AT..40 {
            let mut damaged = header;
            damaged[at] ^= 4;
            assert_eq!(in_header(&damaged, dst), None, "byte {at}");
        }
        let six = rc::wire::grh::of_ipv6(src.to_ipv6_mapped(), dst.to_ipv6_mapped(), 0, 9, 300);
        assert_eq!(in_header(&six, dst), None);
    }
}
