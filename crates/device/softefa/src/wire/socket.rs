//! The system calls of the UDP wire.
#![allow(unsafe_code)]

use std::io;
use std::mem::zeroed;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_int, c_uint};

use super::name::{SocketName, to_in_addr, to_in6_addr};
use crate::address::NOWHERE;
use crate::descriptor::with_descriptor;
use crate::interface;

/// The requested size of each socket buffer. The kernel grants what `net.core.rmem_max` and
/// `wmem_max` allow.
pub const SOCKET_BUFFER_BYTES: c_int = 4 << 20;
/// The bytes that are kept of a datagram that a peer's kernel refused: enough for the headers of
/// any transport.
pub(crate) const QUOTE_BYTES: usize = 320;

/// The start of a datagram of ours that came back as "port unreachable".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    /// Its destination.
    pub(crate) to: IpAddr,
    len: usize,
    bytes: [u8; QUOTE_BYTES],
}

impl Quote {
    /// The bytes that came back.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// An option of sockets that IPv4 and IPv6 number differently.
#[derive(Debug, Clone, Copy)]
pub(super) struct IpOption {
    v4: c_int,
    v6: c_int,
}

impl IpOption {
    /// Makes the network's refusals appear in the error queue.
    pub(super) const RECVERR: Self = Self { v4: libc::IP_RECVERR, v6: libc::IPV6_RECVERR };
    pub(super) const MTU_DISCOVER: Self =
        Self { v4: libc::IP_MTU_DISCOVER, v6: libc::IPV6_MTU_DISCOVER };
    pub(super) const MULTICAST_HOPS: Self =
        Self { v4: libc::IP_MULTICAST_TTL, v6: libc::IPV6_MULTICAST_HOPS };
    pub(super) const MULTICAST_ALL: Self =
        Self { v4: libc::IP_MULTICAST_ALL, v6: libc::IPV6_MULTICAST_ALL };

