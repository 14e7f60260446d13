//! Memory windows. They are bound and invalidated by work requests, which queue pairs do.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::sync::Arc;

use softefa::MwKind;

use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Pd;
use crate::sys::{IBV_MW_TYPE_1, IBV_MW_TYPE_2, ibv_mw, ibv_pd};

/// What programs find in `handle`.
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

#[allow(dead_code, reason = "the queue pairs of RoCE devices call it")]
impl Mw {
    /// Tells the program the key that the window will have.
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

/// A window that is bound may go, too.
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
