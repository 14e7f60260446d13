//! Packets of RoCE v2 as datagrams, and the four bytes behind them (docs/PROTOCOL.md, RC-1.5 and
//! RC-1.8; sealed: RC-1.13).

use std::net::{IpAddr, SocketAddr};

use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Aeth, Bth, Headers, Reth, UDP_PORT, pad_of};

use super::crc32c;
use crate::memory::{self, Piece};

/// The greatest number of bytes behind a payload.
pub(super) const TRAILER_MAX: usize = 3 + icrc::LEN;

/// The reserved bit of the base transport header that says that the last four bytes are a check of
/// the headers, not the ICRC.
const SHORT: u8 = 1;
const SHORT_AT: usize = 8;

/// The source port that the ICRC covers between queue pairs of our own. The real source port is not
/// known when a packet is finished, and a packet through memory has none.
const SRC_PORT: u16 = 0xC000;
/// Length of the shortest packet.
const PACKET_MIN: usize = Bth::LEN + icrc::LEN;

/// The check of the packets of one queue pair.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packets {
    /// The address of the queue pair.
    local: IpAddr,
    /// Packets are sent with an ICRC.
    pub(super) has_icrc: bool,
    /// The source and destination port that the ICRC covers.
    ports: (u16, u16),
    /// Received packets have been checked by the gateway, which knows what the check covers.
    is_checked: bool,
}

impl Packets {
    /// Makes the check of a queue pair at `local`, whose packets have an ICRC, or else a check of
    /// their headers.
    pub(crate) fn new(local: IpAddr, has_icrc: bool) -> Self {
        Self { local, has_icrc, ports: (SRC_PORT, UDP_PORT), is_checked: false }
    }

    /// Makes the check of a queue pair behind the gateway of `port`, which sends from `src_port` to
    /// that port of every peer.
    pub(crate) fn behind_gateway(local: IpAddr, src_port: u16, port: u16) -> Self {
        Self { local, has_icrc: true, ports: (src_port, port), is_checked: true }
    }

    /// Writes the ICRC of a packet to `to` that is complete but for the ICRC.
    pub(super) fn fill_in(self, to: IpAddr, packet: &mut [u8]) {
        if let Some((covered, last)) = packet.split_last_chunk_mut() {
            *last = icrc::of(&self.route(self.local, to), covered);
        }
    }

    /// Returns true if the check of the packet of `head` and the bytes at `rest` is right.
    #[inline]
    pub(super) fn is_intact(self, from: IpAddr, head: &[u8], rest: Piece) -> bool {
        if self.is_checked {
            return rest.len == 0 && head.len() >= PACKET_MIN;
        }
        if !is_short(head) {
            return rest.len == 0 && icrc::is_right(&self.route(from, self.local), head);
        }
        let Some(headers_len) = headers_len(head) else { return false };
        let (headers, behind) = head.split_at(headers_len);
        last_bytes(behind, rest) == Some(check(headers, head.len() + rest.len))
    }

    /// Verifies a packet that was sent to `group`. Its sender may be behind a gateway, whose ICRCs
    /// cover the real ports, while this queue pair is not, or the other way round.
    pub(super) fn is_intact_in_group(self, from: SocketAddr, group: IpAddr, packet: &[u8]) -> bool {
        let of_group = Self { local: group, is_checked: false, ..self };
        [SRC_PORT, from.port()].into_iter().any(|src_port| {
            let there = Self { ports: (src_port, of_group.ports.1), ..of_group };
            there.is_intact(from.ip(), packet, Piece::default())
        })
    }

    /// Returns what the ICRC of a datagram covers if its socket is not connected and does not
    /// fragment.
    fn route(self, src: IpAddr, dst: IpAddr) -> Route {
        let addresses = Addresses::of_datagram(src, dst);
        let (src_port, dst_port) = self.ports;
        // Groups have one port, whatever the port of the gateway is.
        let dst_port = if dst.is_multicast() { UDP_PORT } else { dst_port };
        Route { addresses, src_port, dst_port }
    }
}

