//! Functions that open a path.
//!
//! `open` and its variants take a mode only with some flags. It is passed on in any case: callees
//! on 64-bit Linux find it in the register of the third or fourth argument, and read it only with
//! these flags. The file of the connection manager opens [`crate::rdmacm`].

use std::ffi::{c_char, c_int};
use std::ptr::null_mut;

use libc::{AT_FDCWD, FILE, O_LARGEFILE, SYS_openat, mode_t};

use super::forward::{call, forward};
use crate::rdmacm;

forward! {
    fn open([path], flags: c_int, mode: mode_t) -> c_int,
        call!(SYS_openat, AT_FDCWD, path, flags, mode),
        rdma_cm rdmacm::open(flags);
    fn open64([path], flags: c_int, mode: mode_t) -> c_int,
        call!(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, mode),
        rdma_cm rdmacm::open(flags);
    fn openat(dir: c_int, [path], flags: c_int, mode: mode_t) -> c_int,
        call!(SYS_openat, dir, path, flags, mode),
        rdma_cm rdmacm::open(flags);
    fn openat64(dir: c_int, [path], flags: c_int, mode: mode_t) -> c_int,
        call!(SYS_openat, dir, path, flags | O_LARGEFILE, mode),
        rdma_cm rdmacm::open(flags);
    // The variants in programs that are built with _FORTIFY_SOURCE.
    fn __open_2([path], flags: c_int) -> c_int,
        call!(SYS_openat, AT_FDCWD, path, flags, 0),
        rdma_cm rdmacm::open(flags);
    fn __open64_2([path], flags: c_int) -> c_int,
        call!(SYS_openat, AT_FDCWD, path, flags | O_LARGEFILE, 0),
        rdma_cm rdmacm::open(flags);
    fn __openat_2(dir: c_int, [path], flags: c_int) -> c_int,
        call!(SYS_openat, dir, path, flags, 0),
        rdma_cm rdmacm::open(flags);
    fn __openat64_2(dir: c_int, [path], flags: c_int) -> c_int,
        call!(SYS_openat, dir, path, flags | O_LARGEFILE, 0),
        rdma_cm rdmacm::open(flags);
    #[found_by_callers]
    fn fopen([path], mode: *const c_char) -> *mut FILE, null_mut();
    #[found_by_callers]
    fn fopen64([path], mode: *const c_char) -> *mut FILE, null_mut();
}
