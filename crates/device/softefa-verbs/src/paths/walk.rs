//! Functions that follow links and list directories.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::null_mut;

use libc::{AT_FDCWD, DIR, SYS_chdir, SYS_readlinkat, size_t, ssize_t};

use super::forward::{call, forward};

forward! {
    fn readlink([path], out: *mut c_char, size: size_t) -> ssize_t,
        call!(SYS_readlinkat, AT_FDCWD, path, out, size) as ssize_t;
    fn readlinkat(dir: c_int, [path], out: *mut c_char, size: size_t) -> ssize_t,
        call!(SYS_readlinkat, dir, path, out, size) as ssize_t;
    #[found_by_callers]
    fn realpath([path], out: *mut c_char) -> *mut c_char, null_mut();
    #[found_by_callers]
    fn canonicalize_file_name([path]) -> *mut c_char, null_mut();
    // The variants in programs that are built with _FORTIFY_SOURCE.
    fn __readlink_chk([path], out: *mut c_char, size: size_t, room: size_t) -> ssize_t,
        call!(SYS_readlinkat, AT_FDCWD, path, out, size.min(room)) as ssize_t;
    fn __readlinkat_chk(dir: c_int, [path], out: *mut c_char, size: size_t, room: size_t) -> ssize_t,
        call!(SYS_readlinkat, dir, path, out, size.min(room)) as ssize_t;
    #[found_by_callers]
    fn __realpath_chk([path], out: *mut c_char, room: size_t) -> *mut c_char, null_mut();
    #[found_by_callers]
    fn opendir([path]) -> *mut DIR, null_mut();
    fn chdir([path]) -> c_int, call!(SYS_chdir, path);
    // The callbacks take pointers of their own types, which are passed on unread.
    #[found_by_callers]
    fn scandir([path], list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int, -1;
    #[found_by_callers]
    fn scandir64([path], list: *mut c_void, filter: *const c_void, order: *const c_void) -> c_int, -1;
    #[found_by_callers]
    fn glob([path], flags: c_int, failed: *const c_void, out: *mut c_void) -> c_int, libc::GLOB_ABORTED;
    #[found_by_callers]
    fn glob64([path], flags: c_int, failed: *const c_void, out: *mut c_void) -> c_int, libc::GLOB_ABORTED;
}