/// Returns the length of all headers; `None` if they cannot be parsed or are truncated.
#[inline]
pub(super) fn headers_len(packet: &[u8]) -> Option<usize> {
    Headers::len_in(packet).filter(|len| *len <= packet.len())
}

/// Returns the length that the check covers, unless it covers more than the headers.
#[inline]
pub(super) fn covered_len(head: &[u8]) -> Option<usize> {
    headers_len(head).filter(|_| is_short(head))
}

/// Returns the length of the pad and the check behind a payload.
#[inline]
pub(super) fn trailer_len(payload_len: usize) -> usize {
    // A packet is short.
    #[expect(clippy::cast_possible_truncation, reason = "only the last two bits count")]
    let pad = pad_of(payload_len as u32);
    pad as usize + icrc::LEN
}

/// Marks in the headers that the check covers nothing else.
#[inline]
pub(super) fn set_short(headers: &mut [u8]) {
    headers[SHORT_AT] |= SHORT;
}

#[inline]
fn is_short(head: &[u8]) -> bool {
    head.get(SHORT_AT).is_some_and(|byte| byte & SHORT != 0)
}

/// Computes the check of the headers of a packet of `len` bytes.
#[inline]
pub(super) fn check(headers: &[u8], len: usize) -> [u8; icrc::LEN] {
    // No header tells the length of the packet.
    let len = (len as u64).to_be_bytes();
    // The shortest ones most often: of SENDs, acknowledgements and WRITEs.
    let crc = if let Ok(header) = headers.try_into() {
        crc32c::of_header::<{ Bth::LEN }>(len, header)
    } else if let Ok(header) = headers.try_into() {
        crc32c::of_header::<{ Bth::LEN + Aeth::LEN }>(len, header)
    } else if let Ok(header) = headers.try_into() {
        crc32c::of_header::<{ Bth::LEN + Reth::LEN }>(len, header)
    } else {
        crc32c::of(&[len], headers)
    };
    crc.to_be_bytes()
}

