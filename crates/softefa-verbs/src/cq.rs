//! Completion queues: creation and the legacy way of polling.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use crate::context::Context;
use crate::cq_ex::{self, Poll};
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Users;
use crate::sys::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_WC_STANDARD_FLAGS, efadv_cq,
    ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_wc,
};
use crate::wc;

/// Completion queue, as `ibv_cq`, `ibv_cq_ex` and `efadv_cq`.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) ibv: UnsafeCell<ibv_cq_ex>,
    pub(crate) efa: UnsafeCell<efadv_cq>,
    pub(crate) nic: Arc<softefa::Cq>,
    pub(crate) poll: Poll,
    pub(crate) users: Users,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure and starts with an `ibv_cq`.
unsafe impl Handle for Cq {
    type C = ibv_cq;
}

impl Cq {
    /// Counts events a program has taken; destroying waits for none, because there are none.
    pub(crate) fn acknowledge_events(&self, count: u32) {
        // SAFETY: the program serialises acknowledgements of one queue with its destruction only,
        // and the counter is written nowhere else, so a relaxed atomic view of it is enough.
        let counter = unsafe {
            std::sync::atomic::AtomicU32::from_ptr(
                &raw mut (*self.ibv.get()).base.comp_events_completed,
            )
        };
        counter.fetch_add(count, std::sync::atomic::Ordering::Relaxed);
    }
}

/// What a program asks of a completion queue.
pub(crate) struct CqInit {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
    /// What only an EFA can tell, `EFADV_WC_EX_*`.
    pub(crate) efa_wc_flags: u64,
}

/// Makes a queue. A channel needs notification, which the device does not have.
///
/// # Safety
/// `context` as for [`handle::borrow`].
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    init: &CqInit,
) -> Result<*mut ibv_cq, Errno> {
    // SAFETY: as this function demands.
    let device = &unsafe { handle::borrow::<Context>(context) }?.nic;
    if !init.channel.is_null() {
        return Err(Errno::EOPNOTSUPP);
    }
    if init.vector != 0 {
        return Err(Errno::EINVAL);
    }
    let nic = softefa::Cq::create(device, init.entries)?;
    let mut ibv = cq_ex::table();
    ibv.base.context = context;
    ibv.base.channel = init.channel;
    ibv.base.cq_context = init.cq_context;
    ibv.base.cqe = c_int::try_from(nic.depth()).unwrap_or(c_int::MAX);
    Ok(handle::give(Box::new(Cq {
        ibv: UnsafeCell::new(ibv),
        efa: UnsafeCell::new(cq_ex::efa_table(init.efa_wc_flags)),
        nic,
        poll: Poll::default(),
        users: Users::default(),
        owner: Owner::current(),
    })))
}

/// Checks the extended attributes and takes what matters out of them.
///
/// # Safety
/// `attr` is null or points to an attribute structure.
pub(crate) unsafe fn init_from_ex(attr: *const ibv_cq_init_attr_ex) -> Result<CqInit, Errno> {
    // SAFETY: as this function demands.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    let known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    if attr.comp_mask & !known != 0 || attr.wc_flags & !IBV_WC_STANDARD_FLAGS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(CqInit {
        entries: attr.cqe,
        cq_context: attr.cq_context,
        channel: attr.channel,
        vector: attr.comp_vector,
        efa_wc_flags: 0,
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    entries: c_int,
    cq_context: *mut c_void,
    channel: *mut ibv_comp_channel,
    vector: c_int,
) -> *mut ibv_cq {
    panic::pointer(|| {
        let entries = u32::try_from(entries).map_err(|_| Errno::EINVAL)?;
        let vector = u32::try_from(vector).map_err(|_| Errno::EINVAL)?;
        let init = CqInit { entries, cq_context, channel, vector, efa_wc_flags: 0 };
        // SAFETY: the program passes an open context.
        unsafe { create(context, &init) }
    })
}

pub(crate) unsafe extern "C" fn create_cq_ex(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
) -> *mut ibv_cq_ex {
    panic::pointer(|| {
        // SAFETY: the program passes its attributes and an open context.
        unsafe { create(context, &init_from_ex(attr)?) }.map(<*mut ibv_cq>::cast)
    })
}

#[unsafe(no_mangle)]
extern "C" fn ibv_resize_cq(_cq: *mut ibv_cq, _entries: c_int) -> c_int {
    libc::EOPNOTSUPP
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a queue it made.
        let borrowed = unsafe { handle::borrow::<Cq>(cq) }?;
        borrowed.users.none()?;
        let owner = borrowed.owner;
        // SAFETY: no queue pair uses it and the program gives it up.
        owner.release(unsafe { handle::take::<Cq>(cq) }?);
        Ok(())
    })
}

/// The number of completions written. The first may take a turn of the adapter, the others only
/// empty the queue.
pub(crate) unsafe extern "C" fn poll_cq(
    cq: *mut ibv_cq,
    max_entries: c_int,
    out: *mut ibv_wc,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes a live queue.
        let cq = unsafe { handle::borrow::<Cq>(cq) }?;
        let max = usize::try_from(max_entries).unwrap_or(0);
        let mut written = 0;
        cq.nic.poll(max, |completion| {
            // SAFETY: the program has room for `max` entries, and `written` is less.
            unsafe { out.offset(written as isize).write(wc::legacy(completion)) };
            written += 1;
        });
        Ok(written)
    })
}
