//! Interposed functions of the C library that take a descriptor.
//!
//! If the program has not opened the device, each costs one comparison before it calls the next
//! definition. Threads may be cancelled in that call, because nothing here has to be dropped.

use std::ffi::{c_int, c_void};
use std::os::fd::RawFd;

use libc::{c_long, c_uint, size_t, ssize_t};

use super::{channels, command, is_there, manager, marks::CHANNELS};
use crate::errno::Errno;

/// Returns whether no descriptor is open, which is the whole cost for most programs.
#[inline]
fn none() -> bool {
    !CHANNELS.is_any()
}

/// Returns whether `fd` stands for the device in this process.
fn is_ours(fd: RawFd) -> bool {
    if !CHANNELS.has(fd) || manager::belongs_to_other_process() {
        return false;
    }
    let is_still = channels::is_still(fd);
    if !is_still {
        channels::forget(fd);
    }
    is_still
}

/// Returns the result of a system call like the C library: -1, with the reason in `errno`.
macro_rules! call {
    ($number:ident, $($argument:expr),+) => {
        // SAFETY: the program's arguments.
        unsafe { libc::syscall(libc::$number, $($argument),+) as _ }
    };
}

/// Defines functions of the C library: under the condition they do what stands behind it, otherwise
/// they call the next definition. Before that is known, and where there is none, `unknown` answers.
/// What most calls need not ask stands behind `unless`, and is all that they pay for.
macro_rules! stand_in {
    ($(
        fn $name:ident($($argument:ident: $type:ty),+) -> $result:ty, $unknown:expr,
            unless $exempt:expr, if $condition:expr => $ours:expr;
    )*) => {
        $(
            #[unsafe(no_mangle)]
            unsafe extern "C-unwind" fn $name($($argument: $type),+) -> $result {
                if $exempt {
                    // SAFETY: the program's arguments.
                    return unsafe { next::$name($($argument),+) };
                }
                // SAFETY: the program's arguments.
                unsafe { seldom::$name($($argument),+) }
            }
        )*

        /// The slow path, kept apart so that the fast path saves no registers for it.
        mod seldom {
            use super::*;

            $(
                #[cold]
                #[inline(never)]
                pub(super) unsafe extern "C-unwind" fn $name($($argument: $type),+) -> $result {
                    if $condition {
                        return $ours;
                    }
                    // SAFETY: the program's arguments.
                    unsafe { next::$name($($argument),+) }
                }
            )*
        }

        /// The next definitions.
        mod next {
            use super::*;

            $(
                #[inline]
                pub(super) unsafe fn $name($($argument: $type),+) -> $result {
                    type Function = unsafe extern "C-unwind" fn($($type),+) -> $result;
                    match places::$name.get() {
                        // SAFETY: the program's arguments; the address is that of a function of
                        // this type.
                        Some(next) => unsafe {
                            std::mem::transmute::<*mut c_void, Function>(next)($($argument),+)
                        },
                        None => unknown::$name($($argument),+),
                    }
                }
            )*
        }

        /// The fallbacks before they are known.
        mod unknown {
            use super::*;

            $(
                #[cold]
                #[inline(never)]
                pub(super) extern "C-unwind" fn $name($($argument: $type),+) -> $result {
                    $unknown
                }
            )*
        }

        #[allow(non_upper_case_globals, reason = "named as the functions that they are the next definitions of")]
        mod places {
            use crate::next::{Next, c_name};
            $(pub(super) static $name: Next = Next::new(c_name!($name));)*
            pub(super) static ALL: &[&Next] = &[$(&$name),*];
        }

        /// Looks the next definitions up before the program runs.
        #[used]
        #[unsafe(link_section = ".init_array")]
        static RESOLVE: extern "C" fn() = resolve_all;

        extern "C" fn resolve_all() {
            places::ALL.iter().for_each(|next| next.resolve());
        }
    };
}

