//! Socket filters: programs by which the kernel drops what a socket is not to take.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

const LOAD_HEADER_LEN: u16 = 0xb1;
const LOAD_HALF_BEHIND_HEADER: u16 = 0x48;
const JUMP_IF_EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// More than any datagram has.
const WHOLE: u32 = 1 << 18;

/// Makes a socket take nothing in; its error queue is not affected.
///
/// # Errors
/// The operating system refuses the filter.
pub(crate) fn drop_all(socket: impl AsFd) -> io::Result<()> {
    attach(socket, &mut [step(RETURN, 0)])
}

/// Makes a raw IPv4 socket of UDP take only what is for this port.
///
/// # Errors
/// As of [`drop_all`].
pub(crate) fn take_port(socket: impl AsFd, port: u16) -> io::Result<()> {
    let otherwise = libc::sock_filter { jf: 1, ..step(JUMP_IF_EQUAL, port.into()) };
    attach(
        socket,
        &mut [
            step(LOAD_HEADER_LEN, 0),
            step(LOAD_HALF_BEHIND_HEADER, 2),
            otherwise,
            step(RETURN, WHOLE),
            step(RETURN, 0),
        ],
    )
}

fn step(code: u16, k: u32) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: 0, k }
}

fn attach(socket: impl AsFd, steps: &mut [libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(steps.len()).unwrap_or(u16::MAX);
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    // SAFETY: the program and its steps live through the call, which copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
