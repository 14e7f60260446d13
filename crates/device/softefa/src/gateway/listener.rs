//! The sockets of one address: a UDP socket that is bound to the port and, if allowed, a raw socket
//! that shows IPv4 headers, whose identification the ICRC covers (RC-1.9). The IPv6 header has no
//! identification, so its covered fields are known without the header.

use std::io::{self, IoSlice};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, set_ip_mtu_discover, set_socket_recv_buffer_size,
    set_socket_recv_buffer_size_force,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, SocketType, bind,
    ipproto, recv, sendmsg_addr, socket_with,
};

use rc::wire::icrc::Addresses;

use super::classify::{Datagram, PACKET_MAX};
use crate::descriptor::with_descriptor;
use crate::filter;
use crate::host::overruns_of;

const IP_LEN: usize = 20;
const UDP_LEN: usize = 8;
const UDP: u8 = 17;
/// The first byte of an IPv4 header without options. RoCE packets have no options.
const PLAIN_IPV4: u8 = 0x45;
const DONT_FRAGMENT: u16 = 0x4000;
/// The size of the receive buffer, which holds bursts from all peers.
const RECEIVE_BYTES: usize = 16 << 20;
/// The size of the buffer for a datagram. A longer datagram is not a packet.
pub(super) const BUFFER_LEN: usize = IP_LEN + UDP_LEN + PACKET_MAX + 1;

#[derive(Debug)]
pub(super) struct Listener {
    at: SocketAddr,
    udp: UdpSocket,
    raw: Option<OwnedFd>,
}

/// The outcome of a read.
#[derive(Debug)]
pub(super) enum Incoming<'a> {
    Nothing,
    /// Bytes that are not a packet.
    Malformed,
    Packet(Datagram<'a>),
}

impl Listener {
    /// Binds the port and, with `may_see_headers`, opens the raw socket if the operating system
    /// allows it.
    pub(super) fn open(at: SocketAddr, may_see_headers: bool) -> io::Result<Self> {
        let udp = with_descriptor(|| UdpSocket::bind(at))?;
        udp.set_nonblocking(true)?;
        if at.is_ipv4() {
            // With this option identifications are 0, as the ICRC of sent packets assumes.
            set_ip_mtu_discover(&udp, Ipv4PathMtuDiscovery::DO)?;
        }
        let raw = if may_see_headers && at.is_ipv4() { open_raw(at).ok() } else { None };
        match &raw {
            Some(raw) => {
                enlarge_receive_buffer(raw.as_fd())?;
                filter::drop_all(&udp)?;
            }
            None => enlarge_receive_buffer(udp.as_fd())?,
        }
        Ok(Self { at, udp, raw })
    }

    /// Returns the address and port.
    pub(super) fn at(&self) -> SocketAddr {
        self.at
    }

    /// Returns true if all fields that the ICRC of an incoming packet covers are known.
    pub(super) fn knows_headers(&self) -> bool {
        self.raw.is_some() || self.at.is_ipv6()
    }

    /// Returns the socket that becomes readable when a datagram arrives.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.raw.as_ref().map_or_else(|| self.udp.as_fd(), AsFd::as_fd)
    }

    /// Returns the number of datagrams that found no room in the buffer.
    pub(super) fn overruns(&self) -> u32 {
        overruns_of(self.fd()).unwrap_or(0)
    }

    /// Reads the next datagram into `buffer`.
    pub(super) fn receive<'a>(&self, buffer: &'a mut [u8; BUFFER_LEN]) -> Incoming<'a> {
        let to = self.at;
        let Some(raw) = &self.raw else {
            // A sender that sets another identification cannot be recognised here; its ICRC does
            // not match.
            return match self.udp.recv_from(&mut buffer[..]) {
                Ok((len, from)) => {
                    let addresses = Addresses::of_datagram(from.ip(), to.ip());
                    Incoming::Packet(Datagram { from, to, addresses, packet: &buffer[..len] })
                }
                Err(_) => Incoming::Nothing,
            };
        };
        let Ok((len, _)) = recv(raw, &mut buffer[..], RecvFlags::DONTWAIT) else {
            return Incoming::Nothing;
        };
        parse(&buffer[..len], to).map_or(Incoming::Malformed, Incoming::Packet)
    }

    /// Sends a packet to a peer.
    pub(super) fn send(&self, to: SocketAddr, packet: &[u8]) -> io::Result<()> {
        self.udp.send_to(packet, to).map(|_| ())
    }

    /// Forwards a packet with its envelope to a socket of this machine.
    pub(super) fn hand_over(
        &self,
        to: SocketAddr,
        envelope: &[u8],
        packet: &[u8],
    ) -> io::Result<()> {
        let parts = [IoSlice::new(envelope), IoSlice::new(packet)];
        let mut nothing = SendAncillaryBuffer::default();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        sendmsg_addr(&self.udp, &to, &parts, &mut nothing, flags)?;
        Ok(())
    }
}

