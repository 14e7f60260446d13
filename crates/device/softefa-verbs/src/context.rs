//! Open devices.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::Arc;

use softefa::{Adapter, AsyncEvents, EventSource};

use crate::device::Device;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::ops;
use crate::panic;
use crate::sys::{self, ibv_context, ibv_device, verbs_context};

/// A device a program opened.
#[repr(C)]
pub(crate) struct Context {
    verbs: UnsafeCell<verbs_context>,
    pub(crate) nic: Arc<softefa::Device>,
    pub(crate) events: Arc<AsyncEvents>,
    /// The number of completion vectors. The processors of a thread may become fewer.
    pub(crate) completion_vectors: u32,
    /// Receives an event when the device fails, as long as the context is open.
    _failure: Arc<EventSource>,
    pub(crate) owner: Owner,
}

// SAFETY: `verbs` is the first member of a `repr(C)` structure and has the `ibv_context` there.
unsafe impl Handle for Context {
    type C = ibv_context;
    const C_OFFSET: usize = offset_of!(verbs_context, context);
}

/// Returns the number of completion vectors. On the device they are interrupts that queues are
/// spread over, one per processor; here any of them will do. At least 2, because libfabric takes 1
/// for a device without notification.
fn completion_vectors() -> u32 {
    const MAX: usize = 32;
    let processors = std::thread::available_parallelism().map_or(2, usize::from);
    u32::try_from(processors.clamp(2, MAX)).unwrap_or(2)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context {
    panic::pointer(|| {
        // SAFETY: the program passes a device of the list; those are never freed.
        let device_ref = unsafe { handle::borrow::<Device>(device) }?;
        // Fallible steps first, because an opened device counts its contexts.
        let events = AsyncEvents::create()?;
        let nic = device_ref.open()?;
        let completion_vectors = completion_vectors();
        let mut verbs = ops::verbs_context();
        if nic.adapter() == Adapter::Roce {
            ops::add_roce(&mut verbs);
        }
        verbs.context.device = device;
        verbs.context.cmd_fd = -1;
        verbs.context.async_fd = events.fd();
        verbs.context.num_comp_vectors = c_int::try_from(completion_vectors).unwrap_or(c_int::MAX);
        verbs.context.abi_compat =
            ptr::without_provenance_mut::<c_void>(sys::VERBS_ABI_IS_EXTENDED);
        let (owner, failure) = (Owner::current(), EventSource::new(&events));
        nic.report_failure_to(&failure);
        let verbs = UnsafeCell::new(verbs);
        let context = Context { verbs, nic, events, completion_vectors, _failure: failure, owner };
        Ok(handle::give(Box::new(context)))
    })
}

/// Objects of the context keep the adapter alive until they are destroyed. A thread that waits for
/// an event sleeps on, as in the kernel: programs would take an error for a failure.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_close_device(context: *mut ibv_context) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a context it opened and gives it up.
        let mut context = unsafe { handle::take::<Context>(context) }?;
        if context.owner.is_current() {
            let device = context.verbs.get_mut().context.device;
            // SAFETY: it was opened from a device of the list, and those are never freed.
            unsafe { handle::borrow::<Device>(device) }?.close(&context.nic);
        }
        context.owner.release(context);
        Ok(())
    })
}

/// Contexts cannot be shared between processes: a queue pair is a socket of its process.
#[unsafe(no_mangle)]
extern "C" fn ibv_import_device(_cmd_fd: c_int) -> *mut ibv_context {
    Errno::EOPNOTSUPP.store();
    ptr::null_mut()
}
