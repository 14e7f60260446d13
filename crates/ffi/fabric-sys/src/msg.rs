//! Arguments of the calls that take flags: a message, its memory and its immediate data in one.
#![allow(missing_docs, non_camel_case_types, reason = "libfabric's own names")]

use std::ffi::c_void;

/// `struct iovec` of the system.
#[repr(C)]
#[derive(Debug)]
pub struct fi_iovec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_msg {
    pub msg_iov: *const fi_iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_msg_tagged {
    pub msg_iov: *const fi_iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_rma_iov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_msg_rma {
    pub msg_iov: *const fi_iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: u64,
    pub rma_iov: *const fi_rma_iov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}
