//! The boundary that no panic crosses, because unwinding into a C caller is undefined behaviour. A
//! cancellation ([`Uncancelled`]) also waits until the call returns.
//!
//! Calls other than posts and polls first release the datagrams that wait for those
//! ([`release_held`]): the program may start something long.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use softefa::{Uncancelled, release_held};

use crate::errno::Errno;
use crate::inside::Inside;

/// Wraps functions that return 0 or an errno value. It is stored in `errno`, too, as by the system
/// call of a driver: programs print or return that.
pub(crate) fn code(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    let _uncancelled = Uncancelled::begin();
    let code = code_or(Errno::EDEADLK, after_release(body));
    if code != 0 {
        Errno(code).store();
    }
    code
}

/// Like [`code`], for functions that are called often; the adapter puts cancellations off where it
/// makes system calls. `nested` is returned to a signal handler that interrupted a call.
pub(crate) fn code_or(nested: Errno, body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guarded(Err(nested), body) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// Wraps functions that return a pointer, or null with `errno` set.
pub(crate) fn pointer<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    let _uncancelled = Uncancelled::begin();
    guarded(Err(Errno::EDEADLK), after_release(body)).unwrap_or_else(|errno| {
        errno.store();
        ptr::null_mut()
    })
}

/// Wraps functions that return a count, or -1 with `errno` set.
pub(crate) fn count(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    let _uncancelled = Uncancelled::begin();
    count_or(Err(Errno::EDEADLK), after_release(body))
}

/// Like [`code_or`], for counts.
pub(crate) fn count_or(
    nested: Result<c_int, Errno>,
    body: impl FnOnce() -> Result<c_int, Errno>,
) -> c_int {
    guarded(nested, body).unwrap_or_else(|errno| {
        errno.store();
        -1
    })
}

/// Wraps functions that cannot report an error: they return `fallback` instead. They make no system
/// call that is a cancellation point.
pub(crate) fn value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// Runs `body` after everything that waits for a post or a poll has left.
fn after_release<T>(body: impl FnOnce() -> T) -> impl FnOnce() -> T {
    || {
        release_held();
        body()
    }
}

/// Catches panics. The state after a panic may be inconsistent, so the caller gets `EIO`, as when
/// the device fails.
fn guarded<T>(
    nested: Result<T, Errno>,
    body: impl FnOnce() -> Result<T, Errno>,
) -> Result<T, Errno> {
    let Some(_inside) = Inside::enter() else { return nested };
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error() {
        assert_eq!(code(|| panic!("boom")), libc::EIO);
        assert_eq!(Errno::last(), Errno::EIO);
        Errno::ENOENT.store();
        assert_eq!(count(|| panic!("boom")), -1);
        assert!(pointer::<u8>(|| panic!("boom")).is_null());
        assert_eq!(Errno::last(), Errno::EIO);
        assert_eq!(value(7, || panic!("boom")), 7);
        assert_eq!(code(|| Ok(())), 0, "not inside any more");
    }

    #[test]
    fn a_call_in_the_midst_of_a_call_is_refused() {
        let inner = || code(|| panic!("not reached"));
        assert_eq!(count(|| Ok(inner())), libc::EDEADLK);
        assert_eq!(code(|| Err(Errno(code_or(Errno::ENOENT, || Ok(()))))), libc::ENOENT);
        assert_eq!(count(|| Ok(count_or(Ok(0), || Ok(7)))), 0);
    }
}
