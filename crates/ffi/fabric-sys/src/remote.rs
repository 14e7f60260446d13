//! Tables of the operations on a peer's memory: RMA and atomics.
#![allow(missing_docs, non_camel_case_types, reason = "libfabric's own names")]
#![allow(clippy::type_complexity, reason = "libfabric's own arguments, in its order")]

use std::ffi::{c_int, c_uint, c_void};

use crate::msg::fi_msg_rma;
use crate::object::{Slot, fid_ep};

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_rma {
    pub size: usize,
    pub read: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *mut c_void,
            usize,
            *mut c_void,
            u64,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub readv: Slot,
    pub readmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub write: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub writev: Slot,
    pub writemsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_rma, u64) -> isize>,
    pub inject:
        Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, u64, u64) -> isize>,
    pub writedata: Slot,
    pub injectdata: Slot,
}

/// A query whether a datatype and an operation go together, and how many elements fit at most.
pub type AtomicValid =
    Option<unsafe extern "C" fn(*mut fid_ep, c_uint, c_uint, *mut usize) -> c_int>;

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_atomic {
    pub size: usize,
    pub write: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            u64,
            u64,
            c_uint,
            c_uint,
            *mut c_void,
        ) -> isize,
    >,
    pub writev: Slot,
    pub writemsg: Slot,
    pub inject: Slot,
    pub readwrite: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            u64,
            u64,
            u64,
            c_uint,
            c_uint,
            *mut c_void,
        ) -> isize,
    >,
    pub readwritev: Slot,
    pub readwritemsg: Slot,
    pub compwrite: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            *const c_void,
            *mut c_void,
            *mut c_void,
            *mut c_void,
            u64,
            u64,
            u64,
            c_uint,
            c_uint,
            *mut c_void,
        ) -> isize,
    >,
    pub compwritev: Slot,
    pub compwritemsg: Slot,
    pub writevalid: AtomicValid,
    pub readwritevalid: AtomicValid,
    pub compwritevalid: AtomicValid,
}
