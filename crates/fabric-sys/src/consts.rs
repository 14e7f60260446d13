//! Constants of `<rdma/fabric.h>`, `<rdma/fi_errno.h>`, `<rdma/fi_eq.h>`.
#![allow(missing_docs, reason = "names and meanings are libfabric's own, see its manual pages")]

use std::ffi::{c_int, c_uint};

pub const fn fi_make_version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

pub const FI_MSG: u64 = 1 << 1;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_TRANSMIT: u64 = FI_SEND;
pub const FI_SOURCE: u64 = 1 << 57;
pub const FI_NUMERICHOST: u64 = 1 << 55;

pub const FI_CONTEXT: u64 = 1 << 59;
pub const FI_MSG_PREFIX: u64 = 1 << 58;
pub const FI_CONTEXT2: u64 = 1 << 52;

pub const FI_MR_LOCAL: c_int = 1 << 2;
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub const FI_MR_ALLOCATED: c_int = 1 << 5;
pub const FI_MR_PROV_KEY: c_int = 1 << 6;

pub const FI_EP_DGRAM: c_uint = 2;
pub const FI_EP_RDM: c_uint = 3;

pub const FI_AV_UNSPEC: c_uint = 0;
pub const FI_AV_TABLE: c_uint = 2;
pub const FI_PROGRESS_MANUAL: c_uint = 2;
pub const FI_THREAD_DOMAIN: c_uint = 3;
pub const FI_CQ_FORMAT_MSG: c_uint = 2;
pub const FI_CQ_FORMAT_TAGGED: c_uint = 4;
pub const FI_WAIT_NONE: c_uint = 0;
pub const FI_ENABLE: c_int = 6;
pub const FI_TYPE_INFO: c_int = 0;

pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub const FI_EAGAIN: c_int = 11;
pub const FI_ENODATA: c_int = 61;
pub const FI_EAVAIL: c_int = 259;
pub const FI_ETOOSMALL: c_int = 257;
