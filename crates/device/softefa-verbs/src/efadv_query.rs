//! Queries that came with the direct verbs of rdma-core 50 and newer: queue depths, and the
//! interconnect of a memory region.

use std::ffi::c_int;
use std::mem::offset_of;

use softefa::DeviceAttr;

use crate::efadv::{attr_of_efa, check_room, read_prefix};
use crate::errno::Errno;
use crate::panic;
use crate::query::write_prefix;
use crate::sys::{
    EFADV_SQ_DEPTH_ATTR_INLINE_WRITE, efadv_mr_attr, efadv_rq_depth_attr, efadv_sq_depth_attr,
    ibv_context, ibv_mr,
};

/// The local entries of an RDMA operation.
const RDMA_SGE_MAX: u32 = 1;

/// Returns the most work requests of a send queue. Entries of 128 bytes instead of 64, which inline
/// WRITEs need, halve it.
pub(crate) fn max_sq_depth(attr: &DeviceAttr, inline_write: bool) -> u32 {
    if inline_write { attr.max_sq_wr / 2 } else { attr.max_sq_wr }
}

/// Wraps functions that return a number, or a negative errno value.
fn number(body: impl FnOnce() -> Result<u32, Errno>) -> c_int {
    let mut number = 0;
    let code = panic::code(|| {
        number = body()?;
        Ok(())
    });
    if code == 0 { c_int::try_from(number).unwrap_or(c_int::MAX) } else { -code }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_get_max_sq_depth(
    context: *mut ibv_context,
    asked: *mut efadv_sq_depth_attr,
    len: u32,
) -> c_int {
    number(|| {
        // SAFETY: the program passes an open context.
        let attr = unsafe { attr_of_efa(context) }?;
        // SAFETY: the program passes null or a structure of `len` bytes.
        let asked = unsafe { read_prefix(asked, len as usize, size_of::<efadv_sq_depth_attr>()) }?;
        let fits = asked.comp_mask == 0
            && asked.max_send_sge <= u32::from(attr.max_sq_sge)
            && asked.max_rdma_sge <= RDMA_SGE_MAX
            && asked.max_inline_data <= u32::from(attr.inline_bytes);
        let inline_write = asked.flags & EFADV_SQ_DEPTH_ATTR_INLINE_WRITE != 0;
        if fits { Ok(max_sq_depth(attr, inline_write)) } else { Err(Errno::EINVAL) }
    })
}

/// Zero entries are invalid; libefa divides by them.
#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_get_max_rq_depth(
    context: *mut ibv_context,
    asked: *mut efadv_rq_depth_attr,
    len: u32,
) -> c_int {
    const LEAST: usize = offset_of!(efadv_rq_depth_attr, max_recv_sge) + size_of::<u32>();
    number(|| {
        // SAFETY: the program passes an open context.
        let attr = unsafe { attr_of_efa(context) }?;
        // SAFETY: the program passes null or a structure of `len` bytes.
        let asked = unsafe { read_prefix(asked, len as usize, LEAST) }?;
        if asked.comp_mask != 0 || asked.max_recv_sge > u32::from(attr.max_rq_sge) {
            return Err(Errno::EINVAL);
        }
        attr.max_rq_wr.checked_div(asked.max_recv_sge).ok_or(Errno::EINVAL)
    })
}

/// Devices with a single interconnect return no information about it.
#[unsafe(no_mangle)]
unsafe extern "C" fn efadv_query_mr(mr: *mut ibv_mr, out: *mut efadv_mr_attr, len: u32) -> c_int {
    panic::code(|| {
        // SAFETY: null, or a live region, whose context is open.
        if let Some(mr) = unsafe { mr.as_ref() } {
            // SAFETY: the same.
            unsafe { attr_of_efa(mr.context) }?;
        }
        check_room(len, size_of::<efadv_mr_attr>())?;
        let attr = efadv_mr_attr {
            comp_mask: 0,
            ic_id_validity: 0,
            recv_ic_id: 0,
            rdma_read_ic_id: 0,
            rdma_recv_ic_id: 0,
        };
        // SAFETY: the program passes null or a structure of `len` bytes.
        unsafe { write_prefix(out, len as usize, &attr) }
    })
}
