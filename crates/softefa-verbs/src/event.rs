//! Asynchronous events. An EFA reports none in operation; the file descriptor is real all the same:
//! programs poll it, set flags on it, and have a thread asleep on it.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use crate::context::Context;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::sys::{ibv_async_event, ibv_context};

/// A file descriptor that is readable when an event waits.
pub(crate) fn eventfd() -> Result<OwnedFd, Errno> {
    // SAFETY: has no precondition; the result is checked.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(Errno::last());
    }
    // SAFETY: a new file descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

unsafe extern "C-unwind" {
    /// As in libc, but a thread that is cancelled in it unwinds its callers.
    fn read(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize;
}

/// Waits until `fd` counts an event, unless the program made it non-blocking, and takes one;
/// `false` with `errno` set. The caller may be cancelled here.
///
/// # Safety
/// `fd` is an eventfd; no caller in this library has anything to drop.
pub(crate) unsafe fn sleep(fd: RawFd) -> bool {
    let mut events = 0_u64;
    // SAFETY: an eventfd writes 8 bytes, the size of the variable.
    unsafe { read(fd, (&raw mut events).cast(), size_of::<u64>()) == 8 }
}

/// A thread that sleeps here may be cancelled, see [`sleep`].
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    _event: *mut ibv_async_event,
) -> c_int {
    let fd = panic::count(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        context.owner.check()?;
        Ok(context.async_fd.as_raw_fd())
    });
    // SAFETY: the descriptor of an open context; nothing is to be dropped here.
    if fd >= 0 && unsafe { sleep(fd) } {
        // Nobody writes to it but a program that wants its own thread to wake up.
        Errno::EAGAIN.store();
    }
    -1
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}
