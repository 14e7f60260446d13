//! The direct verbs of EFA. Their structures are versioned by the length a program passes: what it
//! does not know is not written, what it knows better must be zero.

use std::ffi::c_int;
use std::mem::zeroed;

use crate::ah::Ah;
use crate::attr;
use crate::context::Context;
use crate::cq::{self, Cq};
use crate::errno::Errno;
use crate::handle;
use crate::panic;
use crate::post;
use crate::qp;
use crate::query::write_prefix;
use crate::sys::{
    EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV, EFADV_WC_EX_WITH_IS_UNSOLICITED, EFADV_WC_EX_WITH_SGID,
    efadv_ah_attr, efadv_cq, efadv_cq_init_attr, efadv_device_attr, efadv_qp_init_attr, ibv_ah,
    ibv_context, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_pd, ibv_qp, ibv_qp_init_attr,
    ibv_qp_init_attr_ex,
};

/// Reads a structure of `len` bytes: missing members are zero, unknown ones must be.
///
/// # Safety
/// `from` is null or has `len` readable bytes; all-zero bytes and any numbers are valid in `T`.
unsafe fn read_prefix<T>(from: *const T, len: usize) -> Result<T, Errno> {
    if from.is_null() {
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

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_query_device(
    context: *mut ibv_context,
    out: *mut efadv_device_attr,
    len: u32,
) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes an open context.
        let attr = attr::efa(unsafe { handle::borrow::<Context>(context) }?.nic.attr());
        // SAFETY: the program passes null or a structure of `len` bytes.
        unsafe { write_prefix(out, len as usize, &attr) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_query_ah(ah: *mut ibv_ah, out: *mut efadv_ah_attr, len: u32) -> c_int {
    panic::code(|| {
        // SAFETY: the program passes a live address handle.
        let ahn = unsafe { handle::borrow::<Ah>(ah) }?.nic.ahn();
        let attr = efadv_ah_attr { comp_mask: 0, ahn, reserved: [0; 6] };
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
    // SAFETY: the program passes a live domain and its attributes.
    panic::pointer(|| unsafe { qp::create_legacy(pd, attr, Some(driver_type)) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_create_qp_ex(
    context: *mut ibv_context,
    attr: *mut ibv_qp_init_attr_ex,
    efa_attr: *mut efadv_qp_init_attr,
    len: u32,
) -> *mut ibv_qp {
    panic::pointer(|| {
        // SAFETY: the program passes null or a structure of `len` bytes.
        let efa = unsafe { read_prefix::<efadv_qp_init_attr>(efa_attr, len as usize) }?;
        if efa.comp_mask != 0 || efa.reserved != 0 {
            return Err(Errno::EINVAL);
        }
        if efa.flags & !EFADV_QP_FLAGS_UNSOLICITED_WRITE_RECV != 0 {
            return Err(Errno::EOPNOTSUPP);
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
        // SAFETY: the program passes null or a structure of `len` bytes.
        let efa = unsafe { read_prefix::<efadv_cq_init_attr>(efa_attr, len as usize) }?;
        if efa.comp_mask != 0 {
            return Err(Errno::EINVAL);
        }
        // SAFETY: the program passes an open context.
        let caps = unsafe { handle::borrow::<Context>(context) }?.nic.attr().caps;
        if efa.wc_flags & !wc_flags(caps) != 0 {
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
