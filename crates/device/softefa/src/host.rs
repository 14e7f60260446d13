//! What the engine must be told by its host: time and randomness. One clock read serves a turn.

use std::io;
use std::mem::size_of_val;
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
pub(crate) fn network_of(socket: impl AsFd) -> io::Result<u64> {
    let mut cookie = [0_u64];
    socket_option(socket, libc::SO_NETNS_COOKIE, &mut cookie)?;
    Ok(cookie[0])
}

/// Datagrams that came to a socket when its buffer was full, modulo 2^32. Linux tells them since
/// 4.12.
pub(crate) fn overruns_of(socket: impl AsFd) -> io::Result<u32> {
    let mut memory = [0_u32; libc::SK_MEMINFO_DROPS as usize + 1];
    socket_option(socket, libc::SO_MEMINFO, &mut memory)?;
    Ok(memory[libc::SK_MEMINFO_DROPS as usize])
}

/// Numbers that the kernel fills, whatever their bits are.
trait Number: Copy {}
impl Number for u32 {}
impl Number for u64 {}

#[allow(unsafe_code)]
fn socket_option<T: Number>(socket: impl AsFd, name: i32, value: &mut [T]) -> io::Result<()> {
    let mut len = libc::socklen_t::try_from(size_of_val(value)).map_err(io::Error::other)?;
    // SAFETY: `value` is valid for `len` bytes of writing, and any bits are numbers.
    let result = unsafe {
        libc::getsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            value.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