stand_in! {
    fn write(fd: c_int, bytes: *const c_void, len: size_t) -> ssize_t,
        call!(SYS_write, fd, bytes, len),
        unless none(),
        // SAFETY: nothing in this library calls it, and so has something to drop.
        if is_ours(fd) => unsafe { command::write(fd, bytes, len) };
    fn close(fd: c_int) -> c_int, call!(SYS_close, fd),
        unless none(),
        if is_ours(fd) => channels::close(fd);
    fn dup(fd: c_int) -> c_int, call!(SYS_dup, fd),
        unless none(),
        // SAFETY: the program's argument.
        if is_ours(fd) => channels::duplicate(fd, None, || unsafe { next::dup(fd) });
    fn dup2(from: c_int, to: c_int) -> c_int, call!(SYS_dup3, from, to, 0),
        unless none(),
        // SAFETY: the program's arguments.
        if is_ours(from) || is_ours(to) => channels::duplicate(from, Some(to), || unsafe { next::dup2(from, to) });
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int, call!(SYS_dup3, from, to, flags),
        unless none(),
        // With other flags it fails, and `to` stays open.
        if (is_ours(from) || is_ours(to)) && flags & !libc::O_CLOEXEC == 0 =>
            // SAFETY: the program's arguments.
            channels::duplicate(from, Some(to), || unsafe { next::dup3(from, to, flags) });
    // The third argument is there with some commands only; callees of 64-bit Linux find it in the
    // same place.
    fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int, call!(SYS_fcntl, fd, command, argument),
        unless none(),
        if is_ours(fd) && duplicates(command) =>
            // SAFETY: the program's arguments.
            channels::duplicate(fd, None, || unsafe { next::fcntl(fd, command, argument) });
    fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int, call!(SYS_fcntl, fd, command, argument),
        unless none(),
        if is_ours(fd) && duplicates(command) =>
            // SAFETY: the program's arguments.
            channels::duplicate(fd, None, || unsafe { next::fcntl64(fd, command, argument) });
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int,
        call!(SYS_close_range, first, last, flags),
        unless none(),
        if closes(first, last, flags) =>
            // SAFETY: the program's arguments.
            channels::close_all(first, last, || unsafe { next::close_range(first, last, flags) });
    fn closefrom(first: c_int) -> (), { let _: c_int = call!(SYS_close_range, first, c_uint::MAX, 0); },
        unless none(),
        if closes(first.max(0) as c_uint, c_uint::MAX, 0) => {
            channels::close_all(first.max(0) as c_uint, c_uint::MAX, || {
                // SAFETY: the program's argument.
                unsafe { next::closefrom(first) };
                0
            });
        };
    // The C library's structure is the kernel's on 64-bit Linux, and that of the functions with 64
    // the same.
    fn fstat(fd: c_int, out: *mut libc::stat) -> c_int, call!(SYS_fstat, fd, out),
        unless none(),
        // SAFETY: the program's structure.
        if is_ours(fd) => unsafe { channels::write_stat(out) };
    fn fstat64(fd: c_int, out: *mut libc::stat) -> c_int, call!(SYS_fstat, fd, out),
        unless none(),
        // SAFETY: the program's structure.
        if is_ours(fd) => unsafe { channels::write_stat(out) };
    // The variants before glibc 2.33.
    fn __fxstat(version: c_int, fd: c_int, out: *mut libc::stat) -> c_int,
        { let _ = version; call!(SYS_fstat, fd, out) },
        unless none(),
        // SAFETY: the program's structure.
        if is_ours(fd) => unsafe { channels::write_stat(out) };
    fn __fxstat64(version: c_int, fd: c_int, out: *mut libc::stat) -> c_int,
        { let _ = version; call!(SYS_fstat, fd, out) },
        unless none(),
        // SAFETY: the program's structure.
        if is_ours(fd) => unsafe { channels::write_stat(out) };
    // librdmacm asks by netlink first, for the machine's own device.
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int,
        call!(SYS_socket, domain, kind, protocol),
        unless domain != libc::AF_NETLINK,
        if (domain, protocol) == (libc::AF_NETLINK, libc::NETLINK_RDMA) && is_there() => {
            Errno(libc::EPROTONOSUPPORT).store();
            -1
        };
}

fn duplicates(command: c_int) -> bool {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// Returns whether descriptors of ours are among those that are closed.
fn closes(first: c_uint, last: c_uint, flags: c_int) -> bool {
    const CLOEXEC: c_int = 4;
    let is_among = |fd: RawFd| (first..=last).contains(&(fd as c_uint));
    CHANNELS.all().any(is_among) && flags & CLOEXEC == 0 && !manager::belongs_to_other_process()
}

/// Closes a descriptor by the next definition.
pub(super) fn close_next(fd: RawFd) -> c_int {
    // SAFETY: the caller gives it up.
    unsafe { next::close(fd) }
}
