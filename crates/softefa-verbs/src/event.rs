//! Asynchronous events. An EFA reports none in operation; the file descriptor is real all the same:
//! programs poll it, set flags on it, and have a thread asleep on it.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

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

/// Waits until `fd` is readable, or says `EAGAIN` when the program made it non-blocking.
fn wait(fd: &OwnedFd) -> Result<(), Errno> {
    let mut events = 0_u64;
    // SAFETY: an eventfd writes 8 bytes, the size of the variable.
    let read = unsafe { libc::read(fd.as_raw_fd(), (&raw mut events).cast(), 8) };
    if read == 8 { Ok(()) } else { Err(Errno::last()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_async_event(
    context: *mut ibv_context,
    _event: *mut ibv_async_event,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        wait(&context.async_fd)?;
        // Nobody writes to it but a program that wants its own thread to wake up.
        Err(Errno::EAGAIN)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_ack_async_event(_event: *mut ibv_async_event) {}
