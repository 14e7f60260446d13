use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use softefa::Access;

use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Pd;
use crate::sys::{
    IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_OPTIONAL_RANGE, IBV_ACCESS_REMOTE_READ,
    IBV_ACCESS_REMOTE_WRITE, ibv_mr, ibv_pd,
};

/// Memory region.
#[repr(C)]
pub(crate) struct Mr {
    ibv: UnsafeCell<ibv_mr>,
    nic: Arc<softefa::Mr>,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Mr {
    type C = ibv_mr;
}

/// Access flags as the adapter has them. Optional ones may be ignored, others are refused; so is
/// memory that peers may write but its owner may not (the kernel's `ib_check_mr_access`).
fn access(flags: u32) -> Result<Access, Errno> {
    let known = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    if flags & !(known | IBV_ACCESS_OPTIONAL_RANGE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & IBV_ACCESS_REMOTE_WRITE != 0 && flags & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(Errno::EINVAL);
    }
    Ok(Access {
        local_write: flags & IBV_ACCESS_LOCAL_WRITE != 0,
        remote_read: flags & IBV_ACCESS_REMOTE_READ != 0,
        remote_write: flags & IBV_ACCESS_REMOTE_WRITE != 0,
        remote_atomic: false,
    })
}

/// Registers memory whose remote address is its own.
///
/// # Safety
/// `pd` as for [`handle::borrow`].
unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    flags: u32,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: as this function demands.
    let domain = unsafe { handle::borrow::<Pd>(pd) }?;
    domain.owner.check()?;
    let nic = domain.nic.reg_mr(addr as u64, length as u64, access(flags)?)?;
    let (lkey, rkey) = (nic.lkey(), nic.rkey());
    let ibv = ibv_mr { context: domain.context(), pd, addr, length, handle: 0, lkey, rkey };
    domain.users.add();
    Ok(handle::give(Box::new(Mr { ibv: UnsafeCell::new(ibv), nic, owner: Owner::current() })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: the program passes a protection domain that `ibv_alloc_pd` gave it.
    panic::pointer(|| unsafe { register(pd, addr, length, access.cast_unsigned()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_int,
) -> *mut ibv_mr {
    // SAFETY: same contract.
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access.cast_unsigned()) }
}

/// Remote addresses are virtual addresses: another `iova` is not supported.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    panic::pointer(|| {
        if iova != addr as u64 {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the program passes a protection domain that `ibv_alloc_pd` gave it.
        unsafe { register(pd, addr, length, access) }
    })
}

/// There is no device memory to map.
#[unsafe(no_mangle)]
extern "C" fn ibv_reg_dmabuf_mr(
    _pd: *mut ibv_pd,
    _offset: u64,
    _length: usize,
    _iova: u64,
    _fd: c_int,
    _access: c_int,
) -> *mut ibv_mr {
    Errno::EOPNOTSUPP.store();
    ptr::null_mut()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a region it registered and gives it up.
        let region = unsafe { handle::take::<Mr>(mr) }?;
        if region.owner.is_current() {
            region.nic.deregister();
        }
        let pd = region.ibv.into_inner().pd;
        region.owner.release(region.nic);
        // SAFETY: the region counted as a user, so its domain is still there.
        unsafe { handle::borrow::<Pd>(pd) }?.users.remove();
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_flags_are_ignored_and_unknown_ones_refused() {
        let relaxed_ordering = 1 << 20;
        assert!(access(IBV_ACCESS_REMOTE_READ | relaxed_ordering).is_ok_and(|a| a.remote_read));
        let remote_atomic = 1 << 3;
        assert_eq!(access(remote_atomic).err(), Some(Errno::EOPNOTSUPP));
    }

    #[test]
    fn remote_writes_need_local_writes() {
        assert_eq!(access(IBV_ACCESS_REMOTE_WRITE).err(), Some(Errno::EINVAL));
        let both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
        assert!(access(both).is_ok_and(|a| a.remote_write));
    }
}
