//! Constants of `<rdma/fabric.h>`, `<rdma/fi_errno.h>`, `<rdma/fi_eq.h>`.
#![allow(missing_docs, reason = "names and meanings are libfabric's own, see its manual pages")]

use std::ffi::{c_int, c_uint};

pub const fn fi_make_version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

pub const FI_MSG: u64 = 1 << 1;
pub const FI_RMA: u64 = 1 << 2;
pub const FI_TAGGED: u64 = 1 << 3;
pub const FI_ATOMIC: u64 = 1 << 4;
pub const FI_READ: u64 = 1 << 8;
pub const FI_WRITE: u64 = 1 << 9;
pub const FI_RECV: u64 = 1 << 10;
pub const FI_SEND: u64 = 1 << 11;
pub const FI_TRANSMIT: u64 = FI_SEND;
pub const FI_REMOTE_READ: u64 = 1 << 12;
pub const FI_REMOTE_WRITE: u64 = 1 << 13;
pub const FI_MULTI_RECV: u64 = 1 << 16;
pub const FI_REMOTE_CQ_DATA: u64 = 1 << 17;
pub const FI_MORE: u64 = 1 << 18;
pub const FI_COMPLETION: u64 = 1 << 24;
pub const FI_DELIVERY_COMPLETE: u64 = 1 << 28;
pub const FI_SELECTIVE_COMPLETION: u64 = 1 << 59;
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

pub const FI_OPT_ENDPOINT: c_int = 0;
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;

pub const FI_INT8: c_uint = 0;
pub const FI_UINT8: c_uint = 1;
pub const FI_INT16: c_uint = 2;
pub const FI_UINT16: c_uint = 3;
pub const FI_INT32: c_uint = 4;
pub const FI_UINT32: c_uint = 5;
pub const FI_INT64: c_uint = 6;
pub const FI_UINT64: c_uint = 7;
pub const FI_FLOAT: c_uint = 8;
pub const FI_DOUBLE: c_uint = 9;

pub const FI_MIN: c_uint = 0;
pub const FI_MAX: c_uint = 1;
pub const FI_SUM: c_uint = 2;
pub const FI_PROD: c_uint = 3;
pub const FI_LOR: c_uint = 4;
pub const FI_LAND: c_uint = 5;
pub const FI_BOR: c_uint = 6;
pub const FI_BAND: c_uint = 7;
pub const FI_LXOR: c_uint = 8;
pub const FI_BXOR: c_uint = 9;
pub const FI_ATOMIC_READ: c_uint = 10;
pub const FI_ATOMIC_WRITE: c_uint = 11;
pub const FI_CSWAP: c_uint = 12;
pub const FI_CSWAP_NE: c_uint = 13;
pub const FI_CSWAP_LE: c_uint = 14;
pub const FI_CSWAP_LT: c_uint = 15;
pub const FI_CSWAP_GE: c_uint = 16;
pub const FI_CSWAP_GT: c_uint = 17;
pub const FI_MSWAP: c_uint = 18;

pub const FI_AV_UNSPEC: c_uint = 0;
pub const FI_AV_TABLE: c_uint = 2;
pub const FI_PROGRESS_MANUAL: c_uint = 2;
pub const FI_THREAD_DOMAIN: c_uint = 3;
pub const FI_CQ_FORMAT_MSG: c_uint = 2;
pub const FI_CQ_FORMAT_TAGGED: c_uint = 4;
pub const FI_WAIT_NONE: c_uint = 0;
pub const FI_WAIT_FD: c_uint = 3;
pub const FI_GETWAIT: c_int = 5;
pub const FI_ENABLE: c_int = 6;
pub const FI_TYPE_INFO: c_int = 0;

pub const FI_ADDR_UNSPEC: u64 = u64::MAX;

pub const FI_EAGAIN: c_int = 11;
pub const FI_ENODATA: c_int = 61;
pub const FI_EAVAIL: c_int = 259;
pub const FI_ETOOSMALL: c_int = 257;
