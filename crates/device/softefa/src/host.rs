//! What the engine must be told by its host: time and randomness. One clock read serves a turn.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

use srd::Instant;

/// Monotonic time of this host. It goes on while the machine is suspended: peers do not wait, and
/// forget who is silent for long (SRD-3.6).
#[allow(unsafe_code)]
pub(crate) fn now() -> Instant {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec; CLOCK_BOOTTIME exists since Linux 2.6.39.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut ts) };
    #[expect(clippy::cast_sign_loss, reason = "monotonic time is never negative")]
    Instant::from_ns(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// Nanoseconds of wall-clock time.
pub(crate) fn epoch_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Random bits from the operating system.
pub(crate) fn random_u64() -> u64 {
    u64::from_ne_bytes(random_bytes())
}

/// Random bytes from the operating system, at most 256; guessable where it has none.
pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    unguessable_bytes().unwrap_or_else(|_| {
        let mut raw = [0; N];
        // A kernel without getrandom: the address space layout and the clock are all there is.
        let weak = (&raw const raw as usize as u64).rotate_left(32) ^ epoch_ns();
        raw.iter_mut()
            .zip(weak.to_ne_bytes().iter().cycle())
            .for_each(|(byte, &bits)| *byte = bits);
        raw
    })
}

/// Random bytes from the operating system or none, at most 256.
#[allow(unsafe_code)]
pub(crate) fn unguessable_bytes<const N: usize>() -> io::Result<[u8; N]> {
    let mut raw = [0u8; N];
    loop {
        // SAFETY: `raw` is valid for its length of writing.
        let got = unsafe { libc::getrandom(raw.as_mut_ptr().cast(), raw.len(), 0) };
        if usize::try_from(got) == Ok(N) {
            return Ok(raw);
        }
        let error = io::Error::last_os_error();
        // Early after the start of the machine it waits, and may be interrupted.
        if got >= 0 || error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// The number of the network namespace of a socket, which no other ever has. Linux tells it since
/// 5.14.
#[allow(unsafe_code)]
pub(crate) fn network_of(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = 0_u64;
    let mut len = size_of::<u64>() as libc::socklen_t;
    // SAFETY: `cookie` and `len` are valid for writing, and `len` is the size of the former.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NETNS_COOKIE,
            (&raw mut cookie).cast(),
            &raw mut len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(cookie) }
}
