//! What the engine must be told by its host: time and randomness. One clock read serves a turn.

use std::io;

use rustix::process::{Resource, getrlimit, setrlimit};
use srd::Instant;

use crate::service;

/// Monotonic time of this host.
#[allow(unsafe_code)]
pub(crate) fn now() -> Instant {
    let mut ts = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `ts` is a valid timespec; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut ts) };
    #[expect(clippy::cast_sign_loss, reason = "monotonic time is never negative")]
    Instant::from_ns(ts.tv_sec as u64 * 1_000_000_000 + ts.tv_nsec as u64)
}

/// Nanoseconds of wall-clock time: orders incarnations of a queue pair number.
pub(crate) fn epoch_ns() -> u64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| u64::try_from(d.as_nanos()).unwrap_or(u64::MAX))
}

/// Random bits from the operating system.
#[allow(unsafe_code)]
pub(crate) fn random_u64() -> u64 {
    let mut raw = [0u8; 8];
    // SAFETY: `raw` is valid for 8 bytes of writing.
    let got = unsafe { libc::getrandom(raw.as_mut_ptr().cast(), raw.len(), 0) };
    if got == 8 {
        return u64::from_ne_bytes(raw);
    }
    // A kernel without getrandom: the address space layout and the clock are all there is.
    (&raw const raw as usize as u64).rotate_left(32) ^ epoch_ns()
}

/// Runs `open`, which needs a file descriptor. When the process has none left, gives up those of
/// destroyed queue pairs, then raises its soft limit as far as that takes and is allowed. Not
/// before: a program that waits with `select` cannot use descriptors above 1,023, and every queue
/// pair is one.
pub(crate) fn with_descriptor<T>(mut open: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let make_room = || service::give_up_lingering() || raise_limit();
    loop {
        match open() {
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) && make_room() => {}
            result => return result,
        }
    }
}

/// Doubles the soft limit of open files; `false` when the hard limit is reached.
fn raise_limit() -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    let (Some(soft), hard) = (limit.current, limit.maximum.unwrap_or(u64::MAX)) else {
        return false;
    };
    let raised = soft.saturating_mul(2).max(64).min(hard);
    limit.current = Some(raised);
    raised > soft && setrlimit(Resource::Nofile, limit).is_ok()
}