/// Returns the last four bytes of what is behind the headers.
#[inline]
fn last_bytes(behind: &[u8], rest: Piece) -> Option<[u8; icrc::LEN]> {
    if rest.len == 0 {
        return behind.last_chunk().copied();
    }
    let at = rest.len.checked_sub(icrc::LEN)?;
    let mut last = [0; icrc::LEN];
    let to = (&raw mut last).expose_provenance() as u64;
    memory::copy_to(to, rest.addr + at as u64, icrc::LEN).ok()?;
    Some(last)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use rc::Psn;
    use rc::wire::{Kind, Opcode, Transport};

    use super::*;

    const A: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    /// Returns a WRITE of 30 bytes from A to B, and the length of its headers.
    fn packet(has_icrc: bool) -> (Vec<u8>, usize) {
        let headers = Headers::new(Bth {
            opcode: Opcode { transport: Transport::Rc, kind: Kind::WriteOnly },
            is_solicited: false,
            is_migrated: true,
            pad: 2,
            pkey: 0xFFFF,
            has_fecn: false,
            has_becn: false,
            joined: 0,
            dest_qpn: 77,
            wants_ack: true,
            psn: Psn::new(5),
        });
        let mut bytes = vec![0; 64];
        let headers_len = headers.emit(&mut bytes);
        bytes.truncate(headers_len);
        bytes.resize(headers_len + 30 + trailer_len(30), 7);
        if has_icrc {
            Packets::new(A, true).fill_in(B, &mut bytes);
        } else {
            set_short(&mut bytes[..headers_len]);
            let check = check(&bytes[..headers_len], bytes.len());
            *bytes.last_chunk_mut().unwrap() = check;
        }
        (bytes, headers_len)
    }

    fn is_intact(from: IpAddr, bytes: &[u8]) -> bool {
        Packets::new(B, false).is_intact(from, bytes, Piece::default())
    }

    /// Returns the positions of the bytes that may be altered undetected.
    fn blind_spots(bytes: &[u8]) -> Vec<usize> {
        let is_blind = |at: &usize| {
            let mut bent = bytes.to_vec();
            bent[*at] ^= 0x41;
            is_intact(A, &bent)
        };
        (0..bytes.len()).filter(is_blind).collect()
    }

    #[test]
    fn headers_are_always_covered_and_payload_by_the_icrc() {
        let (short, headers_len) = packet(false);
        assert!(is_intact(A, &short));
        assert_eq!(blind_spots(&short), (headers_len..headers_len + 32).collect::<Vec<_>>());
        let (whole, _) = packet(true);
        assert!(is_intact(A, &whole));
        assert_eq!(blind_spots(&whole), [4], "routers set the bits of congestion");
        assert!(!is_intact(B, &whole), "the addresses count");
    }

    #[test]
    fn behind_a_gateway_the_real_ports_are_covered() {
        let (mut bytes, _) = packet(true);
        Packets::behind_gateway(A, 11_111, 4791).fill_in(B, &mut bytes);
        let addresses = Addresses::of_datagram(A, B);
        let real = Route { addresses, src_port: 11_111, dst_port: 4791 };
        assert!(icrc::is_right(&real, &bytes));
        assert!(!icrc::is_right(&Route { src_port: SRC_PORT, ..real }, &bytes));
        let at_b = Packets::behind_gateway(B, 22_222, 4791);
        assert!(at_b.is_intact(A, &bytes, Piece::default()), "whatever the gateway let through");
        assert!(!at_b.is_intact(A, &bytes[..PACKET_MIN - 1], Piece::default()));
    }

    /// RC-10.2.
    #[test]
    fn members_of_a_group_are_behind_a_gateway_or_not() {
        let group = IpAddr::from([239, 1, 2, 3]);
        let members = [Packets::new(B, false), Packets::behind_gateway(B, 22_222, 4791)];
        let sender = SocketAddr::new(A, 11_111);
        let senders = [Packets::new(A, true), Packets::behind_gateway(A, 11_111, 4791)];
        let (short, _) = packet(false);
        let icrcs = senders.map(|sender| {
            let (mut bytes, _) = packet(true);
            sender.fill_in(group, &mut bytes);
            bytes
        });
        for member in members {
            let is_intact = |bytes: &[u8]| member.is_intact_in_group(sender, group, bytes);
            assert!(is_intact(&short) && icrcs.iter().all(|bytes| is_intact(bytes)));
            for bytes in icrcs.iter().chain([&short]) {
                for at in (0..20).filter(|at| *at != 4) {
                    let mut bent = bytes.clone();
                    bent[at] ^= 0x41;
                    assert!(!is_intact(&bent), "byte {at}");
                }
            }
            assert!(!member.is_intact_in_group(sender, B, &icrcs[0]), "another group");
        }
    }

    #[test]
    fn another_length_is_noticed() {
        for has_icrc in [false, true] {
            let (bytes, _) = packet(has_icrc);
            for len in 0..bytes.len() {
                assert!(!is_intact(A, &bytes[..len]), "{len}");
            }
            assert!(!is_intact(A, &[&bytes[..], &[0; 4]].concat()));
        }
    }

    #[test]
    fn payload_may_be_lent_when_headers_are_covered() {
        let lent = |bytes: &[u8], at: usize| {
            let (head, rest) = bytes.split_at(at);
            let addr = rest.as_ptr().expose_provenance() as u64;
            Packets::new(B, true).is_intact(A, head, Piece { addr, len: rest.len() })
        };
        let (short, headers_len) = packet(false);
        assert_eq!(covered_len(&short), Some(headers_len));
        assert!(lent(&short, headers_len));
        assert!(!lent(&short[..short.len() - 1], headers_len));
        assert!(!lent(&short[..headers_len + 3], headers_len), "less than a check is there");
        let (whole, headers_len) = packet(true);
        assert_eq!(covered_len(&whole), None);
        assert!(!lent(&whole, headers_len));
    }
}
