use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ah::Destroyed;
use crate::context::Context;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::sys::{ibv_context, ibv_pd, ibv_td};
use crate::td;

/// Counts the objects that keep another one from being destroyed.
#[derive(Debug, Default)]
pub(crate) struct Users(AtomicU32);

impl Users {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        let before = self.0.fetch_sub(1, Ordering::Relaxed);
        assert_ne!(before, 0, "more users left than came");
    }

    /// Fails with `EBUSY` while the object is in use, as in the kernel.
    pub(crate) fn none(&self) -> Result<(), Errno> {
        if self.0.load(Ordering::Relaxed) == 0 { Ok(()) } else { Err(Errno::EBUSY) }
    }
}

/// Protection domain.
#[repr(C)]
pub(crate) struct Pd {
    ibv: UnsafeCell<ibv_pd>,
    pub(crate) nic: Arc<softefa::Pd>,
    pub(crate) users: Users,
    /// The domain behind a parent domain; null in a protection domain of its own.
    real: *mut ibv_pd,
    td: *mut ibv_td,
    pub(crate) destroyed_ahs: Destroyed,
    pub(crate) owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Pd {
    type C = ibv_pd;
}

impl Pd {
    /// Returns the context as the program knows it.
    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: `context` is written once, before the program learns the address.
        unsafe { (*self.ibv.get()).context }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    panic::pointer(|| {
        // SAFETY: the program passes a context that `ibv_open_device` gave it.
        let opened = unsafe { handle::borrow::<Context>(context) }?;
        opened.owner.check()?;
        let nic = opened.nic.alloc_pd()?;
        Ok(give(context, nic, ptr::null_mut(), ptr::null_mut()))
    })
}

/// Returns a number that is unique in this process; 0 once all 2^32 are used up.
fn next_handle() -> u32 {
    static LAST: AtomicU32 = AtomicU32::new(0);
    LAST.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
}

/// Creates a parent domain: `pd` (known to the program as `real`) by another name.
pub(crate) fn give_parent(pd: &Pd, real: *mut ibv_pd, td: *mut ibv_td) -> *mut ibv_pd {
    give(pd.context(), Arc::clone(&pd.nic), real, td)
}

fn give(
    context: *mut ibv_context,
    nic: Arc<softefa::Pd>,
    real: *mut ibv_pd,
    td: *mut ibv_td,
) -> *mut ibv_pd {
    let ibv = UnsafeCell::new(ibv_pd { context, handle: next_handle() });
    let (users, owner) = (Users::default(), Owner::current());
    let destroyed_ahs = Destroyed::default();
    handle::give(Box::new(Pd { ibv, nic, users, real, td, destroyed_ahs, owner }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a protection domain that `ibv_alloc_pd` gave it.
        let borrowed = unsafe { handle::borrow::<Pd>(pd) }?;
        borrowed.users.none()?;
        let (owner, real, td) = (borrowed.owner, borrowed.real, borrowed.td);
        // SAFETY: no object uses it and the program gives it up.
        owner.release(unsafe { handle::take::<Pd>(pd) }?);
        // SAFETY: a parent domain counts as a user of both, so they are still there.
        unsafe {
            if let Ok(real) = handle::borrow::<Pd>(real) {
                real.users.remove();
            }
            td::leave(td);
        }
        Ok(())
    })
}
