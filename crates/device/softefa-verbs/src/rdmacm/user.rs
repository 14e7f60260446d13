//! Memory of the calling program, at addresses that its commands name.
//!
//! A kernel returns `EFAULT` where nothing is mapped. Here the kernel copies, too, so that an
//! invalid address does no harm: a process may always read and write its own memory. Where that is
//! forbidden (old filters of containers), addresses are trusted.

use std::io;

type Copy = unsafe extern "C" fn(
    libc::pid_t,
    *const libc::iovec,
    libc::c_ulong,
    *const libc::iovec,
    libc::c_ulong,
    libc::c_ulong,
) -> isize;

/// The result of a copy by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Copied {
    All,
    Fault,
    /// The kernel does not permit it.
    Refused,
}

fn by_kernel(copy: Copy, ours: *mut u8, theirs: u64, len: usize) -> Copied {
    let ours = libc::iovec { iov_base: ours.cast(), iov_len: len };
    let theirs = libc::iovec { iov_base: theirs as usize as *mut _, iov_len: len };
    // SAFETY: our side is `len` bytes that the caller has; the kernel checks the other side.
    let done = unsafe { copy(libc::getpid(), &raw const ours, 1, &raw const theirs, 1, 0) };
    match usize::try_from(done) {
        Ok(done) if done == len => Copied::All,
        Ok(_) => Copied::Fault,
        Err(_) => match io::Error::last_os_error().raw_os_error() {
            Some(libc::EPERM | libc::ENOSYS | libc::EACCES) => Copied::Refused,
            _ => Copied::Fault,
        },
    }
}

/// Returns whether the range is in the address space of programs.
fn is_within(at: u64, len: usize) -> bool {
    at != 0 && at.checked_add(len as u64).is_some_and(|end| isize::try_from(end).is_ok())
}

/// Fills `out` from `at`; `false` when that is not mapped, and `out` may then hold anything.
pub(super) fn copy_in(at: u64, out: &mut [u8]) -> bool {
    if out.is_empty() {
        return true;
    }
    if !is_within(at, out.len()) {
        return false;
    }
    match by_kernel(libc::process_vm_readv, out.as_mut_ptr(), at, out.len()) {
        Copied::All => true,
        Copied::Fault => false,
        Copied::Refused => {
            // SAFETY: trusted, as this module says; `out` has the room and is nobody else's.
            unsafe { out.as_mut_ptr().copy_from(at as usize as *const u8, out.len()) };
            true
        }
    }
}

/// Writes `bytes` to `at`; `false` when that is not mapped.
pub(super) fn copy_out(at: u64, bytes: &[u8]) -> bool {
    if bytes.is_empty() {
        return true;
    }
    if !is_within(at, bytes.len()) {
        return false;
    }
    match by_kernel(libc::process_vm_writev, bytes.as_ptr().cast_mut(), at, bytes.len()) {
        Copied::All => true,
        Copied::Fault => false,
        Copied::Refused => {
            // SAFETY: trusted, as this module says.
            unsafe { bytes.as_ptr().copy_to(at as usize as *mut u8, bytes.len()) };
            true
        }
    }
}

/// Returns whether `len` bytes at `at` can be written; they keep their values. For commands that
/// cannot be undone when their answer has nowhere to go.
pub(super) fn is_writable(at: u64, len: usize) -> bool {
    let mut now = vec![0; len];
    copy_in(at, &mut now) && copy_out(at, &now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_is_not_there_is_said() {
        let mut value = *b"abcdefgh";
        let at = value.as_mut_ptr() as usize as u64;
        let mut out = [0; 4];
        assert!(copy_in(at + 2, &mut out));
        assert_eq!(&out, b"cdef");
        assert!(is_writable(at, 8) && copy_out(at, b"xy"));
        assert_eq!(&value, b"xycdefgh");
        for at in [0, 1, 4096, u64::MAX, u64::MAX - 3, 1 << 63, 1 << 47] {
            assert!(!copy_in(at, &mut out) && !copy_out(at, &out), "{at:#x}");
        }
        assert!(copy_in(0, &mut []) && copy_out(0, &[]));
    }

    #[test]
    fn what_may_only_be_read_is_not_writable() {
        let at = is_within as fn(u64, usize) -> bool as usize as u64;
        let mut code = [0; 16];
        assert!(copy_in(at, &mut code));
        assert!(!is_writable(at, 16) && !copy_out(at, &code));
    }
}
