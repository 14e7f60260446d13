use std::ffi::{c_int, c_uint, c_void};

use super::{Unused, ibv_comp_channel, ibv_context, ibv_pd};

#[repr(C)]
pub struct ibv_cq {
    pub context: *mut ibv_context,
    pub channel: *mut ibv_comp_channel,
    pub cq_context: *mut c_void,
    pub handle: u32,
    pub cqe: c_int,
    pub mutex: libc::pthread_mutex_t,
    pub cond: libc::pthread_cond_t,
    pub comp_events_completed: u32,
    pub async_events_completed: u32,
}

#[repr(C)]
pub struct ibv_poll_cq_attr {
    pub comp_mask: u32,
}

pub type CqReadU32 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u32;
pub type CqReadU8 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u8;

/// The signature of the functions of `ibv_cq_ex` that read a time.
pub type CqReadU64 = unsafe extern "C" fn(*mut ibv_cq_ex) -> u64;

#[repr(C)]
pub struct ibv_cq_ex {
    /// Members of `ibv_cq`, which `struct ibv_cq_ex` repeats one by one.
    pub base: ibv_cq,
    pub comp_mask: u32,
    pub status: c_int,
    pub wr_id: u64,
    pub start_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex, *mut ibv_poll_cq_attr) -> c_int>,
    pub next_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    pub end_poll: Option<unsafe extern "C" fn(*mut ibv_cq_ex)>,
    pub read_opcode: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_int>,
    pub read_vendor_err: Option<CqReadU32>,
    pub read_byte_len: Option<CqReadU32>,
    pub read_imm_data: Option<CqReadU32>,
    pub read_qp_num: Option<CqReadU32>,
    pub read_src_qp: Option<CqReadU32>,
    pub read_wc_flags: Option<unsafe extern "C" fn(*mut ibv_cq_ex) -> c_uint>,
    pub read_slid: Option<CqReadU32>,
    pub read_sl: Option<CqReadU8>,
    pub read_dlid_path_bits: Option<CqReadU8>,
    pub read_completion_ts: Option<CqReadU64>,
    pub read_cvlan: Unused,
    pub read_flow_tag: Unused,
    pub read_tm_info: Unused,
    pub read_completion_wallclock_ns: Option<CqReadU64>,
}

#[repr(C)]
pub struct ibv_cq_init_attr_ex {
    pub cqe: u32,
    pub cq_context: *mut c_void,
    pub channel: *mut ibv_comp_channel,
    pub comp_vector: u32,
    pub wc_flags: u64,
    pub comp_mask: u32,
    pub flags: u32,
    pub parent_domain: *mut ibv_pd,
}
