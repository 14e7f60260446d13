//! The system calls of the wire.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use libc::c_int;

use crate::descriptor::with_descriptor;

/// Socket buffer asked for, each way; the kernel grants what `net.core.rmem_max` and `wmem_max`
/// allow.
pub const SOCKET_BUFFER_BYTES: c_int = 4 << 20;
/// Bytes kept of a datagram that a peer's kernel refused: enough for the headers of any transport.
pub(crate) const QUOTE_BYTES: usize = 320;

/// Start of a datagram of ours that came back as "port unreachable".
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quote {
    /// Where it was sent.
    pub(crate) to: Ipv4Addr,
    len: usize,
    bytes: [u8; QUOTE_BYTES],
}

impl Quote {
    /// What came back of it.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

pub(super) fn udp_socket() -> io::Result<OwnedFd> {
    with_descriptor(open_udp_socket)
}

fn open_udp_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: a plain call; the result is checked before it is owned.
    let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(super) fn set_int(
    socket: &OwnedFd,
    level: c_int,
    option: c_int,
    value: c_int,
) -> io::Result<()> {
    let len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: `value` lives through the call and has the length given.
    let result = unsafe {
        libc::setsockopt(socket.as_raw_fd(), level, option, (&raw const value).cast(), len)
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn set_option<T>(socket: &OwnedFd, option: c_int, value: &T) -> io::Result<()> {
    let len = size_of::<T>() as libc::socklen_t;
    // SAFETY: `value` lives through the call and has the length given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_IP,
            option,
            std::ptr::from_ref(value).cast(),
            len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn to_in_addr(addr: Ipv4Addr) -> libc::in_addr {
    libc::in_addr { s_addr: u32::from_ne_bytes(addr.octets()) }
}

/// From now on what is sent to `group` on the link of `local` comes to this socket.
pub(super) fn join_group(socket: &OwnedFd, group: Ipv4Addr, local: Ipv4Addr) -> io::Result<()> {
    let (group, local) = (to_in_addr(group), to_in_addr(local));
    let membership = libc::ip_mreq { imr_multiaddr: group, imr_interface: local };
    set_option(socket, libc::IP_ADD_MEMBERSHIP, &membership)
}

/// What this socket sends to groups goes to the link of `local`, whatever the routes say.
pub(super) fn send_to_groups_from(socket: &OwnedFd, local: Ipv4Addr) -> io::Result<()> {
    set_option(socket, libc::IP_MULTICAST_IF, &to_in_addr(local))
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

pub(super) fn bind(socket: &OwnedFd, at: SocketAddrV4) -> io::Result<()> {
    let name = to_sockaddr(at);
    let len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: `name` is a valid sockaddr_in of the length given.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), len) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn to_sockaddr(at: SocketAddrV4) -> libc::sockaddr_in {
    // SAFETY: all-zero is a valid sockaddr_in.
    let mut name: libc::sockaddr_in = unsafe { zeroed() };
    name.sin_family = libc::AF_INET as libc::sa_family_t;
    name.sin_port = at.port().to_be();
    name.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
    name
}

pub(super) fn from_sockaddr(name: &libc::sockaddr_in) -> SocketAddrV4 {
    SocketAddrV4::new(
        Ipv4Addr::from(name.sin_addr.s_addr.to_ne_bytes()),
        u16::from_be(name.sin_port),
    )
}

/// Control buffer, aligned for `cmsghdr`; room for what we ask the kernel for.
#[repr(C, align(8))]
struct Control([u8; 256]);

/// Sends one datagram that lies in one piece. `sendto`, for the same reason as in
/// [`receive_train`].
pub(super) fn send_datagram(fd: RawFd, to: SocketAddrV4, piece: &libc::iovec) -> io::Result<()> {
    let name = to_sockaddr(to);
    let name_len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: every pointer outlives the call; the piece as in `send_message`.
    let sent = unsafe {
        sendto(
            fd,
            piece.iov_base,
            piece.iov_len,
            libc::MSG_NOSIGNAL,
            (&raw const name).cast(),
            name_len,
        )
    };
    if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

pub(super) fn send_message(
    fd: RawFd,
    to: SocketAddrV4,
    iovecs: &mut [libc::iovec],
    segment: Option<usize>,
) -> io::Result<()> {
    let mut name = to_sockaddr(to);
    let mut control = Control([0; 256]);
    // SAFETY: every pointer in `message` outlives the call. The iovecs name arena bytes and
    // registered memory; a program that unmapped the latter gets EFAULT, not a fault.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
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
    /// Bytes of all of them.
    pub(super) len: usize,
    pub(super) from: SocketAddrV4,
    /// Bytes of each, when the kernel was asked.
    pub(super) segment: Option<usize>,
}

/// Receives a train of datagrams. Not `recvmsg`: copying its descriptors in costs a tenth of a
/// ping-pong, and what the kernel would say of the segment size the datagrams say themselves
/// (SRD-2.9).
pub(super) fn receive_train(fd: RawFd, buffer: &mut [u8]) -> Option<Train> {
    // SAFETY: all-zero is a valid sockaddr_in.
    let mut name: libc::sockaddr_in = unsafe { zeroed() };
    let mut name_len = size_of::<libc::sockaddr_in>() as libc::socklen_t;
    // SAFETY: every pointer outlives the call and has the length given.
    let got = unsafe {
        recvfrom(
            fd,
            buffer.as_mut_ptr().cast(),
            buffer.len(),
            libc::MSG_DONTWAIT,
            (&raw mut name).cast(),
            &raw mut name_len,
        )
    };
    Some(Train { len: usize::try_from(got).ok()?, from: from_sockaddr(&name), segment: None })
}

/// As [`receive_train`], and asks the kernel where the datagrams end, for those that do not say it.
pub(super) fn receive_segmented(fd: RawFd, buffer: &mut [u8]) -> Option<Train> {
    let mut control = Control([0; 256]);
    // SAFETY: every pointer in `message` outlives the call and has the length given; the kernel
    // leaves valid control messages, of which only those with an int are read.
    unsafe {
        let mut name: libc::sockaddr_in = zeroed();
        let mut piece = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
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
        Some(Train { len, from: from_sockaddr(&name), segment: Some(segment) })
    }
}

/// One entry of a socket's error queue, and whether it says "nobody listens there".
pub(super) fn read_error(fd: RawFd) -> Option<(Quote, bool)> {
    let mut quote = Quote { to: Ipv4Addr::UNSPECIFIED, len: 0, bytes: [0; QUOTE_BYTES] };
    let mut iovec = libc::iovec { iov_base: quote.bytes.as_mut_ptr().cast(), iov_len: QUOTE_BYTES };
    let mut control = Control([0; 256]);
    let mut refused = false;
    // SAFETY: as in `receive_message`.
    unsafe {
        let mut name: libc::sockaddr_in = zeroed();
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut name).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_iov = &raw mut iovec;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = control.0.len();
        let got = recvmsg(fd, &raw mut message, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT);
        quote.len = usize::try_from(got).ok()?.min(QUOTE_BYTES);
        quote.to = *from_sockaddr(&name).ip();
        let mut head = libc::CMSG_FIRSTHDR(&raw const message);
        while !head.is_null() {
            if (*head).cmsg_level == libc::SOL_IP && (*head).cmsg_type == libc::IP_RECVERR {
                let error =
                    libc::CMSG_DATA(head).cast::<libc::sock_extended_err>().read_unaligned();
                refused |= error.ee_errno == libc::ECONNREFUSED as u32;
            }
            head = libc::CMSG_NXTHDR(&raw const message, head);
        }
    }
    Some((quote, refused))
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
