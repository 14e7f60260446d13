//! The direct verbs of EFA. Their structures are versioned by the length that a program passes:
//! members that it does not know are not written, and members that only it knows must be zero.

use std::ffi::c_int;
use std::mem::{offset_of, zeroed};

use softefa::{Adapter, DeviceAttr};

use crate::ah::Ah;
use crate::attr;
use crate::context::Context;
use crate::cq::{self, Cq};
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::post;
use crate::qp::{self, Qp};
use crate::query::write_prefix;
use crate::sys::{
    EFADV_CQ_INIT_FLAGS_EXT_MEM_DMABUF, EFADV_WC_EX_WITH_IS_UNSOLICITED, EFADV_WC_EX_WITH_SGID,
    efadv_ah_attr, efadv_cq, efadv_cq_init_attr, efadv_device_attr, efadv_qp, efadv_qp_init_attr,
    ibv_ah, ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_pd, ibv_qp, ibv_qp_ex,
    ibv_qp_init_attr, ibv_qp_init_attr_ex,
};

/// The length of `efadv_qp_init_attr` in the first headers that had it.
const QP_INIT_LEAST: usize = offset_of!(efadv_qp_init_attr, flags);
/// The length of `efadv_cq_init_attr` in the first headers that had it.
const CQ_INIT_LEAST: usize = offset_of!(efadv_cq_init_attr, flags);

/// Reads a structure of `len` bytes: members after the first `least` bytes may be missing and then
/// are zero; members that are unknown must be zero.
///
/// # Safety
/// `from` is null or has `len` readable bytes; all-zero bytes and any numbers are valid in `T`.
pub(crate) unsafe fn read_prefix<T>(from: *const T, len: usize, least: usize) -> Result<T, Errno> {
    if from.is_null() || len < least {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as this function demands.
    let given = unsafe { post::bytes(from.cast(), len) };
    let (known, newer) = given.split_at(len.min(size_of::<T>()));
    if newer.iter().any(|byte| *byte != 0) {
        return Err(Errno::EINVAL);
    }
    // SAFETY: as this function demands; `known` is no longer than the value.
    unsafe {
        let mut value: T = zeroed();
        (&raw mut value).cast::<u8>().copy_from_nonoverlapping(known.as_ptr(), known.len());
        Ok(value)
    }
}

/// Returns the attributes of the EFA behind `context`; `EOPNOTSUPP` when it is no EFA, as libefa
/// returns for other devices.
///
/// # Safety
/// `context` as for [`handle::borrow`].
pub(crate) unsafe fn attr_of_efa<'a>(context: *mut ibv_context) -> Result<&'a DeviceAttr, Errno> {
    // SAFETY: as this function demands.
    let nic = &unsafe { handle::borrow::<Context>(context) }?.nic;
    match nic.adapter() {
        Adapter::Efa => Ok(nic.attr()),
        Adapter::Roce => Err(Errno::EOPNOTSUPP),
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_query_device(
    context: *mut ibv_context,
    out: *mut efadv_device_attr,
    len: u32,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        let attr = attr::efa(unsafe { attr_of_efa(context) }?);
        check_room(len, offset_of!(efadv_device_attr, device_caps))?;
        // SAFETY: the program passes null or a structure of `len` bytes.
        unsafe { write_prefix(out, len as usize, &attr) }
    })
}

/// Checks the length: members before `least` have been part of the structure from the beginning.
pub(crate) fn check_room(len: u32, least: usize) -> Result<(), Errno> {
    if len as usize >= least { Ok(()) } else { Err(Errno::EINVAL) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_query_ah(ah: *mut ibv_ah, out: *mut efadv_ah_attr, len: u32) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live address handle.
        let ahn = unsafe { handle::borrow::<Ah>(ah) }?.nic.ahn();
        // SAFETY: the same, so there is its context.
        unsafe { attr_of_efa((*ah).context) }?;
        let attr = efadv_ah_attr { comp_mask: 0, ahn, reserved: [0; 6] };
        check_room(len, offset_of!(efadv_ah_attr, reserved))?;
        // SAFETY: the program passes null or a structure of `len` bytes.
        unsafe { write_prefix(out, len as usize, &attr) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_create_driver_qp(
    pd: *mut ibv_pd,
    attr: *mut ibv_qp_init_attr,
    driver_type: u32,
) -> *mut ibv_qp {
    panic::pointer(|| {
        // SAFETY: null, or a live domain, whose context is open.
        let context = unsafe { pd.as_ref() }.ok_or(Errno::EINVAL)?.context;
        // SAFETY: the same.
        unsafe { attr_of_efa(context) }?;
        // SAFETY: the program passes a live domain and its attributes.
        unsafe { qp::create_legacy(pd, attr, Some(driver_type)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
    efa_attr: *mut efadv_qp_init_attr,
    len: u32,
) -> *mut ibv_qp {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        unsafe { attr_of_efa(context) }?;
        // SAFETY: the program passes null or a structure of `len` bytes.
        let efa = unsafe { read_prefix(efa_attr, len as usize, QP_INIT_LEAST) }?;
        if efa.comp_mask != 0 || efa.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes an open context and its attributes.
        unsafe { qp::create_extended(context, attr, Some(&efa)) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_create_cq(
    context: *mut ibv_context,
    attr: *mut ibv_cq_init_attr_ex,
    efa_attr: *mut efadv_cq_init_attr,
    len: u32,
) -> *mut ibv_cq_ex {
    panic::pointer(|| {
        // SAFETY: the program passes an open context.
        let caps = unsafe { attr_of_efa(context) }?.caps;
        // SAFETY: the program passes null or a structure of `len` bytes.
        let efa = unsafe { read_prefix(efa_attr, len as usize, CQ_INIT_LEAST) }?;
        if efa.comp_mask != 0 {
            return Err(Errno::EINVAL);
        }
        // A ring in the program's memory, which these generations do not support. Its other members
        // count only with this flag.
        let has_memory = efa.flags & EFADV_CQ_INIT_FLAGS_EXT_MEM_DMABUF != 0;
        if efa.wc_flags & !wc_flags(caps) != 0 || has_memory {
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the program passes its attributes.
        let mut init = unsafe { cq::init_from_ex(attr) }?;
        init.efa_wc_flags = efa.wc_flags;
        // SAFETY: the program passes an open context.
        unsafe { cq::create(context, &init) }.map(<*mut _>::cast)
    })
}

fn wc_flags(caps: softefa::DeviceCaps) -> u64 {
    let sgid = if caps.cq_with_sgid { EFADV_WC_EX_WITH_SGID } else { 0 };
    let unsolicited = if caps.unsolicited_write_recv { EFADV_WC_EX_WITH_IS_UNSOLICITED } else { 0 };
    sgid | unsolicited
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_cq_from_ibv_cq_ex(cq: *mut ibv_cq_ex) -> *mut efadv_cq {
    panic::value(std::ptr::null_mut(), || {
        // SAFETY: the program passes a live queue.
        let cq = unsafe { handle::borrow::<Cq>(cq.cast()) };
        cq.map_or(std::ptr::null_mut(), |cq| cq.efa.get())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_qp_from_ibv_qp_ex(qp: *mut ibv_qp_ex) -> *mut efadv_qp {
    panic::value(std::ptr::null_mut(), || {
        // SAFETY: the program passes a live queue pair; an `ibv_qp_ex` starts with its `ibv_qp`.
        let qp = unsafe { handle::borrow::<Qp>(qp.cast()) };
        qp.map_or(std::ptr::null_mut(), |qp| qp.efa.get())
    })
}
