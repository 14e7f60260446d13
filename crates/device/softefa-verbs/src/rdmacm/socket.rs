//! A UDP socket for messages, bound to one address and port.
//!
//! It is never connected and never fragments, because then the identification in the IP header is
//! 0, which the check of a packet covers. ICMP messages come through its error queue.

use std::ffi::c_int;
use std::io;
use std::mem::{offset_of, size_of, zeroed};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softefa::SocketName;
use softefa::gateway::{ENVELOPE_LEN, Gateway, RegisteredSocket, SocketKind};
use softefa::mad::{HEADERS_LEN, PACKET_LEN};
use softefa::seal::{Envelope, Notice, OVERHEAD_BYTES, Refusal, SealKey};

use super::marks::HIDDEN;
use super::sealing::{Seals, notice_about};

/// Bytes that are read of a datagram: a longer one is not ours.
const ROOM: usize = PACKET_LEN + OVERHEAD_BYTES + 1;
/// Buffer for what arrives while the thread has no processor: what does not fit is repeated only
/// seconds later.
const RECEIVE_BYTES: c_int = 4 << 20;
/// Datagrams, and ICMP messages, that are taken at a time.
const BATCH: usize = 32;

/// A received datagram.
pub(super) struct Datagram {
    pub(super) from: SocketAddr,
    pub(super) to: SocketAddr,
    /// The address for answers.
    pub(super) reply_to: SocketAddr,
    /// The gateway has verified it.
    pub(super) is_checked: bool,
    bytes: [u8; ROOM],
    len: usize,
    /// With a key, the packet in its envelope, or why it did not open.
    opened: Option<Result<Vec<u8>, Unopened>>,
}

/// The reason why a datagram did not open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unopened {
    pub(super) refusal: Refusal,
    /// A datagram from its host was opened before.
    pub(super) is_known: bool,
}

impl Datagram {
    /// Creates a datagram from its addresses and bytes.
    fn new(from: SocketAddr, to: SocketAddr, is_checked: bool, came: &[u8]) -> Self {
        let (mut bytes, len) = ([0; ROOM], came.len().min(ROOM));
        bytes[..len].copy_from_slice(&came[..len]);
        Self { from, to, reply_to: from, is_checked, bytes, len, opened: None }
    }

    /// Returns the datagram as it was received.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    /// Returns the packet, or why there is none.
    pub(super) fn packet(&self) -> Result<&[u8], Unopened> {
        match &self.opened {
            // The sender has a key, and this side has none.
            None if self.is_sealed() => {
                Err(Unopened { refusal: Refusal::NotSealed, is_known: false })
            }
            None => Ok(self.bytes()),
            Some(opened) => opened.as_deref().map_err(|unopened| *unopened),
        }
    }

    /// Returns whether it looks like an envelope in every field that can be read without a key.
    /// Noise sometimes begins like one.
    fn is_sealed(&self) -> bool {
        Envelope::parse(self.bytes()).is_some_and(|envelope| {
            usize::from(envelope.len) == self.bytes().len()
                && (envelope.src_qpn, envelope.dst_qpn) == (self.from.port(), self.to.port())
        })
    }

    /// Returns the notice that the datagram contains.
    pub(super) fn notice(&self) -> Option<Notice> {
        Notice::parse(self.bytes())
    }

    /// Returns the notice for its sender if it did not open.
    pub(super) fn notice_about(&self) -> Option<[u8; softefa::seal::NOTICE_BYTES]> {
        notice_about(self.from, self.to, self.bytes())
    }
}

/// The ICMP error for an address and port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum IcmpError {
    /// Nothing receives there.
    PortUnreachable,
    /// There is no route to the host.
    NoRoute,
}

/// The result of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SendResult {
    Sent,
    /// There was no room for it, or no route: it is lost, as on a network.
    Lost,
    /// Pending ICMP messages must be taken first.
    Blocked,
}

/// An ICMP error about a datagram of ours.
pub(super) struct Refused {
    pub(super) peer: SocketAddr,
    pub(super) error: IcmpError,
    /// The quote contains an envelope of this socket, which proves that it is genuine.
    pub(super) is_proven: bool,
    bytes: [u8; ROOM],
    len: usize,
}

