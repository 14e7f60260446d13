//! The structures of `infiniband/efadv.h`, as of rdma-core 65. They grow at their end, and a
//! program passes the length it knows.

use std::ffi::c_int;

use super::ibv_gid;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_device_attr {
    pub comp_mask: u64,
    pub max_sq_wr: u32,
    pub max_rq_wr: u32,
    pub max_sq_sge: u16,
    pub max_rq_sge: u16,
    pub inline_buf_size: u16,
    /// Length of inline data; reserved before rdma-core 63.
    pub inline_buf_size_ex: u16,
    pub device_caps: u32,
    pub max_rdma_size: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_ah_attr {
    pub comp_mask: u64,
    pub ahn: u16,
    pub reserved: [u8; 6],
}

/// Members behind `driver_qp_type` were reserved bytes before rdma-core 57, `wr_flags` came
/// with 64.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_qp_init_attr {
    pub comp_mask: u64,
    pub driver_qp_type: u32,
    pub flags: u16,
    pub sl: u8,
    pub reserved: u8,
    pub wr_flags: u64,
}

#[repr(C)]
pub struct efadv_cq {
    pub comp_mask: u64,
    pub wc_read_sgid: Option<unsafe extern "C" fn(*mut efadv_cq, *mut ibv_gid) -> c_int>,
    pub wc_is_unsolicited: Option<unsafe extern "C" fn(*mut efadv_cq) -> bool>,
}

#[repr(C)]
pub struct efadv_qp {
    pub comp_mask: u64,
    pub wr_set_processing_hints: Option<unsafe extern "C" fn(*mut efadv_qp, u32)>,
}

/// `flags` and what follows it came with rdma-core 59.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_cq_init_attr {
    pub comp_mask: u64,
    pub wc_flags: u64,
    pub flags: u64,
    pub ext_mem_dmabuf: efadv_ext_mem_dmabuf,
}

/// A union that is unnamed in the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_ext_mem_dmabuf {
    pub buffer: *mut u8,
    pub length: u64,
    pub offset: u64,
    pub fd: i32,
    pub reserved: [u8; 4],
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_sq_depth_attr {
    pub comp_mask: u64,
    pub flags: u32,
    pub max_send_sge: u32,
    pub max_rdma_sge: u32,
    pub max_inline_data: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_rq_depth_attr {
    pub comp_mask: u64,
    pub max_recv_sge: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct efadv_mr_attr {
    pub comp_mask: u64,
    pub ic_id_validity: u16,
    pub recv_ic_id: u16,
    pub rdma_read_ic_id: u16,
    pub rdma_recv_ic_id: u16,
}
