//! Asynchronous events and completion channels.
//!
//! The device reports no asynchronous event yet, and the adapter cannot wake a channel yet. Both
//! file descriptors are real all the same: programs poll them and set flags on them.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::context::Context;
use crate::cq::Cq;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::sys::{ibv_async_event, ibv_comp_channel, ibv_context, ibv_cq};

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

/// Completion channel.
#[repr(C)]
pub(crate) struct Channel {
    ibv: UnsafeCell<ibv_comp_channel>,
    fd: OwnedFd,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Channel {
    type C = ibv_comp_channel;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?;
        let fd = eventfd()?;
        let ibv = ibv_comp_channel { context, fd: fd.as_raw_fd(), refcnt: 0 };
        let owner = Owner::current();
        Ok(handle::give(Box::new(Channel { ibv: UnsafeCell::new(ibv), fd, owner })))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a channel it made and gives it up.
        let channel = unsafe { handle::take::<Channel>(channel) }?;
        channel.owner.release(channel);
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_get_cq_event(
    channel: *mut ibv_comp_channel,
    _cq: *mut *mut ibv_cq,
    _cq_context: *mut *mut c_void,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes a channel it made.
        wait(&unsafe { handle::borrow::<Channel>(channel) }?.fd)?;
        Err(Errno::EAGAIN)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_cq_events(cq: *mut ibv_cq, count: u32) {
    panic::value((), || {
        // SAFETY: the program passes a live completion queue.
        if let Ok(cq) = unsafe { handle::borrow::<Cq>(cq) } {
            cq.acknowledge_events(count);
        }
    });
}

/// Notification needs the adapter to watch the queue while the program sleeps; it does not yet.
pub(crate) unsafe extern "C" fn req_notify_cq(_cq: *mut ibv_cq, _solicited_only: c_int) -> c_int {
    libc::EOPNOTSUPP
}
