//! XRC domains.

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use softefa::OpenXrcd;

use crate::context::Context;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Users;
use crate::sys::{
    IBV_XRCD_INIT_ATTR_FD, IBV_XRCD_INIT_ATTR_OFLAGS, ibv_context, ibv_xrcd, ibv_xrcd_init_attr,
};

/// An XRC domain, as opened once.
#[repr(C)]
pub(crate) struct Xrcd {
    ibv: UnsafeCell<ibv_xrcd>,
    pub(crate) nic: Arc<softefa::Xrcd>,
    /// Queues and targets that were created with it.
    pub(crate) users: Users,
    pub(crate) owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Xrcd {
    type C = ibv_xrcd;
}

impl Xrcd {
    /// Returns the context as the program knows it.
    pub(crate) fn context(&self) -> *mut ibv_context {
        // SAFETY: `context` is written once, before the program learns the address.
        unsafe { (*self.ibv.get()).context }
    }
}

/// Converts the attributes; the descriptor stays the program's.
fn how(attr: &ibv_xrcd_init_attr) -> Result<OpenXrcd, Errno> {
    const NEEDS: u32 = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if attr.comp_mask & !NEEDS != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if attr.comp_mask != NEEDS {
        return Err(Errno::EINVAL);
    }
    let file = match attr.fd {
        -1 => None,
        ..-1 => return Err(Errno::EBADF),
        // SAFETY: only duplicated; of one that is not open the kernel says so.
        fd => Some(unsafe { BorrowedFd::borrow_raw(fd) }.try_clone_to_owned()?),
    };
    let has = |flag| attr.oflags & flag != 0;
    Ok(OpenXrcd { file, create: has(libc::O_CREAT), exclusive: has(libc::O_EXCL) })
}

pub(crate) unsafe extern "C" fn open_xrcd(
    context: *mut ibv_context,
    attr: *mut ibv_xrcd_init_attr,
) -> *mut ibv_xrcd {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        let opened = unsafe { handle::borrow::<Context>(context) }?;
        opened.owner.check()?;
        // SAFETY: null, or attributes of the program.
        let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
        let nic = softefa::Xrcd::open(&opened.nic, how(attr)?)?;
        let ibv = UnsafeCell::new(ibv_xrcd { context });
        let (users, owner) = (Users::default(), Owner::current());
        Ok(handle::give(Box::new(Xrcd { ibv, nic, users, owner })))
    })
}

/// Refused while an object that was created with it exists.
pub(crate) unsafe extern "C" fn close_xrcd(xrcd: *mut ibv_xrcd) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a domain it opened.
        let borrowed = unsafe { handle::borrow::<Xrcd>(xrcd) }?;
        borrowed.users.none()?;
        let owner = borrowed.owner;
        // SAFETY: nothing uses it and the program gives it up.
        owner.release(unsafe { handle::take::<Xrcd>(xrcd) }?);
        Ok(())
    })
}
