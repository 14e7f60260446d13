//! The system calls of the attacker: many datagrams at once, and another user.
#![allow(unsafe_code)]

use std::io;
use std::mem::{size_of, zeroed};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// The id of the user and the group that own nothing.
const NOBODY: u32 = 65_534;
/// Number of datagrams of one call.
pub(crate) const BATCH: usize = 64;

/// Datagrams that are to be sent.
#[derive(Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    /// The end of each datagram, and its destination port.
    ends: Vec<(usize, u16)>,
}

impl Batch {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(crate) fn push(&mut self, port: u16, datagram: &[u8]) {
        self.bytes.extend_from_slice(datagram);
        self.ends.push((self.bytes.len(), port));
    }
}

fn name(addr: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    // SAFETY: all-zero is a valid sockaddr_in.
    let mut name: libc::sockaddr_in = unsafe { zeroed() };
    name.sin_family = libc::AF_INET as libc::sa_family_t;
    name.sin_port = port.to_be();
    name.sin_addr.s_addr = u32::from_ne_bytes(addr.octets());
    name
}

/// Sends a batch to ports of `addr`, and returns how many were sent. Others are lost if the system
/// has no room for them.
pub(crate) fn send_batch(socket: &UdpSocket, addr: Ipv4Addr, batch: &Batch) -> usize {
    let mut start = 0;
    let mut names: Vec<libc::sockaddr_in> =
        batch.ends.iter().map(|(_, port)| name(addr, *port)).collect();
    let mut pieces: Vec<libc::iovec> = Vec::with_capacity(batch.len());
    for (end, _) in &batch.ends {
        let piece = &batch.bytes[start..*end];
        pieces.push(libc::iovec { iov_base: piece.as_ptr() as *mut _, iov_len: piece.len() });
        start = *end;
    }
    let message = |(name, piece): (&mut libc::sockaddr_in, &mut libc::iovec)| {
        // SAFETY: all-zero is a valid mmsghdr.
        let mut message: libc::mmsghdr = unsafe { zeroed() };
        message.msg_hdr.msg_name = (name as *mut libc::sockaddr_in).cast();
        message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_hdr.msg_iov = piece;
        message.msg_hdr.msg_iovlen = 1;
        message
    };
    let mut messages: Vec<_> = names.iter_mut().zip(&mut pieces).map(message).collect();
    // SAFETY: names, pieces and bytes outlive the call.
    let sent = unsafe {
        libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), messages.len() as libc::c_uint, 0)
    };
    usize::try_from(sent).unwrap_or(0)
}

/// Sends `bytes` as a train of datagrams of `segment` bytes; returns false if that is not possible.
pub(crate) fn send_train(
    socket: &UdpSocket,
    (addr, port): (Ipv4Addr, u16),
    bytes: &[u8],
    segment: u16,
) -> bool {
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut to = name(addr, port);
    let mut piece = libc::iovec { iov_base: bytes.as_ptr() as *mut _, iov_len: bytes.len() };
    let mut control = Control([0; 64]);
    // SAFETY: all that the message names outlives the call, and the control buffer has room for the
    // one entry that is written to it.
    unsafe {
        let mut message: libc::msghdr = zeroed();
        message.msg_name = (&raw mut to).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in>() as libc::socklen_t;
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = libc::CMSG_SPACE(2) as usize;
        let head = libc::CMSG_FIRSTHDR(&raw const message);
        (*head).cmsg_level = libc::SOL_UDP;
        (*head).cmsg_type = libc::UDP_SEGMENT;
        (*head).cmsg_len = libc::CMSG_LEN(2) as usize;
        libc::CMSG_DATA(head).cast::<u16>().write_unaligned(segment);
        libc::sendmsg(socket.as_raw_fd(), &raw const message, 0) >= 0
    }
}

/// Returns true if this process may become another user.
pub(crate) fn is_root() -> bool {
    // SAFETY: a plain call.
    unsafe { libc::geteuid() == 0 }
}

/// Becomes a user who owns nothing, irrevocably.
pub(crate) fn become_nobody() -> io::Result<()> {
    // SAFETY: plain calls; an empty list of groups is not read.
    let is_nobody = unsafe {
        libc::setgroups(0, std::ptr::null()) == 0
            && libc::setresgid(NOBODY, NOBODY, NOBODY) == 0
            && libc::setresuid(NOBODY, NOBODY, NOBODY) == 0
            && libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::setuid(0) != 0
    };
    if is_nobody { Ok(()) } else { Err(io::Error::last_os_error()) }
}
