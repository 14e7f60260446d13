//! The sender of a datagram, from the 40 bytes in front of its payload on a RoCE device.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The offset of the IPv4 header; the bytes before it have no meaning.
const HEADER_AT: usize = 20;

/// The address for an answer, and its traffic attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sender {
    pub(super) addr: IpAddr,
    pub(super) hop_limit: u8,
    pub(super) traffic_class: u8,
}

/// Returns the sender of a datagram to `our_addr`; `None` when there is no intact header of its
/// family, or the datagram was to another address, such as that of a group, from which members do
/// not answer.
pub(super) fn in_header(bytes: &[u8; 40], our_addr: IpAddr) -> Option<Sender> {
    match our_addr {
        IpAddr::V4(our_addr) => in_ipv4(bytes, our_addr),
        IpAddr::V6(our_addr) => in_ipv6(bytes, our_addr),
    }
}

fn in_ipv6(bytes: &[u8; 40], our_addr: Ipv6Addr) -> Option<Sender> {
    let [a, b, _, _, _, _, _, hop_limit, addresses @ ..] = *bytes;
    let (src, dst) = (addresses.first_chunk::<16>()?, addresses.last_chunk::<16>()?);
    let traffic_class = a << 4 | b >> 4;
    let sender = Sender { addr: Ipv6Addr::from(*src).into(), hop_limit, traffic_class };
    (a >> 4 == 6 && Ipv6Addr::from(*dst) == our_addr).then_some(sender)
}

fn in_ipv4(bytes: &[u8; 40], our_addr: Ipv4Addr) -> Option<Sender> {
    const VERSION_AND_LEN: u8 = 0x45;
    let header = &bytes[HEADER_AT..];
    let addr =
        |at: usize| Ipv4Addr::new(header[at], header[at + 1], header[at + 2], header[at + 3]);
    let is_intact = header[0] == VERSION_AND_LEN && sum(header) == u16::MAX;
    let sender = Sender { addr: addr(12).into(), hop_limit: header[8], traffic_class: header[1] };
    (is_intact && addr(16) == our_addr).then_some(sender)
}

/// Returns the one's complement sum of all words: all ones for a header with a correct checksum.
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
        let sender = Sender { addr: src.into(), hop_limit: 61, traffic_class: 0x68 };
        assert_eq!(in_header(&header, dst.into()), Some(sender));
        assert_eq!(in_header(&header, src.into()), None, "to somebody else");
        for at in HEADER_AT..40 {
            let mut damaged = header;
            damaged[at] ^= 4;
            assert_eq!(in_header(&damaged, dst.into()), None, "byte {at}");
        }
    }

    #[test]
    fn a_header_of_the_other_family_names_nobody() {
        let (src, dst) = (Ipv6Addr::from([7; 16]), Ipv6Addr::from([9; 16]));
        let header = rc::wire::grh::of_ipv6(src, dst, 0x68, 61, 300);
        let sender = Sender { addr: src.into(), hop_limit: 61, traffic_class: 0x68 };
        assert_eq!(in_header(&header, dst.into()), Some(sender));
        assert_eq!(in_header(&header, src.into()), None, "to somebody else");
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 7), Ipv4Addr::new(10, 0, 0, 9));
        let four = rc::wire::grh::of_ipv4(src, dst, 0, 9, 300);
        assert_eq!(in_header(&four, dst.to_ipv6_mapped().into()), None);
        assert_eq!(in_header(&header, dst.into()), None);
    }
}
