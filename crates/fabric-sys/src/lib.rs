//! Raw bindings to libfabric 1.17 (API 1.17): only what the `fabric` crate needs.
//!
//! Written by hand against `<rdma/fabric.h>` and its companions. libfabric's API is mostly
//! `static inline` functions that call through tables of function pointers inside each object, so
//! the binary contract is the *layout* of those tables. [`layout`] asserts every size and offset
//! at compile time, and `tests/abi.c` asserts the same numbers against the installed headers.
//!
//! The layout of slots that nobody here calls is kept with the opaque type [`Slot`].

mod attr;
pub mod call;
mod consts;
pub mod layout;
mod msg;
mod object;
mod remote;

pub use attr::*;
pub use consts::*;
pub use msg::*;
pub use object::*;
pub use remote::*;

use std::ffi::{c_char, c_int, c_void};

#[link(name = "fabric")]
unsafe extern "C" {
    /// Lists the fabrics that match `hints`; release the list with [`fi_freeinfo`].
    pub fn fi_getinfo(
        version: u32,
        node: *const c_char,
        service: *const c_char,
        flags: u64,
        hints: *const fi_info,
        info: *mut *mut fi_info,
    ) -> c_int;
    /// Releases a list made by [`fi_getinfo`] or one copy made by [`fi_dupinfo`].
    pub fn fi_freeinfo(info: *mut fi_info);
    /// Copies one entry deeply; a null argument gives an empty entry.
    pub fn fi_dupinfo(info: *const fi_info) -> *mut fi_info;
    /// Opens a fabric (the root object of a provider).
    pub fn fi_fabric(
        attr: *mut fi_fabric_attr,
        fabric: *mut *mut fid_fabric,
        context: *mut c_void,
    ) -> c_int;
    /// The text for a positive libfabric error number; static memory.
    pub fn fi_strerror(errnum: c_int) -> *const c_char;
    /// Writes a readable form of `data` into `buf`.
    pub fn fi_tostr_r(
        buf: *mut c_char,
        len: usize,
        data: *const c_void,
        datatype: c_int,
    ) -> *mut c_char;
    /// The version of the loaded library, major in the upper 16 bits.
    pub fn fi_version() -> u32;
}
