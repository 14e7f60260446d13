use std::ffi::{c_int, c_uint, c_void};

use super::{Unused, ibv_comp_channel, ibv_context, ibv_pd};

#[repr(C)]
pub(crate) struct ibv_cq {
    pub(crate) context: *mut ibv_context,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    pub(crate) mutex: libc::pthread_mutex_t,
    pub(crate) cond: libc::pthread_cond_t,
    pub(crate) comp_events_completed: u32,
    pub(crate) async_events_completed: u32,
}

#[repr(C)]
pub(crate) struct ibv_poll_cq_attr {
    pub(crate) comp_mask: u32,
}

pub(crate) type CqReadU32 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u32;
pub(crate) type CqReadU8 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u8;

#[repr(C)]
pub(crate) struct ibv_cq_ex {
    /// The same members as in `struct ibv_cq_ex`, where they are repeated one by one.
    pub(crate) base: ibv_cq,
    pub(crate) comp_mask: u32,
    pub(crate) status: c_int,
    pub(crate) wr_id: u64,
    pub(crate) start_poll:
        Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    pub(crate) next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    pub(crate) end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    pub(crate) read_opcode: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    pub(crate) read_vendor_err: Option<CqReadU32>,
    pub(crate) read_byte_len: Option<CqReadU32>,
    pub(crate) read_imm_data: Option<CqReadU32>,
    pub(crate) read_qp_num: Option<CqReadU32>,
    pub(crate) read_src_qp: Option<CqReadU32>,
    pub(crate) read_wc_flags: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_uint>,
    pub(crate) read_slid: Option<CqReadU32>,
    pub(crate) read_sl: Option<CqReadU8>,
    pub(crate) read_dlid_path_bits: Option<CqReadU8>,
    pub(crate) read_completion_ts: Unused,
    pub(crate) read_cvlan: Unused,
    pub(crate) read_flow_tag: Unused,
    pub(crate) read_tm_info: Unused,
    pub(crate) read_completion_wallclock_ns: Unused,
}

#[repr(C)]
pub(crate) struct ibv_cq_init_attr_ex {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut ibv_comp_channel,
    pub(crate) comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut ibv_pd,
}