    fn of(self, family: IpAddr) -> (c_int, c_int) {
        match family {
            IpAddr::V4(_) => (libc::SOL_IP, self.v4),
            IpAddr::V6(_) => (libc::SOL_IPV6, self.v6),
        }
    }
}

/// A UDP socket of the family of `addr`, bound to nothing.
pub(super) fn udp_socket(addr: IpAddr) -> io::Result<OwnedFd> {
    with_descriptor(|| open_udp_socket(addr))
}

fn open_udp_socket(addr: IpAddr) -> io::Result<OwnedFd> {
    let family = if addr.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain call; the result is checked before it is owned.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets an option of a socket of the family of `addr`.
pub(super) fn set_ip(
    socket: &OwnedFd,
    addr: IpAddr,
    option: IpOption,
    value: c_int,
) -> io::Result<()> {
    let (level, option) = option.of(addr);
    set_int(socket, level, option, value)
}

/// Forbids fragmentation: a datagram is at most as long as the link carries.
pub(super) fn never_fragment(socket: &OwnedFd, addr: IpAddr) -> io::Result<()> {
    // Both families give it the number 2.
    set_ip(socket, addr, IpOption::MTU_DISCOVER, libc::IP_PMTUDISC_DO)
}

pub(super) fn set_int(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    set_option(socket, level, option, &value)
}

fn set_option<T>(socket: &OwnedFd, level: c_int, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    let value = std::ptr::from_ref(value).cast();
    // SAFETY: `value` lives through the call and has the length given.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A link, as options about groups name it: by an address, or by the number of its interface.
#[derive(Debug, Clone, Copy)]
pub(super) enum Link {
    V4(Ipv4Addr),
    V6(c_uint),
}

impl Link {
    /// The link of the interface that owns `local`.
    pub(super) fn of(local: IpAddr) -> io::Result<Self> {
        match local {
            IpAddr::V4(local) => Ok(Self::V4(local)),
            IpAddr::V6(_) => {
                let owner = interface::of(local).ok_or(io::ErrorKind::AddrNotAvailable)?;
                Ok(Self::V6(owner.index))
            }
        }
    }
}

/// Makes the socket receive what is sent to `group` on the link.
pub(super) fn join_group(socket: &OwnedFd, group: IpAddr, link: Link) -> io::Result<()> {
    match (group, link) {
        (IpAddr::V4(group), Link::V4(local)) => {
            let (imr_multiaddr, imr_interface) = (to_in_addr(group), to_in_addr(local));
            let membership = libc::ip_mreq { imr_multiaddr, imr_interface };
            set_option(socket, libc::SOL_IP, libc::IP_ADD_MEMBERSHIP, &membership)
        }
        (IpAddr::V6(group), Link::V6(ipv6mr_interface)) => {
            let membership =
                libc::ipv6_mreq { ipv6mr_multiaddr: to_in6_addr(group), ipv6mr_interface };
            set_option(socket, libc::SOL_IPV6, libc::IPV6_ADD_MEMBERSHIP, &membership)
        }
        (IpAddr::V4(_), Link::V6(_)) | (IpAddr::V6(_), Link::V4(_)) => {
            Err(io::ErrorKind::AddrNotAvailable.into())
        }
    }
}

/// Sends this socket's datagrams to groups on the link, whatever the routes say.
pub(super) fn send_to_groups_from(socket: &OwnedFd, link: Link) -> io::Result<()> {
    match link {
        Link::V4(local) => {
            set_option(socket, libc::SOL_IP, libc::IP_MULTICAST_IF, &to_in_addr(local))
        }
        Link::V6(index) => set_option(socket, libc::SOL_IPV6, libc::IPV6_MULTICAST_IF, &index),
    }
}

pub(super) fn get_int(socket: &OwnedFd, level: c_int, option: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: value and len are valid for writing and of the size getsockopt expects.
    let result = unsafe {
        libc::getsockopt(socket.as_raw_fd(), level, option, (&raw mut value).cast(), &raw mut len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(value) }
}

pub(super) fn bind(socket: &OwnedFd, at: SocketAddr) -> io::Result<()> {
    let name = SocketName::of(at);
    // SAFETY: `name` is a socket address of the length given.
    let result = unsafe { libc::bind(socket.as_raw_fd(), name.as_ptr(), name.socklen()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// A control buffer, aligned for `cmsghdr`, with room for the requested messages.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// Sends one datagram that lies in one piece, with `sendto` for the same reason as in
/// [`receive_train`].
pub(super) fn send_datagram(fd: RawFd, to: SocketAddr, piece: &libc::iovec) -> io::Result<()> {
    let name = SocketName::of(to);
    // SAFETY: every pointer outlives the call; the piece as in `send_message`.
    let sent = unsafe {
        sendto(fd, piece.iov_base, piece.iov_len, libc::MSG_NOSIGNAL, name.as_ptr(), name.socklen())
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn send_message(
    fd: RawFd,
    to: SocketAddr,
    iovecs: &mut [libc::iovec],
    segment: Option<usize>,
) -> io::Result<()> {
    let mut name = SocketName::of(to);
    let mut control = Control([0; 256]);
    // SAFETY: every pointer in `message` outlives the call. The iovecs name arena bytes and
    // registered memory; a program that unmapped the latter gets EFAULT, not a fault.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.socklen();
        message.msg_iov = iovecs.as_mut_ptr();
        message.msg_iovlen = iovecs.len();
        if let Some(segment) = segment {
            message.msg_control = control.0.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(2) as usize;
            let head = libc::CMSG_FIRSTHDR(&raw const message);
            (*head).cmsg_level = libc::SOL_UDP;
            (*head).cmsg_type = libc::UDP_SEGMENT;
            (*head).cmsg_len = libc::CMSG_LEN(2) as usize;
            libc::CMSG_DATA(head).cast::<u16>().write_unaligned(segment as u16);
        }
        if sendmsg(fd, &raw const message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// A train of datagrams in the buffer it was received into.
#[derive(Debug, Clone, Copy)]
pub(super) struct Train {
    /// The bytes of all datagrams.
    pub(super) len: usize,
    pub(super) from: SocketAddr,
    /// The bytes of each datagram, if the kernel was asked.
    pub(super) segment: Option<usize>,
}

/// Receives a train of datagrams. It does not use `recvmsg`: copying the descriptors in costs a
/// tenth of a ping-pong, and the datagrams themselves tell the segment size (SRD-2.9).
pub(super) fn receive_train(fd: RawFd, buffer: &mut [u8]) -> Option<Train> {
    let mut name = SocketName::room();
    // SAFETY: every pointer outlives the call and has the length given.
    let got = unsafe {
        recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            name.as_mut_ptr(),
            name.socklen_mut(),
        )
    };
    Some(Train { len: usize::try_from(got).ok()?, from: name.get(), segment: None })
}

/// Does the same as [`receive_train`], and asks the kernel where the datagrams end, for formats
/// that do not tell it.
pub(super) fn receive_segmented(fd: RawFd, buffer: &mut [u8]) -> Option<Train> {
    let mut control = Control([0; 256]);
    // SAFETY: every pointer in `message` outlives the call and has the length given; the kernel
    // leaves valid control messages, of which only those with an int are read.
    unsafe {
        let mut name = SocketName::room();
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut message: libc::msghdr = zeroed();
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.socklen();
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<c_int>() as u32) as usize;
        let got = recvmsg(fd, &raw mut message, libc::MSG_DONTWAIT);
        let len = usize::try_from(got).ok()?;
        let mut segment = len;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        if !head.is_null()
            && (*head).cmsg_level == libc::SOL_UDP
            && (*head).cmsg_type == libc::UDP_GRO
        {
            let told = libc::CMSG_DATA(head).cast::<c_int>().read_unaligned();
            segment = usize::try_from(told).unwrap_or(len);
        }
        Some(Train { len, from: name.get(), segment: Some(segment) })
    }
}

/// Returns true if a call that fails with `errno` may have failed because of an ICMP message for an
/// earlier datagram (the kernel's `icmp_err_convert` and `icmpv6_err_convert`): then its own has
/// not been tried.
#[must_use]
pub fn is_icmp(errno: c_int) -> bool {
    matches!(
        errno,
        libc::ECONNREFUSED
            | libc::EHOSTUNREACH
            | libc::ENETUNREACH
            | libc::EHOSTDOWN
            | libc::ENONET
            | libc::EACCES
            | libc::EPROTO
            | libc::ENOPROTOOPT
            | libc::EOPNOTSUPP
            | libc::EMSGSIZE
    )
}

/// An entry of a socket's error queue.
pub(super) struct QueuedError {
    /// The start of the datagram that it is about.
    pub(super) quote: Quote,
    /// It is an ICMP message, not an error of this machine for a datagram that was not sent.
    pub(super) is_icmp: bool,
    /// It says that the port is unreachable.
    pub(super) is_refusal: bool,
}

/// Takes the next entry of a socket's error queue.
pub(super) fn read_error(fd: RawFd) -> Option<QueuedError> {
    let mut quote = Quote { to: NOWHERE, len: 0, bytes: [0; QUOTE_BYTES] };
    let mut iovec = libc::iovec { iov_base: quote.bytes.as_mut_ptr().cast(), iov_len: QUOTE_BYTES };
    let mut control = Control([0; 256]);
    let (mut is_icmp, mut is_refusal) = (false, false);
    // SAFETY: as in `receive_segmented`.
    unsafe {
        let mut name = SocketName::room();
        let mut message: libc::msghdr = zeroed();
        message.msg_name = name.as_mut_ptr().cast();
        message.msg_namelen = name.socklen();
        message.msg_iov = &raw mut iovec;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        let got = recvmsg(fd, &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
        quote.len = usize::try_from(got).ok()?.min(QUOTE_BYTES);
        quote.to = name.get().ip();
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if matches!(
                ((*head).cmsg_level, (*head).cmsg_type),
                (libc::SOL_IP, libc::IP_RECVERR) | (libc::SOL_IPV6, libc::IPV6_RECVERR)
            ) {
                let error =
                    libc::CMSG_DATA(head).cast::<libc::sock_extended_err>().read_unaligned();
                is_icmp |=
                    matches!(error.ee_origin, libc::SO_EE_ORIGIN_ICMP | libc::SO_EE_ORIGIN_ICMP6);
                is_refusal |= error.ee_errno == libc::ECONNREFUSED as u32;
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Some(QueuedError { quote, is_icmp, is_refusal })
}

// Not the C library's: those are cancellation points, and a thread that is cancelled in the midst
// of a turn would keep the lock of its queue pair. Each is as the system call of its name.

unsafe fn sendto(
    fd: RawFd,
    bytes: *const libc::c_void,
    len: usize,
    flags: c_int,
    to: *const libc::sockaddr,
    to_len: libc::socklen_t,
) -> libc::c_long {
    // SAFETY: as the caller says.
    unsafe { libc::syscall(libc::SYS_sendto, fd, bytes, len, flags, to, to_len) }
}

unsafe fn sendmsg(fd: RawFd, message: *const libc::msghdr, flags: c_int) -> libc::c_long {
    // SAFETY: as the caller says.
    unsafe { libc::syscall(libc::SYS_sendmsg, fd, message, flags) }
}

unsafe fn recvfrom(
    fd: RawFd,
    bytes: *mut libc::c_void,
    len: usize,
    flags: c_int,
    from: *mut libc::sockaddr,
    from_len: *mut libc::socklen_t,
) -> libc::c_long {
    // SAFETY: as the caller says.
    unsafe { libc::syscall(libc::SYS_recvfrom, fd, bytes, len, flags, from, from_len) }
}

unsafe fn recvmsg(fd: RawFd, message: *mut libc::msghdr, flags: c_int) -> libc::c_long {
    // SAFETY: as the caller says.
    unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) }
}
