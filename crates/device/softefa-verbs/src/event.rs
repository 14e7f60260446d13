//! Asynchronous events. An EFA reports none in operation, but the file descriptor is real: programs
//! poll it, set flags on it, and have a thread asleep on it.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use softefa::{AsyncEvent, AsyncEventKind, AsyncEvents, EventSource, PerProcess, TakeEventError};

use crate::context::Context;
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::sleeper;
use crate::sys::{self, ibv_async_event, ibv_context};

unsafe extern "C-unwind" {
    /// The C library's function, declared such that a cancelled thread unwinds its callers.
    fn read(fd: c_int, buffer: *mut c_void, bytes: usize) -> isize;

    /// Like [`read`].
    fn pause() -> c_int;
}

/// Waits until `fd` counts an event, unless the program made it non-blocking, and takes one;
/// `false` with `errno` set. The calling thread may be cancelled here.
///
/// # Safety
/// `fd` is an eventfd; no caller in this library has anything to drop.
pub(crate) unsafe fn sleep(fd: RawFd) -> bool {
    let mut events = 0_u64;
    // SAFETY: an eventfd writes 8 bytes, the size of the variable.
    unsafe { read(fd, (&raw mut events).cast(), size_of::<u64>()) == 8 }
}

/// Waits until a signal was handled, with `errno` set. The calling thread may be cancelled here.
///
/// # Safety
/// As for [`sleep`]: no caller in this library has anything to drop.
pub(crate) unsafe fn sleep_until_signal() {
    // SAFETY: has no precondition of its own.
    unsafe { pause() };
}

/// A thread that sleeps here may be cancelled, see [`sleep`].
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn ibv_get_async_event(
    context: *mut ibv_context,
    event: *mut ibv_async_event,
) -> c_int {
    // SAFETY: the program passes an open context.
    let events = unsafe { sleepers_share(context) };
    if events.is_null() {
        return -1;
    }
    // SAFETY: `events` is a share of the queue that this call owns; its descriptor is open.
    while unsafe { sleep((*events).fd()) } {
        // SAFETY: as above.
        if let Some(result) = unsafe { answer(&*events, event) } {
            let errno = Errno::last();
            // SAFETY: given back once.
            unsafe { sleeper::give_back(events) };
            errno.store();
            return result;
        }
    }
    let errno = Errno::last();
    // SAFETY: given back once.
    unsafe { sleeper::give_back(events) };
    errno.store();
    -1
}

/// Returns the events of a context, which stay until they are given back; null with `errno` set.
///
/// # Safety
/// `context` as for [`handle::borrow`].
unsafe fn sleepers_share(context: *mut ibv_context) -> *const AsyncEvents {
    panic::pointer(|| {
        // SAFETY: as this function demands.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        context.owner.check()?;
        Ok(sleeper::keep(&context.events).cast_mut())
    })
}

/// Takes the event whose count was read; `None` when it was withdrawn.
///
/// # Safety
/// `out` is null or can be written to.
unsafe fn answer(events: &AsyncEvents, out: *mut ibv_async_event) -> Option<c_int> {
    let mut is_withdrawn = false;
    let result = panic::count(|| {
        let event = events.take().map_err(|error| match error {
            // A program that writes to the descriptor wants its thread to wake up.
            TakeEventError::Nothing => Errno::EAGAIN,
            _ => Errno::EBADF,
        })?;
        let Some(AsyncEvent { kind, source }) = event else {
            is_withdrawn = true;
            return Ok(0);
        };
        if out.is_null() {
            source.acknowledge();
            return Err(Errno::EINVAL);
        }
        let address = usize::try_from(source.tag()).unwrap_or(0);
        let element = std::ptr::with_exposed_provenance_mut(address);
        unacknowledged().push((address, source));
        // SAFETY: not null, so it can be written to. The object cannot go before the program has
        // acknowledged this event.
        unsafe { out.write(ibv_async_event { element, event_type: event_type(kind) }) };
        Ok(0)
    });
    (!is_withdrawn).then_some(result)
}

/// Returns the number of a kind of event in verbs.
fn event_type(kind: AsyncEventKind) -> c_int {
    match kind {
        AsyncEventKind::CqError => sys::IBV_EVENT_CQ_ERR,
        AsyncEventKind::QpRequestError => sys::IBV_EVENT_QP_REQ_ERR,
        AsyncEventKind::QpAccessError => sys::IBV_EVENT_QP_ACCESS_ERR,
        AsyncEventKind::CommunicationEstablished => sys::IBV_EVENT_COMM_EST,
        AsyncEventKind::SqDrained => sys::IBV_EVENT_SQ_DRAINED,
        AsyncEventKind::QpLastWqeReached => sys::IBV_EVENT_QP_LAST_WQE_REACHED,
        AsyncEventKind::SrqLimitReached => sys::IBV_EVENT_SRQ_LIMIT_REACHED,
        AsyncEventKind::SrqError => sys::IBV_EVENT_SRQ_ERR,
        AsyncEventKind::DeviceFatal => sys::IBV_EVENT_DEVICE_FATAL,
        _ => sys::IBV_EVENT_QP_FATAL,
    }
}

/// Events that the program has taken, by the address of the object; an acknowledgement contains no
/// more.
type Taken = Vec<(usize, Arc<EventSource>)>;

fn unacknowledged() -> MutexGuard<'static, Taken> {
    static TAKEN: PerProcess<Mutex<Taken>> = PerProcess::new();
    TAKEN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// An event that was never returned to the program is ignored, as is one of a parent.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_ack_async_event(event: *mut ibv_async_event) {
    panic::count(|| {
        // SAFETY: null, or an event of the program.
        let address = unsafe { event.as_ref() }.ok_or(Errno::EINVAL)?.element.addr();
        let mut taken = unacknowledged();
        let place = taken.iter().position(|(of, _)| *of == address);
        let source = place.map(|place| taken.remove(place).1);
        drop(taken);
        source.iter().for_each(|source| source.acknowledge());
        Ok(0)
    });
}
