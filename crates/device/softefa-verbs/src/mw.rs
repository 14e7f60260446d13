//! Memory windows. Work requests bind and invalidate them, in the order of the queue; for windows
//! of type 1 there is a call that posts one.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use softefa::{Access, MwBind, MwKind, SendData, SendOp, SendWr};

use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Pd;
use crate::qp::Qp;
use crate::sys::{
    self, IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mw, ibv_mw_bind, ibv_mw_bind_info, ibv_pd, ibv_qp,
};

/// The value of `handle` that programs see.
const HANDLE: u32 = 0;

/// Memory window.
#[repr(C)]
pub(crate) struct Mw {
    ibv: UnsafeCell<ibv_mw>,
    pub(crate) nic: Arc<softefa::Mw>,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Mw {
    type C = ibv_mw;
}

impl Mw {
    /// Stores the next key of the window where the program reads it.
    pub(crate) fn publish_rkey(&self, rkey: u32) {
        // SAFETY: programs read the member only; binds are theirs to serialise.
        unsafe { (*self.ibv.get()).rkey = rkey };
    }
}

pub(crate) unsafe extern "C" fn alloc_mw(pd: *mut ibv_pd, mw_type: c_int) -> *mut ibv_mw {
    panic::pointer(|| {
        // SAFETY: the program passes a live protection domain.
        let domain = unsafe { handle::borrow::<Pd>(pd) }?;
        domain.owner.check()?;
        let kind = match mw_type {
            IBV_MW_TYPE_1 => MwKind::Type1,
            IBV_MW_TYPE_2 => MwKind::Type2,
            _ => return Err(Errno::EINVAL),
        };
        let nic = domain.nic.alloc_mw(kind)?;
        let rkey = nic.rkey();
        let ibv = ibv_mw { context: domain.context(), pd, rkey, handle: HANDLE, mw_type };
        domain.users.add();
        Ok(handle::give(Box::new(Mw { ibv: UnsafeCell::new(ibv), nic, owner: Owner::current() })))
    })
}

/// Returns the checked binding of a window, under a key of which only the tag counts.
///
/// # Safety
/// A region that is named is one of the program's.
unsafe fn checked_bind(window: &Mw, key: u32, info: &ibv_mw_bind_info) -> Result<MwBind, Errno> {
    let has = |flag| info.mw_access_flags & flag != 0;
    // Some programs request local rights, too, which are the region's.
    let known = sys::IBV_ACCESS_LOCAL_WRITE
        | sys::IBV_ACCESS_REMOTE_READ
        | sys::IBV_ACCESS_REMOTE_WRITE
        | sys::IBV_ACCESS_REMOTE_ATOMIC
        | sys::IBV_ACCESS_MW_BIND
        | sys::IBV_ACCESS_ZERO_BASED
        | sys::IBV_ACCESS_ON_DEMAND
        | sys::IBV_ACCESS_OPTIONAL_RANGE;
    if info.mw_access_flags & !known != 0 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as this function demands.
    let region = unsafe { info.mr.as_ref() }.map(|mr| mr.lkey);
    Ok(MwBind {
        window: window.nic.rkey(),
        tag: key.to_le_bytes()[0],
        region,
        addr: info.addr,
        len: info.length,
        access: Access {
            local_write: false,
            remote_read: has(sys::IBV_ACCESS_REMOTE_READ),
            remote_write: has(sys::IBV_ACCESS_REMOTE_WRITE),
            remote_atomic: has(sys::IBV_ACCESS_REMOTE_ATOMIC),
            remote_flush: false,
        },
        is_zero_based: has(sys::IBV_ACCESS_ZERO_BASED),
    })
}

/// Returns the work request that binds a window of type 2. A window of type 1 is refused, because
/// it has a call of its own.
///
/// # Safety
/// `mw` as for [`handle::borrow`], and as for [`checked_bind`].
pub(crate) unsafe fn bind_type2(
    mw: *mut ibv_mw,
    key: u32,
    info: &ibv_mw_bind_info,
) -> Result<SendOp, Errno> {
    // SAFETY: as this function demands.
    let window = unsafe { handle::borrow::<Mw>(mw) }?;
    if window.nic.kind() != MwKind::Type2 {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as this function demands.
    Ok(SendOp::BindWindow(unsafe { checked_bind(window, key, info) }?))
}

/// Posts the bind of a window of type 1, and stores its next key in the window.
pub(crate) unsafe extern "C" fn bind_mw(
    qp: *mut ibv_qp,
    mw: *mut ibv_mw,
    bind: *mut ibv_mw_bind,
) -> c_int {
    panic::code_or(Errno::EDEADLK, || {
        // SAFETY: the program passes a live queue pair, a window it allocated and what it wants of
        // it.
        let (qp, window, bind) =
            unsafe { (handle::borrow::<Qp>(qp)?, handle::borrow::<Mw>(mw)?, &*bind) };
        let known = sys::IBV_SEND_SIGNALED | sys::IBV_SEND_FENCE | sys::IBV_SEND_SOLICITED;
        let is_connected = qp.nic.init().kind.is_connected();
        if window.nic.kind() != MwKind::Type1 || bind.send_flags & !known != 0 || !is_connected {
            return Err(Errno::EINVAL);
        }
        // SAFETY: programs that bind a window do so in one thread at a time.
        let old = unsafe { (*window.ibv.get()).rkey };
        let key = (old & !0xff) | (old.wrapping_add(1) & 0xff);
        // SAFETY: the program names a region of its own.
        let window_bind = unsafe { checked_bind(window, key, &bind.bind_info) }?;
        qp.nic.post_send(&SendWr {
            wr_id: bind.wr_id,
            op: SendOp::BindWindow(window_bind),
            data: SendData::Sges(&[]),
            signaled: bind.send_flags & sys::IBV_SEND_SIGNALED != 0,
            target: None,
            remote_srq: 0,
            fenced: bind.send_flags & sys::IBV_SEND_FENCE != 0,
            solicited: false,
            more: false,
        })?;
        window.publish_rkey(key);
        Ok(())
    })
}

/// A bound window may be freed, too.
pub(crate) unsafe extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a window it allocated.
        let borrowed = unsafe { handle::borrow::<Mw>(mw) }?;
        // SAFETY: programs that change it do so in the calling thread.
        if unsafe { (*borrowed.ibv.get()).handle } != HANDLE {
            return Err(Errno::ENOENT);
        }
        // SAFETY: the same, and the program gives it up.
        let window = unsafe { handle::take::<Mw>(mw) }?;
        let pd = window.ibv.into_inner().pd;
        window.owner.release(window.nic);
        // SAFETY: the window counted as a user, so its domain is still there.
        unsafe { handle::borrow::<Pd>(pd) }?.users.remove();
        Ok(())
    })
}
