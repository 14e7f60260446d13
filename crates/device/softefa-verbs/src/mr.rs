use std::cell::UnsafeCell;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::Arc;

use softefa::{Access, Adapter, MrOptions, Rereg};

use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Pd;
use crate::sys::{
    IBV_ACCESS_FLUSH_GLOBAL, IBV_ACCESS_HUGETLB, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND,
    IBV_ACCESS_ON_DEMAND, IBV_ACCESS_OPTIONAL_RANGE, IBV_ACCESS_REMOTE_ATOMIC,
    IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_REREG_MR_CHANGE_ACCESS,
    IBV_REREG_MR_CHANGE_PD, IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_ERR_CMD,
    IBV_REREG_MR_ERR_INPUT, ibv_mr, ibv_pd,
};

/// The smallest page of the machine.
const PAGE_BYTES: u64 = 4096;
/// The value of `handle` that programs see.
const HANDLE: u32 = 0;

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

impl Mr {
    /// Fails for a handle that the program has changed: it names no region, as in the kernel.
    fn check_handle(&self) -> Result<(), Errno> {
        // SAFETY: programs that change it do so in the calling thread.
        let handle = unsafe { (*self.ibv.get()).handle };
        if handle == HANDLE { Ok(()) } else { Err(Errno::ENOENT) }
    }
}

/// Returns the access flags that a device supports. An EFA grants peers what it can do for them
/// (the kernel's `efa_reg_user_mr`).
fn known_access(device: &softefa::Device) -> u32 {
    let caps = device.attr().caps;
    let only_if = |has, flag| if has { flag } else { 0 };
    match device.adapter() {
        Adapter::Efa => {
            IBV_ACCESS_LOCAL_WRITE
                | only_if(caps.rdma_read, IBV_ACCESS_REMOTE_READ)
                | only_if(caps.rdma_write, IBV_ACCESS_REMOTE_WRITE)
        }
        Adapter::Roce => EVERY_ACCESS,
    }
}

/// Converts access flags. Optional ones may be ignored; others that are not `known` are refused, as
/// is memory that peers may write but its owner may not (the kernel's `ib_check_mr_access`).
fn access(flags: u32, known: u32) -> Result<(Access, MrOptions), Errno> {
    if flags & !(known | IBV_ACCESS_OPTIONAL_RANGE) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    let writing = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if flags & writing != 0 && flags & IBV_ACCESS_LOCAL_WRITE == 0 {
        return Err(Errno::EINVAL);
    }
    let has = |flag| flags & flag != 0;
    let access = Access {
        local_write: has(IBV_ACCESS_LOCAL_WRITE),
        remote_read: has(IBV_ACCESS_REMOTE_READ),
        remote_write: has(IBV_ACCESS_REMOTE_WRITE),
        remote_atomic: has(IBV_ACCESS_REMOTE_ATOMIC),
        remote_flush: has(IBV_ACCESS_FLUSH_GLOBAL),
    };
    let (mw_bind, on_demand) = (has(IBV_ACCESS_MW_BIND), has(IBV_ACCESS_ON_DEMAND));
    let options = MrOptions { mw_bind, on_demand, iova: None };
    Ok((access, options))
}

/// A RoCE device refuses zero-based regions, as rxe does, and persistent memory.
const EVERY_ACCESS: u32 = IBV_ACCESS_LOCAL_WRITE
    | IBV_ACCESS_REMOTE_READ
    | IBV_ACCESS_REMOTE_WRITE
    | IBV_ACCESS_REMOTE_ATOMIC
    | IBV_ACCESS_MW_BIND
    | IBV_ACCESS_ON_DEMAND
    | IBV_ACCESS_HUGETLB
    | IBV_ACCESS_FLUSH_GLOBAL;

/// Registers memory whose first byte has the address `iova` for work requests and peers. As in the
/// kernel, a byte keeps its offset in its page.
///
/// # Safety
/// `pd` as for [`handle::borrow`].
unsafe fn register(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    flags: u32,
) -> Result<*mut ibv_mr, Errno> {
    // SAFETY: as this function demands.
    let domain = unsafe { handle::borrow::<Pd>(pd) }?;
    domain.owner.check()?;
    let (access, mut options) = access(flags, known_access(domain.nic.device()))?;
    if iova != addr as u64 {
        if (iova ^ addr as u64) & (PAGE_BYTES - 1) != 0 {
            return Err(Errno::EINVAL);
        }
        options.iova = Some(iova);
    }
    let nic = domain.nic.reg_mr_with(addr as u64, length as u64, access, options)?;
    let (lkey, rkey) = (nic.lkey(), nic.rkey());
    let ibv = ibv_mr { context: domain.context(), pd, addr, length, handle: HANDLE, lkey, rkey };
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
    panic::pointer(|| unsafe { register(pd, addr, length, addr as u64, access as c_uint) })
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
    unsafe { ibv_reg_mr_iova2(pd, addr, length, iova, access as c_uint) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_reg_mr_iova2(
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    iova: u64,
    access: c_uint,
) -> *mut ibv_mr {
    // SAFETY: the program passes a protection domain that `ibv_alloc_pd` gave it.
    panic::pointer(|| unsafe { register(pd, addr, length, iova, access) })
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
        // SAFETY: the program passes a region it registered.
        let borrowed = unsafe { handle::borrow::<Mr>(mr) }?;
        borrowed.check_handle()?;
        if borrowed.owner.is_current() {
            borrowed.nic.release()?;
        }
        // SAFETY: the same, and the program gives it up.
        let region = unsafe { handle::take::<Mr>(mr) }?;
        let pd = region.ibv.into_inner().pd;
        region.owner.release(region.nic);
        // SAFETY: the region counted as a user, so its domain is still there.
        unsafe { handle::borrow::<Pd>(pd) }?.users.remove();
        Ok(())
    })
}