fn open_raw(at: SocketAddr) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let open = || Ok(socket_with(AddressFamily::INET, SocketType::RAW, flags, Some(ipproto::UDP))?);
    let raw = with_descriptor(open)?;
    filter::take_port(&raw, at.port())?;
    bind(&raw, &SocketAddr::new(at.ip(), 0))?;
    // Datagrams may have arrived before the filter was installed.
    while recv(&raw, &mut [0_u8; 1][..], RecvFlags::DONTWAIT | RecvFlags::TRUNC).is_ok() {}
    Ok(raw)
}

/// Gives the socket as large a receive buffer as the system allows.
fn enlarge_receive_buffer(socket: BorrowedFd<'_>) -> io::Result<()> {
    if set_socket_recv_buffer_size_force(socket, RECEIVE_BYTES).is_err() {
        set_socket_recv_buffer_size(socket, RECEIVE_BYTES)?;
    }
    Ok(())
}

/// Parses the headers in front of a packet to `to`, whose lengths must agree. The kernel
/// reassembles fragments before the raw socket sees them.
fn parse(datagram: &[u8], to: SocketAddr) -> Option<Datagram<'_>> {
    let (ip, rest) = datagram.split_first_chunk::<IP_LEN>()?;
    let (udp, packet) = rest.split_first_chunk::<UDP_LEN>()?;
    let half = |bytes: &[u8], at| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
    let flags = half(ip, 6);
    let is_whole = usize::from(half(ip, 2)) == datagram.len()
        && usize::from(half(udp, 4)) == UDP_LEN + packet.len();
    let at = |place| Ipv4Addr::new(ip[place], ip[place + 1], ip[place + 2], ip[place + 3]);
    let (src, dst) = (at(12), at(16));
    let is_ours = ip[9] == UDP && SocketAddr::new(dst.into(), half(udp, 2)) == to;
    if ip[0] != PLAIN_IPV4 || !is_whole || !is_ours {
        return None;
    }
    let from = SocketAddr::new(src.into(), half(udp, 0));
    let dont_fragment = flags & DONT_FRAGMENT != 0;
    let addresses = Addresses::V4 { src, dst, id: half(ip, 4), dont_fragment };
    Some(Datagram { from, to, addresses, packet })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A datagram from 10.0.0.2, port 0xC001, to 10.0.0.1:4791, with identification 0x1234.
    fn datagram() -> Vec<u8> {
        let mut bytes = vec![0; IP_LEN + UDP_LEN];
        bytes[..10].copy_from_slice(&[0x45, 0, 0, 48, 0x12, 0x34, 0x40, 0, 64, UDP]);
        bytes[12..20].copy_from_slice(&[10, 0, 0, 2, 10, 0, 0, 1]);
        bytes[20..26].copy_from_slice(&[0xC0, 1, 0x12, 0xB7, 0, 28]);
        bytes.extend([7; 20]);
        bytes
    }

    #[test]
    fn headers_tell_what_the_check_covers() {
        let (bytes, to) = (datagram(), "10.0.0.1:4791".parse().unwrap());
        let datagram = parse(&bytes, to).unwrap();
        assert_eq!((datagram.from, datagram.to), ("10.0.0.2:49153".parse().unwrap(), to));
        let (src, dst) = (Ipv4Addr::new(10, 0, 0, 2), Ipv4Addr::new(10, 0, 0, 1));
        let addresses = Addresses::V4 { src, dst, id: 0x1234, dont_fragment: true };
        assert_eq!(datagram.addresses, addresses);
        assert_eq!(datagram.packet, [7; 20]);
    }

    #[test]
    fn headers_that_contradict_themselves_are_none() {
        let (good, to) = (datagram(), "10.0.0.1:4791".parse().unwrap());
        for at in [0, 2, 3, 9, 16, 19, 22, 23, 24, 25] {
            let mut bent = good.clone();
            bent[at] ^= 1;
            assert!(parse(&bent, to).is_none(), "byte {at}");
        }
        for len in 0..good.len() {
            assert!(parse(&good[..len], to).is_none(), "{len} bytes");
        }
        assert!(parse(&[&good[..], &[0]].concat(), to).is_none());
    }
}
