//! The tables behind the inline functions of `verbs.h`, which return `EOPNOTSUPP` for null entries.

use std::ffi::c_int;
use std::mem::zeroed;

use crate::advise;
use crate::channel;
use crate::cq;
use crate::mw;
use crate::post;
use crate::qp;
use crate::query;
use crate::srq;
use crate::sys::{
    ibv_context_ops, ibv_mw, ibv_mw_bind, ibv_qp, ibv_recv_wr, ibv_srq, verbs_context,
};
use crate::td;
use crate::xrcd;

/// Returns the table of every context; its owner fills in what differs.
pub(crate) fn verbs_context() -> verbs_context {
    // SAFETY: null pointers, zero numbers and a zero mutex (the static initialiser of glibc and
    // musl) are valid in every member.
    let mut table: verbs_context = unsafe { zeroed() };
    table.query_port = Some(query::query_port);
    table.query_device_ex = Some(query::query_device_ex);
    table.alloc_td = Some(td::alloc_td);
    table.dealloc_td = Some(td::dealloc_td);
    table.alloc_parent_domain = Some(td::alloc_parent_domain);
    table.create_cq_ex = Some(cq::create_cq_ex);
    table.create_qp_ex = Some(qp::create_qp_ex);
    table.sz = size_of::<verbs_context>();
    fill(&mut table.context.ops);
    table
}

/// Adds the functions that only RoCE devices have.
pub(crate) fn add_roce(table: &mut verbs_context) {
    table.advise_mr = Some(advise::advise_mr);
    table.create_srq_ex = Some(srq::create_srq_ex);
    table.get_srq_num = Some(srq::get_srq_num);
    table.query_rt_values = Some(query::query_rt_values);
    table.open_xrcd = Some(xrcd::open_xrcd);
    table.close_xrcd = Some(xrcd::close_xrcd);
    table.open_qp = Some(qp::open_qp);
    table.context.ops.post_srq_recv = Some(srq::post_srq_recv);
    table.context.ops.alloc_mw = Some(mw::alloc_mw);
    table.context.ops.bind_mw = Some(mw::bind_mw);
    table.context.ops.dealloc_mw = Some(mw::dealloc_mw);
}

/// Fills the older table. Its inline functions do not test for null, so unsupported entries are
/// functions.
fn fill(ops: &mut ibv_context_ops) {
    ops.bind_mw = Some(bind_mw);
    ops.dealloc_mw = Some(dealloc_mw);
    ops.poll_cq = Some(cq::poll_cq);
    ops.req_notify_cq = Some(channel::req_notify_cq);
    ops.post_srq_recv = Some(post_srq_recv);
    ops.post_send = Some(post::post_send);
    ops.post_recv = Some(post::post_recv);
}

unsafe extern "C" fn bind_mw(_qp: *mut ibv_qp, _mw: *mut ibv_mw, _bind: *mut ibv_mw_bind) -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn dealloc_mw(_mw: *mut ibv_mw) -> c_int {
    libc::EOPNOTSUPP
}

unsafe extern "C" fn post_srq_recv(
    _srq: *mut ibv_srq,
    wr: *mut ibv_recv_wr,
    bad_wr: *mut *mut ibv_recv_wr,
) -> c_int {
    if !bad_wr.is_null() {
        // SAFETY: checked for null, and a pointer of the program.
        unsafe { bad_wr.write(wr) };
    }
    libc::EOPNOTSUPP
}
