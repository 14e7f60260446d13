use std::ffi::{c_int, c_void};

use super::{
    Unused, ibv_cq, ibv_cq_ex, ibv_cq_init_attr_ex, ibv_device, ibv_device_attr_ex,
    ibv_parent_domain_init_attr, ibv_pd, ibv_port_attr, ibv_qp, ibv_qp_init_attr_ex, ibv_recv_wr,
    ibv_send_wr, ibv_td, ibv_td_init_attr, ibv_wc,
};

#[repr(C)]
pub(crate) struct ibv_context_ops {
    pub(crate) _compat_query_device: Unused,
    pub(crate) _compat_query_port: Unused,
    pub(crate) _compat_alloc_pd_to_dereg_mr: [Unused; 5],
    pub(crate) alloc_mw: Unused,
    pub(crate) bind_mw:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut c_void, *mut c_void) -> c_int>,
    pub(crate) dealloc_mw: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    pub(crate) _compat_create_cq: Unused,
    pub(crate) poll_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int, *mut ibv_wc) -> c_int>,
    pub(crate) req_notify_cq: Option<unsafe extern "C" fn(*mut ibv_cq, c_int) -> c_int>,
    pub(crate) _compat_cq_event_to_destroy_srq: [Unused; 7],
    pub(crate) post_srq_recv:
        Option<unsafe extern "C" fn(*mut c_void, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(crate) _compat_create_qp_to_destroy_qp: [Unused; 4],
    pub(crate) post_send:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_send_wr, *mut *mut ibv_send_wr) -> c_int>,
    pub(crate) post_recv:
        Option<unsafe extern "C" fn(*mut ibv_qp, *mut ibv_recv_wr, *mut *mut ibv_recv_wr) -> c_int>,
    pub(crate) _compat_create_ah_to_async_event: [Unused; 5],
}

#[repr(C)]
pub(crate) struct ibv_context {
    pub(crate) device: *mut ibv_device,
    pub(crate) ops: ibv_context_ops,
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) abi_compat: *mut c_void,
}

#[repr(C)]
pub(crate) struct verbs_context {
    pub(crate) query_port:
        Option<unsafe extern "C" fn(*mut ibv_context, u8, *mut ibv_port_attr, usize) -> c_int>,
    pub(crate) advise_mr: Unused,
    pub(crate) alloc_null_mr: Unused,
    pub(crate) read_counters: Unused,
    pub(crate) attach_counters_point_flow: Unused,
    pub(crate) create_counters: Unused,
    pub(crate) destroy_counters: Unused,
    pub(crate) reg_dm_mr: Unused,
    pub(crate) alloc_dm: Unused,
    pub(crate) free_dm: Unused,
    pub(crate) modify_flow_action_esp: Unused,
    pub(crate) destroy_flow_action: Unused,
    pub(crate) create_flow_action_esp: Unused,
    pub(crate) modify_qp_rate_limit: Unused,
    pub(crate) alloc_parent_domain: Option<
        unsafe extern "C" fn(*mut ibv_context, *mut ibv_parent_domain_init_attr) -> *mut ibv_pd,
    >,
    pub(crate) dealloc_td: Option<unsafe extern "C" fn(*mut ibv_td) -> c_int>,
    pub(crate) alloc_td:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_td_init_attr) -> *mut ibv_td>,
    pub(crate) modify_cq: Unused,
    pub(crate) post_srq_ops: Unused,
    pub(crate) destroy_rwq_ind_table: Unused,
    pub(crate) create_rwq_ind_table: Unused,
    pub(crate) destroy_wq: Unused,
    pub(crate) modify_wq: Unused,
    pub(crate) create_wq: Unused,
    pub(crate) query_rt_values: Unused,
    pub(crate) create_cq_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_cq_init_attr_ex) -> *mut ibv_cq_ex>,
    pub(crate) private: *mut c_void,
    pub(crate) query_device_ex: Option<
        unsafe extern "C" fn(*mut ibv_context, *const u32, *mut ibv_device_attr_ex, usize) -> c_int,
    >,
    pub(crate) ibv_destroy_flow: Unused,
    pub(crate) abi_placeholder2: Unused,
    pub(crate) ibv_create_flow: Unused,
    pub(crate) abi_placeholder1: Unused,
    pub(crate) open_qp: Unused,
    pub(crate) create_qp_ex:
        Option<unsafe extern "C" fn(*mut ibv_context, *mut ibv_qp_init_attr_ex) -> *mut ibv_qp>,
    pub(crate) get_srq_num: Unused,
    pub(crate) create_srq_ex: Unused,
    pub(crate) open_xrcd: Unused,
    pub(crate) close_xrcd: Unused,
    pub(crate) abi_placeholder3: u64,
    pub(crate) sz: usize,
    pub(crate) context: ibv_context,
}

/// Value of `ibv_context.abi_compat` that says "a `verbs_context` surrounds me".
pub(crate) const VERBS_ABI_IS_EXTENDED: usize = usize::MAX;