impl Refused {
    /// Returns the quoted part of the message, without the headers of its packet.
    pub(super) fn quote(&self) -> &[u8] {
        self.bytes[..self.len].get(HEADERS_LEN..).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct Socket {
    local: SocketAddr,
    fd: RawFd,
    /// `None` once it is closed; locked during reads, so that the number is not reused meanwhile.
    udp: Mutex<Option<UdpSocket>>,
    /// The UDP port of the network and the registration, if a gateway forwards datagrams.
    gateway: Option<(u16, Mutex<Option<RegisteredSocket>>)>,
    /// The sealing state, if there is a key.
    seals: Option<Mutex<Seals>>,
}

/// The key of this process, and the name of a socket's session.
pub(super) struct Sealing<'a> {
    pub(super) key: &'a SealKey,
    pub(super) session: u64,
}

impl Socket {
    /// Binds a socket; port 0 for any that is free. If there is a `gateway`, it forwards datagrams
    /// to the socket.
    pub(super) fn bind(
        local: SocketAddr,
        gateway: Option<&Arc<Gateway>>,
        sealing: Option<&Sealing<'_>>,
    ) -> io::Result<Self> {
        let udp = softefa::with_descriptor(|| UdpSocket::bind(local))?;
        udp.set_nonblocking(true)?;
        let (level, mtu_discover, recverr) = match local {
            SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_RECVERR),
            SocketAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_RECVERR),
        };
        // Both families use the value 2.
        set(&udp, level, mtu_discover, libc::IP_PMTUDISC_DO)?;
        set(&udp, level, recverr, 1)?;
        // With privileges, or as far as the system allows.
        set(&udp, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, RECEIVE_BYTES)
            .or_else(|_| set(&udp, libc::SOL_SOCKET, libc::SO_RCVBUF, RECEIVE_BYTES))?;
        let local = udp.local_addr()?;
        let fd = udp.as_raw_fd();
        let admitted = gateway.map(|gateway| {
            let registered = gateway.register(local, udp.as_fd(), SocketKind::ConnectionManager)?;
            io::Result::Ok((gateway.port(), Mutex::new(Some(registered))))
        });
        let gateway = admitted.transpose()?;
        HIDDEN.add(fd);
        let seals = sealing.map(|sealing| Seals::new(sealing.key, local, sealing.session));
        let (udp, seals) = (Mutex::new(Some(udp)), seals.map(Mutex::new));
        Ok(Self { local, fd, udp, gateway, seals })
    }

    pub(super) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the descriptor, while it is open.
    pub(super) fn fd(&self) -> RawFd {
        self.fd
    }

    fn udp(&self) -> MutexGuard<'_, Option<UdpSocket>> {
        self.udp.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Closes the socket and releases the port at once.
    pub(super) fn close(&self) {
        if let Some((_, registered)) = &self.gateway {
            drop(registered.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        if let Some(udp) = self.udp().take() {
            HIDDEN.remove(self.fd);
            drop(udp);
        }
    }

    fn seals(&self) -> Option<MutexGuard<'_, Seals>> {
        let seals = self.seals.as_ref()?;
        Some(seals.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the bytes to send for a packet: sealed, if there is a key.
    pub(super) fn wrap(&self, to: SocketAddr, packet: &[u8]) -> Option<Vec<u8>> {
        match self.seals() {
            None => Some(packet.to_vec()),
            Some(mut seals) => seals.seal(to, packet),
        }
    }

    /// Returns whether a notice from `peer` is authentic.
    pub(super) fn is_refused_by(&self, notice: &Notice, peer: SocketAddr) -> bool {
        self.seals().is_some_and(|seals| seals.is_refused_by(notice, peer))
    }

    /// Sends one datagram.
    pub(super) fn send(&self, to: SocketAddr, bytes: &[u8]) -> SendResult {
        let udp = self.udp();
        let Some(udp) = &*udp else { return SendResult::Lost };
        match udp.send_to(bytes, to) {
            Ok(_) => SendResult::Sent,
            Err(error) if is_icmp(&error) => SendResult::Blocked,
            Err(_) => SendResult::Lost,
        }
    }

    /// Appends the received datagrams, up to a batch.
    pub(super) fn receive(&self, out: &mut Vec<Datagram>) {
        let udp = self.udp();
        let Some(udp) = &*udp else { return };
        for _ in 0..BATCH {
            let mut bytes = [0; ENVELOPE_LEN + ROOM];
            match udp.recv_from(&mut bytes) {
                Ok((len, from)) => out.push(self.datagram(from, &bytes[..len])),
                Err(error) if is_icmp(&error) => {}
                Err(_) => break,
            }
        }
    }

    /// Converts a received datagram. Behind a gateway, datagrams from elsewhere are ignored.
    fn datagram(&self, from: SocketAddr, came: &[u8]) -> Datagram {
        let Some((port, registered)) = &self.gateway else {
            let mut datagram = Datagram::new(from, self.local, false, came);
            datagram.opened = self.open(from, datagram.bytes());
            return datagram;
        };
        let registered = registered.lock().unwrap_or_else(PoisonError::into_inner);
        match registered.as_ref().and_then(|registered| registered.open(from, came)) {
            Some((sender, packet)) => {
                // The port at which every adapter of the network receives, not the one that this
                // one sends from.
                let reply_to = SocketAddr::new(sender.ip(), *port);
                Datagram { reply_to, ..Datagram::new(sender, self.local, true, packet) }
            }
            None => Datagram::new(from, self.local, false, &[]),
        }
    }

    fn open(&self, from: SocketAddr, came: &[u8]) -> Option<Result<Vec<u8>, Unopened>> {
        let mut seals = self.seals()?;
        let opened = seals.open(from, came);
        let is_known = seals.has_opened_from_host(from.ip());
        Some(opened.map_err(|refusal| Unopened { refusal, is_known }))
    }

    /// Returns pending ICMP errors, up to a batch. A socket that seals returns only those about
    /// what it has sent.
    pub(super) fn take_refused(&self) -> Vec<Refused> {
        let udp = self.udp();
        let Some(udp) = &*udp else { return Vec::new() };
        let mut refused = Vec::new();
        for _ in 0..BATCH {
            match take_error(udp.as_raw_fd()) {
                QueuedError::Empty => break,
                QueuedError::Other => {}
                QueuedError::Refused(one) => refused.push(one),
            }
        }
        let Some(seals) = self.seals() else { return refused };
        refused.retain_mut(|one| {
            one.is_proven = seals.has_sent(&one.bytes[..one.len], one.peer);
            one.is_proven
        });
        refused
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns whether a call failed because of an ICMP error for an earlier datagram.
fn is_icmp(error: &io::Error) -> bool {
    error.raw_os_error().is_some_and(softefa::is_icmp)
}

fn set(udp: &UdpSocket, level: c_int, option: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: an open socket, and a value of the length that is given.
    let code = unsafe {
        libc::setsockopt(
            udp.as_raw_fd(),
            level,
            option,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The result of reading the error queue.
#[expect(clippy::large_enum_variant, reason = "it lives for a moment, on the stack")]
enum QueuedError {
    /// The queue is empty.
    Empty,
    /// An entry that is not about a message of ours.
    Other,
    /// An ICMP error about a message of ours.
    Refused(Refused),
}

/// Takes the next entry of the error queue.
fn take_error(fd: RawFd) -> QueuedError {
    let mut bytes = [0_u8; ROOM];
    let mut control = [0_u64; 32];
    let mut to = SocketName::room();
    // SAFETY: zero is valid in each member.
    let mut message: libc::msghdr = unsafe { zeroed() };
    let mut piece = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: ROOM };
    message.msg_name = to.as_mut_ptr().cast();
    message.msg_namelen = to.socklen();
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = control.as_mut_ptr().cast();
    message.msg_controllen = size_of_val(&control);
    // SAFETY: everything that the message points to lives through the call and has the lengths
    // given.
    let len =
        unsafe { libc::recvmsg(fd, &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    let Ok(len) = usize::try_from(len) else { return QueuedError::Empty };
    let Some(error) = icmp_error_in(&message) else { return QueuedError::Other };
    let peer = to.get();
    QueuedError::Refused(Refused { peer, error, is_proven: false, bytes, len: len.min(ROOM) })
}

/// Returns the ICMP error of an entry.
fn icmp_error_in(message: &libc::msghdr) -> Option<IcmpError> {
    const ERROR_LEN: usize = offset_of!(libc::sock_extended_err, ee_data);
    // SAFETY: the kernel has filled the control buffer, which is aligned for its headers.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: null, or a header inside the buffer.
    while let Some(control) = unsafe { header.as_ref() } {
        let is_error = matches!(
            (control.cmsg_level, control.cmsg_type),
            (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR)
        );
        // SAFETY: the length of a header alone is a constant of the platform.
        let data_len = control.cmsg_len.saturating_sub(unsafe { libc::CMSG_LEN(0) } as usize);
        if is_error && data_len >= ERROR_LEN {
            // SAFETY: the data has the error's first members, which are numbers, at any alignment.
            let error: libc::sock_extended_err = unsafe {
                let mut error = zeroed::<libc::sock_extended_err>();
                let data = libc::CMSG_DATA(header);
                (&raw mut error).cast::<u8>().copy_from(data, ERROR_LEN);
                error
            };
            let is_icmp =
                matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
            return match c_int::try_from(error.ee_errno).ok().filter(|_| is_icmp)? {
                libc::ECONNREFUSED => Some(IcmpError::PortUnreachable),
                libc::EHOSTUNREACH | libc::ENETUNREACH => Some(IcmpError::NoRoute),
                _ => None,
            };
        }
        // SAFETY: as for the first header.
        header = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    None
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    const ANY: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

    /// Waits until `socket` is readable or has an error.
    fn wait(socket: &Socket) {
        let mut poll = libc::pollfd { fd: socket.fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one structure, as said.
        assert_eq!(unsafe { libc::poll(&raw mut poll, 1, 10_000) }, 1, "nothing came");
    }

    #[test]
    fn datagrams_arrive_with_their_addresses() {
        let (a, b) =
            (Socket::bind(ANY, None, None).unwrap(), Socket::bind(ANY, None, None).unwrap());
        assert_eq!(a.send(b.local(), b"hello"), SendResult::Sent);
        wait(&b);
        let mut came = Vec::new();
        b.receive(&mut came);
        let [datagram] = &came[..] else { panic!("{} datagrams", came.len()) };
        assert_eq!((datagram.from, datagram.to), (a.local(), b.local()));
        assert_eq!(datagram.bytes(), b"hello");
    }

    #[test]
    fn who_is_not_there_is_said_with_what_was_sent() {
        let (a, b) =
            (Socket::bind(ANY, None, None).unwrap(), Socket::bind(ANY, None, None).unwrap());
        let gone = b.local();
        b.close();
        assert!(!HIDDEN.has(b.fd()) || b.fd() != a.fd());
        let sent: [u8; PACKET_LEN] = std::array::from_fn(|i| i as u8);
        assert_eq!(a.send(gone, &sent), SendResult::Sent);
        wait(&a);
        let refused = a.take_refused();
        let [refused] = &refused[..] else { panic!("{} messages", refused.len()) };
        assert_eq!((refused.peer, refused.error), (gone, IcmpError::PortUnreachable));
        assert_eq!(refused.quote(), &sent[HEADERS_LEN..]);
    }

    /// A key-less socket must not take such noise for a sealed message.
    #[test]
    fn noise_that_begins_like_an_envelope_is_not_sealed() {
        let (from, to) = (SocketAddr::new(ANY.ip(), 40_000), SocketAddr::new(ANY.ip(), 7471));
        let envelope =
            Envelope { len: 320, src_qpn: 40_000, dst_qpn: 7471, session: 5, counter: 1 };
        let is_sealed = |envelope: Envelope, len: usize| {
            let mut bytes = vec![0; len];
            bytes[..envelope.emit().len()].copy_from_slice(&envelope.emit());
            Datagram::new(from, to, false, &bytes).packet().is_err()
        };
        assert!(is_sealed(envelope, 320));
        assert!(!is_sealed(envelope, 319));
        assert!(!is_sealed(Envelope { src_qpn: 40_001, ..envelope }, 320));
        assert!(!is_sealed(Envelope { dst_qpn: 7472, ..envelope }, 320));
    }

    #[test]
    fn a_port_is_free_as_soon_as_it_is_closed() {
        let socket = Socket::bind(ANY, None, None).unwrap();
        let local = socket.local();
        assert_eq!(Socket::bind(local, None, None).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        socket.close();
        assert!(Socket::bind(local, None, None).is_ok());
        let mut came = Vec::new();
        socket.receive(&mut came);
        assert!(came.is_empty() && socket.take_refused().is_empty());
        assert_eq!(socket.send(local, b""), SendResult::Lost);
    }
}
