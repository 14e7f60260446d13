//! A message of the connection manager in a RoCEv2 packet: an unreliable datagram to queue pair 1
//! (CM-1.1).

use std::net::SocketAddr;

use cm::mad::MAD_LEN;
use rc::wire::icrc::{self, Addresses, Route};
use rc::wire::{Bth, DEFAULT_PKEY, Deth};
use rc::{HEADER_MAX, Mtu, Psn, ud};

/// The queue pair that messages come from and go to.
pub const QPN: u32 = 1;
/// Its queue key.
const QKEY: u32 = 0x8001_0000;
/// Bytes before the message.
pub const HEADERS_LEN: usize = Bth::LEN + Deth::LEN;
/// Bytes of a whole packet.
pub const PACKET_LEN: usize = HEADERS_LEN + MAD_LEN + icrc::LEN;

/// Why a datagram holds no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfit {
    /// Another length, other headers, another queue pair or key.
    Packet,
    /// Damaged, or sent by something that fills the network's headers differently.
    Icrc,
}

/// Puts messages into packets.
#[derive(Debug)]
pub struct Packer(ud::Sender);

impl Default for Packer {
    fn default() -> Self {
        Self::new()
    }
}

impl Packer {
    /// A packer whose packets have the numbers from 0 on.
    #[must_use]
    pub fn new() -> Self {
        Self(ud::Sender::new(QPN, DEFAULT_PKEY, Mtu::B256, Psn::new(0)))
    }

    /// The packet that takes `mad` from one socket to another.
    #[must_use]
    pub fn pack(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        mad: &[u8; MAD_LEN],
    ) -> [u8; PACKET_LEN] {
        let datagram = ud::Datagram {
            dest_qpn: QPN,
            qkey: QKEY,
            len: MAD_LEN as u32,
            ..ud::Datagram::default()
        };
        let mut headers = [0; HEADER_MAX];
        let mut packet = [0; PACKET_LEN];
        // A message fits every path, so there always are headers.
        if let Some((len, _)) = self.0.packet(&datagram, &mut headers) {
            packet[..len].copy_from_slice(&headers[..len]);
        }
        let (rest, check) = packet.split_at_mut(HEADERS_LEN + MAD_LEN);
        rest[HEADERS_LEN..].copy_from_slice(mad);
        check.copy_from_slice(&icrc::of(&route(from, to), rest));
        packet
    }
}

/// The message in a datagram that came from the first address to the second; no addresses when its
/// ICRC was checked.
///
/// # Errors
/// [`Unfit`]: it holds none.
pub fn unpack(addresses: Option<(SocketAddr, SocketAddr)>, bytes: &[u8]) -> Result<&[u8], Unfit> {
    let here = ud::Receiver { qpn: QPN, pkey: DEFAULT_PKEY, qkey: QKEY, mtu: Mtu::B256 };
    if bytes.len() != PACKET_LEN || bytes[5..8] != [0, 0, QPN as u8] {
        return Err(Unfit::Packet);
    }
    let received = ud::receive(&here, bytes, bytes.len()).map_err(|_| Unfit::Packet)?;
    if received.payload_len as usize != MAD_LEN || received.imm.is_some() {
        return Err(Unfit::Packet);
    }
    if addresses.is_some_and(|(from, to)| !icrc::is_right(&route(from, to), bytes)) {
        return Err(Unfit::Icrc);
    }
    Ok(&bytes[received.payload_at..received.payload_at + MAD_LEN])
}

/// What the ICRC covers of a datagram from a socket that is not connected and does not fragment.
fn route(from: SocketAddr, to: SocketAddr) -> Route {
    let addresses = Addresses::of_datagram(from.ip(), to.ip());
    Route { addresses, src_port: from.port(), dst_port: to.port() }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const A: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), 40_000);
    const B: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2)), 7471);

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let mad = std::array::from_fn(|i| i as u8);
        let packet = Packer::new().pack(A, B, &mad);
        assert_eq!(packet[..4], [0x64, 0x40, 0xFF, 0xFF], "UD SEND ONLY, no pad");
        assert_eq!(packet[12..20], [0x80, 0x01, 0, 0, 0, 0, 0, 1], "key and queue pair");
        assert_eq!(unpack(Some((A, B)), &packet), Ok(&mad[..]));
    }

    #[test]
    fn no_byte_may_change_and_no_address() {
        let packet = Packer::new().pack(A, B, &[7; MAD_LEN]);
        for at in 0..PACKET_LEN {
            let mut other = packet;
            other[at] ^= 1;
            // Congestion marks (byte 4) are no router's business to keep.
            assert_eq!(unpack(Some((A, B)), &other).is_err(), at != 4, "byte {at}");
        }
        assert_eq!(unpack(Some((B, A)), &packet), Err(Unfit::Icrc));
        assert!(unpack(None, &packet).is_ok(), "the gateway has checked it");
        for len in [0, 1, 11, 12, 20, PACKET_LEN - 1] {
            assert_eq!(unpack(Some((A, B)), &packet[..len]), Err(Unfit::Packet), "{len} bytes");
        }
        let longer = [&packet[..], &[0; 4]].concat();
        assert_eq!(unpack(Some((A, B)), &longer), Err(Unfit::Packet));
    }
}
