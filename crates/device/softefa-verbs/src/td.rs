//! Thread domains and parent domains, by which a program promises that only one thread uses an
//! object.
//!
//! The promise saves nothing here, because the locks guard against the service thread, too.
//! Programs get the objects all the same, as on the device.

use std::cell::UnsafeCell;
use std::ffi::c_int;

use crate::context::Context;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::{self, Pd, Users};
use crate::sys::{ibv_context, ibv_parent_domain_init_attr, ibv_pd, ibv_td, ibv_td_init_attr};

/// Thread domain.
#[repr(C)]
pub(crate) struct Td {
    ibv: UnsafeCell<ibv_td>,
    pub(crate) users: Users,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Td {
    type C = ibv_td;
}

pub(crate) unsafe extern "C" fn alloc_td(
    context: *mut ibv_context,
    attr: *mut ibv_td_init_attr,
) -> *mut ibv_td {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { handle::borrow::<Context>(context) }?.owner.check()?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        if attr.comp_mask != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        let ibv = UnsafeCell::new(ibv_td { context });
        let (users, owner) = (Users::default(), Owner::current());
        Ok(handle::give(Box::new(Td { ibv, users, owner })))
    })
}

pub(crate) unsafe extern "C" fn dealloc_td(td: *mut ibv_td) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a thread domain that `alloc_td` gave it.
        let borrowed = unsafe { handle::borrow::<Td>(td) }?;
        borrowed.users.none()?;
        let owner = borrowed.owner;
        // SAFETY: no parent domain uses it and the program gives it up.
        owner.release(unsafe { handle::take::<Td>(td) }?);
        Ok(())
    })
}

/// Creates a second name of a protection domain. `ibv_dealloc_pd` ends it.
pub(crate) unsafe extern "C" fn alloc_parent_domain(
    context: *mut ibv_context,
    attr: *mut ibv_parent_domain_init_attr,
) -> *mut ibv_pd {
    panic::pointer(|| {
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        // SAFETY: the program passes a live protection domain.
        let real = unsafe { handle::borrow::<Pd>(attr.pd) }?;
        real.owner.check()?;
        if real.context() != context {
            return Err(Errno::EINVAL);
        }
        // Allocators of the program are not supported, because there are no rings to place.
        if attr.comp_mask != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: null, or a live thread domain.
        if let Ok(td) = unsafe { handle::borrow::<Td>(attr.td) } {
            td.users.add();
        }
        real.users.add();
        Ok(pd::give_parent(real, attr.pd, attr.td))
    })
}

/// Removes a parent domain from the users of `td`.
///
/// # Safety
/// `td` as for [`handle::borrow`].
pub(crate) unsafe fn leave(td: *mut ibv_td) {
    // SAFETY: as this function demands.
    if let Ok(td) = unsafe { handle::borrow::<Td>(td) } {
        td.users.remove();
    }
}
