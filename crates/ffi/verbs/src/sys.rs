//! Functions of libibverbs and libefa: exported ones, and the inline functions of their headers.
//!
//! The binary contract of the inline functions is the layout of the tables they call through
//! (`verbs-abi`). Every function is `unsafe`: objects must be alive and pointers as the manual page
//! of the C function of the same name demands.
//!
//! Exported functions return that there is nothing until their library is open (`library`).

use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr::null_mut;

use verbs_abi::*;

use crate::library::{Functions, exported};

/// The code `ENOSYS`, for an entry that a device's table lacks and a function of a library that is
/// not there.
const MISSING: c_int = libc::ENOSYS;

exported! { Verbs of "libibverbs.so.1":
    fn ibv_get_device_list(count: *mut c_int) -> *mut *mut ibv_device, else null_mut();
    fn ibv_free_device_list(list: *mut *mut ibv_device), else ();
    fn ibv_get_device_name(device: *mut ibv_device) -> *const c_char, else c"".as_ptr();
    fn ibv_open_device(device: *mut ibv_device) -> *mut ibv_context, else null_mut();
    fn ibv_close_device(context: *mut ibv_context) -> c_int, else MISSING;
    fn ibv_query_device(context: *mut ibv_context, attr: *mut ibv_device_attr) -> c_int,
        else MISSING;
    fn ibv_query_port(context: *mut ibv_context, port: u8, attr: *mut ibv_port_attr) -> c_int,
        else MISSING;
    fn ibv_query_gid(context: *mut ibv_context, port: u8, index: c_int, gid: *mut ibv_gid) -> c_int,
        else MISSING;
    fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd, else null_mut();
    fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int, else MISSING;
    fn ibv_reg_mr(pd: *mut ibv_pd, start: *mut c_void, len: usize, access: c_int) -> *mut ibv_mr,
        else null_mut();
    fn ibv_dereg_mr(mr: *mut ibv_mr) -> c_int, else MISSING;
    fn ibv_create_comp_channel(context: *mut ibv_context) -> *mut ibv_comp_channel,
        else null_mut();
    fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int, else MISSING;
    fn ibv_get_cq_event(channel: *mut ibv_comp_channel, cq: *mut *mut ibv_cq,
        cq_context: *mut *mut c_void) -> c_int, else MISSING;
    fn ibv_ack_cq_events(cq: *mut ibv_cq, count: u32), else ();
    fn ibv_create_cq(context: *mut ibv_context, entries: c_int, cq_context: *mut c_void,
        channel: *mut ibv_comp_channel, vector: c_int) -> *mut ibv_cq, else null_mut();
    fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int, else MISSING;
    fn ibv_create_qp(pd: *mut ibv_pd, attr: *mut ibv_qp_init_attr) -> *mut ibv_qp,
        else null_mut();
    fn ibv_qp_to_qp_ex(qp: *mut ibv_qp) -> *mut ibv_qp_ex, else null_mut();
    fn ibv_destroy_qp(qp: *mut ibv_qp) -> c_int, else MISSING;
    fn ibv_modify_qp(qp: *mut ibv_qp, attr: *mut ibv_qp_attr, mask: c_int) -> c_int, else MISSING;
    fn ibv_create_ah(pd: *mut ibv_pd, attr: *mut ibv_ah_attr) -> *mut ibv_ah, else null_mut();
    fn ibv_destroy_ah(ah: *mut ibv_ah) -> c_int, else MISSING;
    fn ibv_wc_status_str(status: c_int) -> *const c_char, else std::ptr::null();
}

exported! { GidTable of "libibverbs.so.1":
    fn _ibv_query_gid_table(context: *mut ibv_context, entries: *mut ibv_gid_entry, room: usize,
        flags: u32, entry_len: usize) -> isize, else -(MISSING as isize);
}

exported! { Efa of "libefa.so.1":
    fn efadv_query_device(context: *mut ibv_context, attr: *mut efadv_device_attr, len: u32)
        -> c_int, else MISSING;
    fn efadv_create_qp_ex(context: *mut ibv_context, attr: *mut ibv_qp_init_attr_ex,
        efa_attr: *mut efadv_qp_init_attr, len: u32) -> *mut ibv_qp, else null_mut();
}

/// Queries the facts of a port.
///
/// # Safety
/// The context is open, `attr` can be written.
pub(crate) unsafe fn query_port(
    context: *mut ibv_context,
    port: u8,
    attr: *mut ibv_port_attr,
) -> c_int {
    // SAFETY: an open context; one that says so lies inside a `verbs_context`, whose last members
    // are there from `sz` bytes before its end on (`verbs_get_ctx_op` of the header).
    unsafe {
        if (*context).abi_compat as usize == VERBS_ABI_IS_EXTENDED {
            let outer =
                context.byte_sub(offset_of!(verbs_context, context)).cast::<verbs_context>();
            let has = size_of::<verbs_context>() - offset_of!(verbs_context, query_port);
            if (*outer).sz >= has {
                if let Some(query) = (*outer).query_port {
                    return query(context, port, attr, size_of::<ibv_port_attr>());
                }
            }
        }
        attr.write_bytes(0, 1);
        ibv_query_port(context, port, attr)
    }
}

/// Takes up to `count` completions; negative on failure.
///
/// # Safety
/// The queue is alive, `found` has room for `count`.
#[inline]
pub(crate) unsafe fn poll_cq(cq: *mut ibv_cq, count: c_int, found: *mut ibv_wc) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        match (*(*cq).context).ops.poll_cq {
            Some(poll) => poll(cq, count, found),
            None => -MISSING,
        }
    }
}

/// Asks for an event at the next completion; at the next solicited one if `solicited_only` is 1.
///
/// # Safety
/// The queue is alive.
pub(crate) unsafe fn req_notify_cq(cq: *mut ibv_cq, solicited_only: c_int) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        match (*(*cq).context).ops.req_notify_cq {
            Some(notify) => notify(cq, solicited_only),
            None => MISSING,
        }
    }
}

/// Posts a list of sends; on failure `bad` is the first that was not posted.
///
/// # Safety
/// The queue pair is alive, the list and what it names are valid.
#[inline]
pub(crate) unsafe fn post_send(
    qp: *mut ibv_qp,
    list: *mut ibv_send_wr,
    bad: &mut *mut ibv_send_wr,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe {
        match (*(*qp).context).ops.post_send {
            Some(post) => post(qp, list, bad),
            None => MISSING,
        }
    }
}

/// Posts a list of receives.
///
/// # Safety
/// The conditions of [`post_send`] hold.
#[inline]
pub(crate) unsafe fn post_recv(qp: *mut ibv_qp, list: *mut ibv_recv_wr) -> c_int {
    let mut bad = null_mut();
    // SAFETY: promised by the caller.
    unsafe {
        match (*(*qp).context).ops.post_recv {
            Some(post) => post(qp, list, &raw mut bad),
            None => MISSING,
        }
    }
}
