//! The multicast groups of a queue pair: a socket for each, in addition to the one of its number
//! (RC-10.3).
//!
//! The kernel knows the members of a group: each of their sockets gets a copy of what is sent to
//! the group on the link of its device. A membership ends with its process.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use super::socket::{
    IpOption, Link, SOCKET_BUFFER_BYTES, Train, bind, join_group, receive_train, set_int, set_ip,
    udp_socket,
};
use super::tap::Tap;
use crate::numbering::GROUP_PORT;

/// The longest datagram.
const BUFFER_BYTES: usize = 1 << 16;

#[derive(Debug)]
struct Group {
    addr: IpAddr,
    socket: OwnedFd,
}

/// A datagram to a group.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForGroup {
    pub(crate) group: IpAddr,
    pub(crate) from: SocketAddr,
    /// The number of its bytes.
    pub(crate) len: usize,
}

/// The groups that a queue pair is a member of.
#[derive(Debug)]
pub(crate) struct Groups {
    local: IpAddr,
    tap: Tap,
    joined: Vec<Group>,
    /// The group that is read first, so that none has to wait for another.
    next: usize,
    buffer: Box<[u8]>,
}

impl Groups {
    /// Makes the state without groups, for a queue pair at `local`.
    pub(crate) fn new(local: IpAddr, tap: Tap) -> Self {
        Self { local, tap, joined: Vec::new(), next: 0, buffer: Box::default() }
    }

    pub(crate) fn contains(&self, group: IpAddr) -> bool {
        self.joined.iter().any(|joined| joined.addr == group)
    }

    pub(crate) fn addrs(&self) -> impl Iterator<Item = IpAddr> {
        self.joined.iter().map(|joined| joined.addr)
    }

    /// Joins a group; returns the socket that is readable when a datagram has come.
    pub(crate) fn join(&mut self, group: IpAddr) -> io::Result<RawFd> {
        let socket = group_socket(self.local, group)?;
        let fd = socket.as_raw_fd();
        if self.buffer.is_empty() {
            self.buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        }
        self.joined.push(Group { addr: group, socket });
        Ok(fd)
    }

    /// Leaves a group, and returns its socket, whose closing ends the membership; `None` if it was
    /// no member.
    pub(crate) fn leave(&mut self, group: IpAddr) -> Option<OwnedFd> {
        let at = self.joined.iter().position(|joined| joined.addr == group)?;
        Some(self.joined.swap_remove(at).socket)
    }

    /// Takes out the receive buffer, which must be given back: the caller fills it while the rest
    /// stays here.
    pub(crate) fn take_buffer(&mut self) -> Box<[u8]> {
        std::mem::take(&mut self.buffer)
    }

    pub(crate) fn return_buffer(&mut self, buffer: Box<[u8]>) {
        self.buffer = buffer;
    }

    /// Takes the next datagram into `buffer`; `None` when nothing has come to any group.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> Option<ForGroup> {
        for _ in 0..self.joined.len() {
            self.next = (self.next + 1) % self.joined.len();
            let Group { addr: group, socket } = &self.joined[self.next];
            let Some(Train { len, from, .. }) = receive_train(socket.as_raw_fd(), buffer) else {
                continue;
            };
            if self.tap.is_on() {
                let to = SocketAddr::new(*group, GROUP_PORT);
                self.tap.received_at(to, from, &buffer[..len]);
            }
            return Some(ForGroup { group: *group, from, len });
        }
        None
    }
}

/// Opens a socket of the group, which receives what is sent to it on the link of `local` only.
fn group_socket(local: IpAddr, group: IpAddr) -> io::Result<OwnedFd> {
    let socket = udp_socket(group)?;
    // Every member binds the same port.
    set_int(&socket, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1)?;
    // Not what other sockets of this machine have joined on other links.
    set_ip(&socket, group, IpOption::MULTICAST_ALL, 0)?;
    if set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, SOCKET_BUFFER_BYTES).is_err() {
        set_int(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_BUFFER_BYTES)?;
    }
    bind(&socket, SocketAddr::new(group, GROUP_PORT))?;
    join_group(&socket, group, Link::of(local)?)?;
    Ok(socket)
}