/// The requested change of a region.
struct Change {
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
}

impl Change {
    fn has(&self, flag: c_int) -> bool {
        self.flags & flag != 0
    }

    /// Checks what libibverbs checks before it calls the kernel.
    fn check(&self) -> Result<(), Errno> {
        let known =
            IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_ACCESS;
        let is_empty = self.addr.is_null() || self.length == 0;
        let is_wrong = self.flags & !known != 0
            || self.has(IBV_REREG_MR_CHANGE_TRANSLATION) && is_empty
            || self.has(IBV_REREG_MR_CHANGE_PD) && self.pd.is_null()
            || !self.has(IBV_REREG_MR_CHANGE_ACCESS) && self.access != 0;
        if is_wrong { Err(Errno::EINVAL) } else { Ok(()) }
    }

    /// Applies the change.
    ///
    /// # Safety
    /// `pd` as for [`handle::borrow`] if it is to be changed; otherwise it may be anything.
    unsafe fn apply(&self, mr: &Mr) -> Result<(), Errno> {
        if self.flags == 0 {
            return Err(Errno::EINVAL);
        }
        let ibv = mr.ibv.get();
        // SAFETY: the region counts as a user of its domain, so that is there.
        let now = unsafe { handle::borrow::<Pd>((*ibv).pd) }?;
        let new = if self.has(IBV_REREG_MR_CHANGE_PD) {
            // SAFETY: as this function demands.
            unsafe { handle::borrow::<Pd>(self.pd) }?
        } else {
            now
        };
        if new.context() != now.context() {
            return Err(Errno::EINVAL);
        }
        let range = self
            .has(IBV_REREG_MR_CHANGE_TRANSLATION)
            .then_some((self.addr as u64, self.length as u64));
        let access = self
            .has(IBV_REREG_MR_CHANGE_ACCESS)
            .then(|| access(self.access as c_uint, EVERY_ACCESS))
            .transpose()?;
        now.nic.rereg_mr(&mr.nic, &Rereg { pd: Some(&new.nic), range, access })?;
        // SAFETY: programs read the structure only; a change of the region is theirs to serialise.
        let ibv = unsafe { &mut *ibv };
        if !ptr::eq(new, now) {
            new.users.add();
            now.users.remove();
            ibv.pd = self.pd;
        }
        if range.is_some() {
            (ibv.addr, ibv.length) = (self.addr, self.length);
        }
        Ok(())
    }
}

/// The keys of a region stay the same, and a failed call changes nothing. An EFA has no such
/// command.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_rereg_mr(
    mr: *mut ibv_mr,
    flags: c_int,
    pd: *mut ibv_pd,
    addr: *mut c_void,
    length: usize,
    access: c_int,
) -> c_int {
    let mut failure = IBV_REREG_MR_ERR_INPUT;
    let errno = panic::code(|| {
        // SAFETY: the program passes a region it registered.
        let mr = unsafe { handle::borrow::<Mr>(mr) }?;
        mr.owner.check()?;
        // SAFETY: the region counts as a user of its domain, so that is there.
        let domain = unsafe { handle::borrow::<Pd>((*mr.ibv.get()).pd) }?;
        if domain.nic.device().adapter() == Adapter::Efa {
            return Err(Errno::EOPNOTSUPP);
        }
        let change = Change { flags, pd, addr, length, access };
        change.check()?;
        failure = IBV_REREG_MR_ERR_CMD;
        mr.check_handle()?;
        // SAFETY: the program passes a live protection domain, or null.
        unsafe { change.apply(mr) }
    });
    if errno == 0 {
        return 0;
    }
    Errno(errno).store();
    failure
}

#[cfg(test)]
mod tests {
    use super::*;

    const EFA_ACCESS: u32 =
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;

    fn efa(flags: u32) -> Result<Access, Errno> {
        access(flags, EFA_ACCESS).map(|(access, _)| access)
    }

    #[test]
    fn optional_flags_are_ignored_and_unknown_ones_refused() {
        let relaxed_ordering = 1 << 20;
        assert!(efa(IBV_ACCESS_REMOTE_READ | relaxed_ordering).is_ok_and(|a| a.remote_read));
        for flag in [IBV_ACCESS_REMOTE_ATOMIC, IBV_ACCESS_MW_BIND, IBV_ACCESS_ON_DEMAND] {
            assert_eq!(efa(flag | IBV_ACCESS_LOCAL_WRITE).err(), Some(Errno::EOPNOTSUPP));
            assert!(access(flag | IBV_ACCESS_LOCAL_WRITE, EVERY_ACCESS).is_ok());
        }
        let zero_based = 1 << 5;
        assert_eq!(access(zero_based, EVERY_ACCESS).err(), Some(Errno::EOPNOTSUPP));
    }

    #[test]
    fn remote_writes_need_local_writes() {
        assert_eq!(efa(IBV_ACCESS_REMOTE_WRITE).err(), Some(Errno::EINVAL));
        let both = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
        assert!(efa(both).is_ok_and(|a| a.remote_write));
        let refused = access(IBV_ACCESS_REMOTE_ATOMIC, EVERY_ACCESS);
        assert_eq!(refused.err(), Some(Errno::EINVAL));
    }
}
