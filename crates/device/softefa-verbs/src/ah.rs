mod sender;

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

use softefa::{Adapter, Gid};

use crate::context::Context;
use crate::errno::Errno;
use crate::fork::Owner;
use crate::handle::{self, Handle};
use crate::panic;
use crate::pd::Pd;
use crate::sys::{IBV_WC_GRH, ibv_ah, ibv_ah_attr, ibv_context, ibv_grh, ibv_pd, ibv_wc};

/// Address handle.
#[repr(C)]
pub(crate) struct Ah {
    ibv: UnsafeCell<ibv_ah>,
    pub(crate) nic: Arc<softefa::Ah>,
    owner: Owner,
}

// SAFETY: `ibv` is the first member of a `repr(C)` structure.
unsafe impl Handle for Ah {
    type C = ibv_ah;
}

/// The most destroyed handles whose memory is kept: as many as an EFA has.
const KEPT_MAX: usize = 1024;

/// The handles of a domain that were destroyed last. A program that uses one after that has a bug:
/// its request ends with status 4, and no other object's memory is written to.
#[derive(Default)]
pub(crate) struct Destroyed(Mutex<VecDeque<Box<Ah>>>);

impl Destroyed {
    fn keep(&self, ah: Box<Ah>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() == KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(ah);
    }
}

/// Only the destination GID counts: the device has one port and one GID, and routes by nothing
/// else. Port 0 is accepted as that port unless the device is strict.
///
/// # Safety
/// `pd` as for [`handle::borrow`]; `attr` is null or points to an attribute structure.
unsafe fn create(pd: *mut ibv_pd, attr: *const ibv_ah_attr) -> Result<*mut ibv_ah, Errno> {
    // SAFETY: as this function demands.
    let domain = unsafe { handle::borrow::<Pd>(pd) }?;
    domain.owner.check()?;
    // SAFETY: as this function demands.
    let attr = unsafe { attr.as_ref() }.ok_or(Errno::EINVAL)?;
    let is_port = attr.port_num == 1 || (attr.port_num == 0 && !domain.nic.device().is_strict());
    let is_own_gid = attr.grh.sgid_index < domain.nic.device().attr().gids();
    if attr.is_global == 0 || !is_own_gid || !is_port {
        return Err(Errno::EINVAL);
    }
    // SAFETY: every view of the union is 16 bytes of plain data.
    let nic = domain.nic.create_ah(Gid(unsafe { attr.grh.dgid.raw }))?;
    let ibv = ibv_ah { context: domain.context(), pd, handle: u32::from(nic.ahn()) };
    domain.users.add();
    Ok(handle::give(Box::new(Ah { ibv: UnsafeCell::new(ibv), nic, owner: Owner::current() })))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah {
    // SAFETY: the program passes a live protection domain and its attributes.
    panic::pointer(|| unsafe { create(pd, attr) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an address handle it made.
        let borrowed = unsafe { handle::borrow::<Ah>(ah) }?;
        let owner = borrowed.owner;
        // A posting session may still hold on to the adapter's handle.
        if owner.is_current() && !borrowed.nic.destroy() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: not destroyed before, so the program gives it up.
        let object = unsafe { handle::take::<Ah>(ah) }?;
        // SAFETY: `pd` is written once, before the program learns the address; the handle counted
        // as a user, so its domain is still there.
        let pd = unsafe { handle::borrow::<Pd>((*object.ibv.get()).pd) }?;
        if owner.is_current() {
            pd.destroyed_ahs.keep(object);
        } else {
            owner.release(object);
        }
        pd.users.remove();
        Ok(())
    })
}

/// Attributes for answering the sender of `wc`, from the routing header in front of its payload.
///
/// # Safety
/// `wc`, `grh` and `out` are null or point to what their types say.
unsafe fn init_from_wc(
    device: &softefa::Device,
    port: u8,
    wc: *const ibv_wc,
    grh: *const ibv_grh,
    out: *mut ibv_ah_attr,
) -> Result<(), Errno> {
    // SAFETY: as this function demands.
    let (wc, grh) = unsafe { (wc.as_ref(), grh.as_ref()) };
    let (wc, grh) = (wc.ok_or(Errno::EINVAL)?, grh.ok_or(Errno::EINVAL)?);
    if wc.wc_flags & IBV_WC_GRH == 0 || out.is_null() {
        return Err(Errno::EINVAL);
    }
    // SAFETY: all-zero bytes are a valid attribute structure.
    let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
    match device.adapter() {
        Adapter::Efa => (attr.grh.dgid, attr.grh.hop_limit) = (grh.sgid, 0xff),
        Adapter::Roce => {
            // SAFETY: 40 bytes of plain data.
            let header = unsafe { std::ptr::from_ref(grh).cast::<[u8; 40]>().read() };
            let sender = sender::in_header(&header, device.addr()).ok_or(Errno::EINVAL)?;
            attr.grh.dgid.raw = Gid::of_roce(sender.addr).0;
            (attr.grh.hop_limit, attr.grh.traffic_class) = (sender.hop_limit, sender.traffic_class);
        }
    }
    (attr.dlid, attr.sl, attr.is_global, attr.port_num) = (wc.slid, wc.sl, 1, port);
    // SAFETY: checked for null above, and writable as this function demands.
    unsafe { out.write(attr) };
    Ok(())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_init_ah_from_wc(
    context: *mut ibv_context,
    port: u8,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    attr: *mut ibv_ah_attr,
) -> c_int {
    panic::count(|| {
        // SAFETY: the program passes an open context.
        let context = unsafe { handle::borrow::<Context>(context) }?;
        // SAFETY: the program passes its completion, routing header and attribute structures.
        unsafe { init_from_wc(&context.nic, port, wc, grh, attr) }.map(|()| 0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_create_ah_from_wc(
    pd: *mut ibv_pd,
    wc: *mut ibv_wc,
    grh: *mut ibv_grh,
    port: u8,
) -> *mut ibv_ah {
    panic::pointer(|| {
        // SAFETY: all-zero bytes are a valid attribute structure.
        let mut attr: ibv_ah_attr = unsafe { std::mem::zeroed() };
        // SAFETY: the program passes a live protection domain.
        let domain = unsafe { handle::borrow::<Pd>(pd) }?;
        // SAFETY: the program passes its completion and routing header; `attr` is ours.
        unsafe { init_from_wc(domain.nic.device(), port, wc, grh, &raw mut attr) }?;
        // SAFETY: the program passes a live protection domain.
        unsafe { create(pd, &raw const attr) }
    })
}
