//! Functions that query a path. They know the device files, too ([`crate::devnode`]).

use std::ffi::{c_char, c_int, c_uint, c_void};

use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, size_t, ssize_t};
use libc::{SYS_faccessat, SYS_newfstatat, SYS_statx};
use libc::{SYS_getxattr, SYS_lgetxattr, SYS_listxattr, SYS_llistxattr};

use super::forward::{call, forward};
use crate::devnode;

// On 64-bit Linux the C library's structure is the kernel's, and the functions with 64 use the same
// one.
forward! {
    fn stat([path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, 0),
        device(node) devnode::write_stat(node, out);
    fn stat64([path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, 0),
        device(node) devnode::write_stat(node, out);
    fn lstat([path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW),
        device(node) devnode::write_stat(node, out);
    fn lstat64([path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW),
        device(node) devnode::write_stat(node, out);
    fn fstatat(dir: c_int, [path], out: *mut libc::stat, flags: c_int) -> c_int,
        call!(SYS_newfstatat, dir, path, out, flags),
        device(node) devnode::write_stat(node, out);
    fn fstatat64(dir: c_int, [path], out: *mut libc::stat, flags: c_int) -> c_int,
        call!(SYS_newfstatat, dir, path, out, flags),
        device(node) devnode::write_stat(node, out);
    // The variants before glibc 2.33; programs in portable packages (wheels) call them.
    fn __xstat(_version: c_int, [path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, 0),
        device(node) devnode::write_stat(node, out);
    fn __xstat64(_version: c_int, [path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, 0),
        device(node) devnode::write_stat(node, out);
    fn __lxstat(_version: c_int, [path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW),
        device(node) devnode::write_stat(node, out);
    fn __lxstat64(_version: c_int, [path], out: *mut libc::stat) -> c_int,
        call!(SYS_newfstatat, AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW),
        device(node) devnode::write_stat(node, out);
    fn __fxstatat(_version: c_int, dir: c_int, [path], out: *mut libc::stat, flags: c_int) -> c_int,
        call!(SYS_newfstatat, dir, path, out, flags),
        device(node) devnode::write_stat(node, out);
    fn __fxstatat64(_version: c_int, dir: c_int, [path], out: *mut libc::stat, flags: c_int) -> c_int,
        call!(SYS_newfstatat, dir, path, out, flags),
        device(node) devnode::write_stat(node, out);
    fn statx(dir: c_int, [path], flags: c_int, mask: c_uint, out: *mut libc::statx) -> c_int,
        call!(SYS_statx, dir, path, flags, mask, out),
        device(node) devnode::write_statx(node, out);
    fn access([path], mode: c_int) -> c_int,
        call!(SYS_faccessat, AT_FDCWD, path, mode),
        device(_node) devnode::access(mode);
    fn faccessat(dir: c_int, [path], mode: c_int, flags: c_int) -> c_int,
        { let _ = flags; call!(SYS_faccessat, dir, path, mode) },
        device(_node) devnode::access(mode);
    fn euidaccess([path], mode: c_int) -> c_int,
        call!(SYS_faccessat, AT_FDCWD, path, mode),
        device(_node) devnode::access(mode);
    fn eaccess([path], mode: c_int) -> c_int,
        call!(SYS_faccessat, AT_FDCWD, path, mode),
        device(_node) devnode::access(mode);
    // `ls -l` asks for access lists.
    fn getxattr([path], name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t,
        call!(SYS_getxattr, path, name, value, size) as ssize_t;
    fn lgetxattr([path], name: *const c_char, value: *mut c_void, size: size_t) -> ssize_t,
        call!(SYS_lgetxattr, path, name, value, size) as ssize_t;
    fn listxattr([path], list: *mut c_char, size: size_t) -> ssize_t,
        call!(SYS_listxattr, path, list, size) as ssize_t;
    fn llistxattr([path], list: *mut c_char, size: size_t) -> ssize_t,
        call!(SYS_llistxattr, path, list, size) as ssize_t;
}
