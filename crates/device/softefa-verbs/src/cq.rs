//! Completion queues: creation and legacy polling.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::Arc;

use softefa::Adapter;

use crate::channel::Channel;
use crate::context::Context;
use crate::cq_ex::{self, Poll};
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Users;
use crate::sys::{
    IBV_CQ_INIT_ATTR_MASK_FLAGS, IBV_CQ_INIT_ATTR_MASK_PD, IBV_CREATE_CQ_ATTR_SINGLE_THREADED,
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK,
    IBV_WC_STANDARD_FLAGS, efadv_cq, ibv_comp_channel, ibv_context, ibv_cq, ibv_cq_ex,
    ibv_cq_init_attr_ex, ibv_wc,
};
use crate::wc;

/// Flags that request completion times.
const WC_TIMES: u64 =
    IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

/// Completion queue, as `ibv_cq`, `ibv_cq_ex` and `efadv_cq`.
#[repr(C)]
pub(crate) struct Cq {
    pub(crate) ibv: UnsafeCell<ibv_cq_ex>,
    pub(crate) efa: UnsafeCell<efadv_cq>,
    pub(crate) nic: Arc<softefa::Cq>,
    pub(crate) poll: Poll,
    /// The program requested completion times.
    pub(crate) is_timed: bool,
    pub(crate) users: Users,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure and starts with an `ibv_cq`.
unsafe impl Handle for Cq {
    type C = ibv_cq;
}

impl Cq {
    /// Returns the context as the program knows it.
    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: `context` is written once, before the program learns the address.
        unsafe { (*self.ibv.get()).base.context }
    }

    /// Returns the queue that a channel named.
    pub(crate) fn of_event(nic: &softefa::Cq) -> *mut ibv_cq {
        std::ptr::with_exposed_provenance_mut(usize::try_from(nic.tag()).unwrap_or(0))
    }
}

/// The checked attributes of a completion queue to create.
pub(crate) struct CqInit {
    pub(crate) entries: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) vector: u32,
    /// The requested time flags, `IBV_WC_EX_WITH_COMPLETION_TIMESTAMP` and similar.
    pub(crate) time_flags: u64,
    /// The requested flags that only an EFA has, `EFADV_WC_EX_*`.
    pub(crate) efa_wc_flags: u64,
}

/// Creates a queue.
///
/// # Safety
/// `context` and the channel as for [`handle::borrow`].
pub(crate) unsafe fn create(
    context: *mut ibv_context,
    init: &CqInit,
) -> Result<*mut ibv_cq, Errno> {
    // SAFETY: as this function demands.
    let context_ref = unsafe { handle::borrow::<Context>(context) }?;
    context_ref.owner.check()?;
    if init.vector >= context_ref.completion_vectors {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as this function demands.
    let channel = unsafe { handle::borrow::<Channel>(init.channel) }.ok();
    if channel.is_some_and(|channel| channel.context() != context) {
        return Err(Errno::EINVAL);
    }
    let nic = softefa::Cq::create_on(
        &context_ref.nic,
        init.entries,
        channel.map(|channel| &channel.nic),
    )?;
    let is_timed = init.time_flags != 0;
    if is_timed {
        if context_ref.nic.adapter() != Adapter::Roce {
            return Err(Errno::EOPNOTSUPP);
        }
        nic.keep_times();
    }
    let mut ibv = cq_ex::table();
    cq_ex::add_times(&mut ibv, init.time_flags);
    ibv.base.context = context;
    ibv.base.channel = init.channel;
    ibv.base.cq_context = init.cq_context;
    ibv.base.cqe = c_int::try_from(nic.depth()).unwrap_or(c_int::MAX);
    let cq = handle::give(Box::new(Cq {
        ibv: UnsafeCell::new(ibv),
        efa: UnsafeCell::new(cq_ex::efa_table(init.efa_wc_flags)),
        nic: Arc::clone(&nic),
        poll: Poll::default(),
        is_timed,
        users: Users::default(),
        owner: Owner::current(),
    }));
    nic.set_tag(cq.expose_provenance() as u64);
    if let Some(channel) = channel {
        channel.users.add();
    }
    Ok(cq)
}

/// Checks the extended attributes and converts them.
///
/// # Safety
/// `attr` is null or points to an attribute structure.
pub(crate) unsafe fn init_from_ex(attr: *const ibv_cq_init_attr_ex) -> Result<CqInit, Errno> {
    // SAFETY: as this function demands.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    let known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    let time_flags = attr.wc_flags & WC_TIMES;
    if attr.comp_mask & !known != 0 || attr.wc_flags & !(IBV_WC_STANDARD_FLAGS | WC_TIMES) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let has_flags = attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS != 0;
    if has_flags && attr.flags & !IBV_CREATE_CQ_ATTR_SINGLE_THREADED != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(CqInit {
        entries: attr.cqe,
        cq_context: attr.cq_context,
        channel: attr.channel,
        vector: attr.comp_vector,
        time_flags,
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
        let (time_flags, efa_wc_flags) = (0, 0);
        let init = CqInit { entries, cq_context, channel, vector, time_flags, efa_wc_flags };
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

/// Waits until the program has acknowledged the events it took, as rdma-core does.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a queue it made.
        let borrowed = unsafe { handle::borrow::<Cq>(cq) }?;
        borrowed.users.none()?;
        let owner = borrowed.owner;
        if owner.is_current() {
            borrowed.nic.retire_events();
        }
        // SAFETY: the queue counted as a user of its channel, so that is still there.
        if let Ok(channel) = unsafe { handle::borrow::<Channel>((*cq).channel) } {
            channel.users.remove();
        }
        // SAFETY: no queue pair uses it and the program gives it up.
        owner.release(unsafe { handle::take::<Cq>(cq) }?);
        Ok(())
    })
}

/// Returns the number of completions written. The first may take a round of the adapter, the others
/// only empty the queue. Zero for a signal handler that interrupted a call.
pub(crate) unsafe extern "C" fn poll_cq(
    cq: *mut ibv_cq,
    max_entries: c_int,
    out: *mut ibv_wc,
) -> c_int {
    panic::count_or(Ok(0), || {
        // SAFETY: the program passes a live queue.
        let cq = unsafe { handle::borrow::<Cq>(cq) }?;
        let max = usize::try_from(max_entries).unwrap_or(0);
        let mut written = 0;
        cq.nic.poll(max, |completion| {
            // SAFETY: the program has room for `max` entries, and `written` is less.
            unsafe { wc::write(completion, out.offset(written as isize)) };
            written += 1;
        });
        Ok(written)
    })
}
