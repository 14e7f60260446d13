//! The boundary no panic crosses: unwinding into a C caller would be undefined.

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;

use crate::errno::Errno;

/// For functions that return 0 or an errno value.
pub(crate) fn code(body: impl FnOnce() -> Result<(), Errno>) -> c_int {
    match guarded(body) {
        Ok(()) => 0,
        Err(errno) => errno.0,
    }
}

/// For functions that return a pointer, or null with `errno` set.
pub(crate) fn pointer<T>(body: impl FnOnce() -> Result<*mut T, Errno>) -> *mut T {
    guarded(body).unwrap_or_else(|errno| {
        errno.store();
        ptr::null_mut()
    })
}

/// For functions that return a count, or -1 with `errno` set.
pub(crate) fn count(body: impl FnOnce() -> Result<c_int, Errno>) -> c_int {
    guarded(body).unwrap_or_else(|errno| {
        errno.store();
        -1
    })
}

/// For functions that cannot report an error: `fallback` stands in for one.
pub(crate) fn value<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(fallback)
}

/// The state behind a panic may be inconsistent, so the caller hears `EIO`, the device's failure.
fn guarded<T>(body: impl FnOnce() -> Result<T, Errno>) -> Result<T, Errno> {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(Err(Errno::EIO))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn panic_becomes_an_error() {
        assert_eq!(code(|| panic!("boom")), libc::EIO);
        assert_eq!(count(|| panic!("boom")), -1);
        assert!(pointer::<u8>(|| panic!("boom")).is_null());
        assert_eq!(Errno::last(), Errno::EIO);
        assert_eq!(value(7, || panic!("boom")), 7);
    }
}
