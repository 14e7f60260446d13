//! UDP sockets on loopback, and cores to run on.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

use anyhow::{Context, Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Two connected non-blocking sockets.
pub(super) fn pair() -> Result<[UdpSocket; 2]> {
    let open = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).context("cannot open a UDP socket");
    let sockets = [open()?, open()?];
    for (socket, other) in [(&sockets[0], &sockets[1]), (&sockets[1], &sockets[0])] {
        socket.connect(other.local_addr()?)?;
        socket.set_nonblocking(true)?;
    }
    Ok(sockets)
}

/// The kernel cuts every send into datagrams of `bytes` (generic segmentation offload).
pub(super) fn segment(socket: &UdpSocket, bytes: usize) -> Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_SEGMENT, bytes).context("the kernel has no UDP GSO")
}

/// The kernel joins datagrams of equal size into one receive (generic receive offload).
pub(super) fn coalesce(socket: &UdpSocket) -> Result<()> {
    set(socket, libc::SOL_UDP, libc::UDP_GRO, 1).context("the kernel has no UDP GRO")
}

/// Asks for room for `bytes` of arrived datagrams; the kernel may give less.
pub(super) fn receive_room(socket: &UdpSocket, bytes: usize) -> Result<()> {
    set(socket, libc::SOL_SOCKET, libc::SO_RCVBUF, bytes).context("cannot size a socket buffer")
}

#[expect(unsafe_code, reason = "std has no setter for these options")]
fn set(socket: &UdpSocket, level: libc::c_int, name: libc::c_int, value: usize) -> io::Result<()> {
    let value = libc::c_int::try_from(value).map_err(io::Error::other)?;
    // SAFETY: the descriptor is open for the life of `socket`, and the kernel reads exactly the
    // given length from a live local integer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of_val(&value) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Two cores this process may use.
pub(super) fn two_cores() -> Result<[usize; 2]> {
    let allowed = sched_getaffinity(None).context("cannot read the allowed cores")?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core));
    let two = cores.next().zip(cores.next());
    ensure!(two.is_some(), "two cores are needed: one per side");
    let (first, second) = two.unwrap_or_default();
    Ok([first, second])
}

/// Keeps the calling thread on `core`.
pub(super) fn pin(core: usize) -> Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).with_context(|| format!("cannot run on core {core}"))
}

/// Whether a non-blocking call only found nothing to do. A full receive buffer on loopback and an
/// interrupted call count as that, too.
pub(super) fn is_idle(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, WouldBlock};
    matches!(error.kind(), WouldBlock | Interrupted) || error.raw_os_error() == Some(libc::ENOBUFS)
}
