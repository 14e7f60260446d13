use std::ffi::c_int;

use super::ibv_gid;

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct efadv_device_attr {
    pub(crate) comp_mask: u64,
    pub(crate) max_sq_wr: u32,
    pub(crate) max_rq_wr: u32,
    pub(crate) max_sq_sge: u16,
    pub(crate) max_rq_sge: u16,
    pub(crate) inline_buf_size: u16,
    pub(crate) reserved: [u8; 2],
    pub(crate) device_caps: u32,
    pub(crate) max_rdma_size: u32,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct efadv_ah_attr {
    pub(crate) comp_mask: u64,
    pub(crate) ahn: u16,
    pub(crate) reserved: [u8; 6],
}

/// As of rdma-core 57: members behind `driver_qp_type` were reserved bytes before.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct efadv_qp_init_attr {
    pub(crate) comp_mask: u64,
    pub(crate) driver_qp_type: u32,
    pub(crate) flags: u16,
    pub(crate) sl: u8,
    pub(crate) reserved: u8,
}

#[repr(C)]
pub(crate) struct efadv_cq {
    pub(crate) comp_mask: u64,
    pub(crate) wc_read_sgid: Option<unsafe extern "C" fn(*mut efadv_cq, *mut ibv_gid) -> c_int>,
    pub(crate) wc_is_unsolicited: Option<unsafe extern "C" fn(*mut efadv_cq) -> bool>,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct efadv_cq_init_attr {
    pub(crate) comp_mask: u64,
    pub(crate) wc_flags: u64,
}
