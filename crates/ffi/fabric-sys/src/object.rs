//! Objects ("fids") and their tables of operations.
#![allow(missing_docs, non_camel_case_types, reason = "libfabric's own names")]

use std::ffi::{c_char, c_int, c_void};

use crate::attr::{fi_av_attr, fi_cq_attr, fi_cq_err_entry, fi_info, fi_link_attr};
use crate::msg::{fi_msg, fi_msg_tagged};
use crate::remote::{fi_ops_atomic, fi_ops_rma};

/// A function pointer of a table that this crate never calls; only its place matters.
pub type Slot = Option<unsafe extern "C" fn()>;

#[repr(C)]
#[derive(Debug)]
pub struct fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *mut fi_ops,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops {
    pub size: usize,
    pub close: Option<unsafe extern "C" fn(*mut fid) -> c_int>,
    pub bind: Option<unsafe extern "C" fn(*mut fid, *mut fid, u64) -> c_int>,
    pub control: Option<unsafe extern "C" fn(*mut fid, c_int, *mut c_void) -> c_int>,
    pub ops_open: Slot,
    pub tostr: Slot,
    pub ops_set: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_fabric {
    pub fid: fid,
    pub ops: *mut fi_ops_fabric,
    pub api_version: u32,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_fabric {
    pub size: usize,
    pub domain: Option<
        unsafe extern "C" fn(
            *mut fid_fabric,
            *mut fi_info,
            *mut *mut fid_domain,
            *mut c_void,
        ) -> c_int,
    >,
    pub passive_ep: Slot,
    pub eq_open: Slot,
    pub wait_open: Slot,
    pub trywait: Option<unsafe extern "C" fn(*mut fid_fabric, *mut *mut fid, c_int) -> c_int>,
    pub domain2: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_domain {
    pub fid: fid,
    pub ops: *mut fi_ops_domain,
    pub mr: *mut fi_ops_mr,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_domain {
    pub size: usize,
    pub av_open: Option<
        unsafe extern "C" fn(
            *mut fid_domain,
            *mut fi_av_attr,
            *mut *mut fid_av,
            *mut c_void,
        ) -> c_int,
    >,
    pub cq_open: Option<
        unsafe extern "C" fn(
            *mut fid_domain,
            *mut fi_cq_attr,
            *mut *mut fid_cq,
            *mut c_void,
        ) -> c_int,
    >,
    pub endpoint: Option<
        unsafe extern "C" fn(*mut fid_domain, *mut fi_info, *mut *mut fid_ep, *mut c_void) -> c_int,
    >,
    pub scalable_ep: Slot,
    pub cntr_open: Slot,
    pub poll_open: Slot,
    pub stx_ctx: Slot,
    pub srx_ctx: Slot,
    pub query_atomic: Slot,
    pub query_collective: Slot,
    pub endpoint2: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_mr {
    pub size: usize,
    pub reg: Option<
        unsafe extern "C" fn(
            *mut fid,
            *const c_void,
            usize,
            u64,
            u64,
            u64,
            u64,
            *mut *mut fid_mr,
            *mut c_void,
        ) -> c_int,
    >,
    pub regv: Slot,
    pub regattr: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_mr {
    pub fid: fid,
    pub mem_desc: *mut c_void,
    pub key: u64,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_av {
    pub fid: fid,
    pub ops: *mut fi_ops_av,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_av {
    pub size: usize,
    pub insert: Option<
        unsafe extern "C" fn(
            *mut fid_av,
            *const c_void,
            usize,
            *mut u64,
            u64,
            *mut c_void,
        ) -> c_int,
    >,
    pub insertsvc: Slot,
    pub insertsym: Slot,
    pub remove: Slot,
    pub lookup: Slot,
    pub straddr: Option<
        unsafe extern "C" fn(*mut fid_av, *const c_void, *mut c_char, *mut usize) -> *const c_char,
    >,
    pub av_set: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_cq {
    pub fid: fid,
    pub ops: *mut fi_ops_cq,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_cq {
    pub size: usize,
    pub read: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize) -> isize>,
    pub readfrom: Option<unsafe extern "C" fn(*mut fid_cq, *mut c_void, usize, *mut u64) -> isize>,
    pub readerr: Option<unsafe extern "C" fn(*mut fid_cq, *mut fi_cq_err_entry, u64) -> isize>,
    pub sread: Slot,
    pub sreadfrom: Slot,
    pub signal: Slot,
    pub strerror: Option<
        unsafe extern "C" fn(
            *mut fid_cq,
            c_int,
            *const c_void,
            *mut c_char,
            usize,
        ) -> *const c_char,
    >,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_ep {
    pub fid: fid,
    pub ops: *mut fi_ops_ep,
    pub cm: *mut fi_ops_cm,
    pub msg: *mut fi_ops_msg,
    pub rma: *mut fi_ops_rma,
    pub tagged: *mut fi_ops_tagged,
    pub atomic: *mut fi_ops_atomic,
    pub collective: *mut c_void,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_ep {
    pub size: usize,
    pub cancel: Slot,
    pub getopt: Slot,
    pub setopt: Option<unsafe extern "C" fn(*mut fid, c_int, c_int, *const c_void, usize) -> c_int>,
    pub tx_ctx: Slot,
    pub rx_ctx: Slot,
    pub rx_size_left: Slot,
    pub tx_size_left: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_cm {
    pub size: usize,
    pub setname: Slot,
    pub getname: Option<unsafe extern "C" fn(*mut fid, *mut c_void, *mut usize) -> c_int>,
    pub getpeer: Slot,
    pub connect: Slot,
    pub listen: Slot,
    pub accept: Slot,
    pub reject: Slot,
    pub shutdown: Slot,
    pub join: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_msg {
    pub size: usize,
    pub recv: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *mut c_void,
            usize,
            *mut c_void,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub recvv: Slot,
    pub recvmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize>,
    pub send: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub sendv: Slot,
    pub sendmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg, u64) -> isize>,
    pub inject: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64) -> isize>,
    pub senddata: Slot,
    pub injectdata: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fi_ops_tagged {
    pub size: usize,
    pub recv: Option<
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
    pub recvv: Slot,
    pub recvmsg: Slot,
    pub send: Option<
        unsafe extern "C" fn(
            *mut fid_ep,
            *const c_void,
            usize,
            *mut c_void,
            u64,
            u64,
            *mut c_void,
        ) -> isize,
    >,
    pub sendv: Slot,
    pub sendmsg: Option<unsafe extern "C" fn(*mut fid_ep, *const fi_msg_tagged, u64) -> isize>,
    pub inject: Option<unsafe extern "C" fn(*mut fid_ep, *const c_void, usize, u64, u64) -> isize>,
    pub senddata: Slot,
    pub injectdata: Slot,
}

#[repr(C)]
#[derive(Debug)]
pub struct fid_nic {
    pub fid: fid,
    pub device_attr: *mut c_void,
    pub bus_attr: *mut c_void,
    pub link_attr: *mut fi_link_attr,
    pub prov_attr: *mut c_void,
}
