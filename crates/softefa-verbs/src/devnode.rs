//! The character devices programs expect below `/dev/infiniband`, without making them.
//!
//! UCX takes a device only if `/dev/infiniband/<dev_name>` is a character device that it may read
//! and write (`uct_ib_device_is_accessible`), and only root could make one. So the C library's
//! questions about exactly these paths are answered here, once the program has been told of the
//! devices. Every other path goes to the next definition, after the comparison of a few bytes. All of
//! it may be called from signal handlers and before constructors ran: nothing allocates or locks.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::next::Next;

/// Device files of uverbs devices, up to their number.
const PREFIX: &[u8] = b"/dev/infiniband/uverbs";
/// Major number and first minor number of uverbs devices (Linux `uverbs_main.c`).
const MAJOR: u32 = 231;
const BASE_MINOR: u32 = 192;

/// How many devices the program has been told of.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// From now on `uverbs0` to `uverbs<count - 1>` are there.
pub(crate) fn publish(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

/// Number in the name of a device file of ours; `None` for any other path.
fn index_of(path: &[u8]) -> Option<usize> {
    let digits = path.strip_prefix(PREFIX)?;
    // The kernel writes no leading zeroes, and has no more devices than three digits count.
    if digits.is_empty() || digits.len() > 3 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let index = digits.iter().try_fold(0, |value, byte| Some(value * 10 + digit(byte)?))?;
    (index < COUNT.load(Ordering::Relaxed)).then_some(index)
}

/// As [`index_of`], for a path of the program.
///
/// # Safety
/// `path` is null or a C string.
unsafe fn find(path: *const c_char) -> Option<usize> {
    if path.is_null() {
        return None;
    }
    // Most paths differ in the first bytes, and so are not measured.
    for (at, byte) in PREFIX.iter().enumerate() {
        // SAFETY: the bytes before this one were not the terminating zero.
        if unsafe { path.add(at).read() }.cast_unsigned() != *byte {
            return None;
        }
    }
    // SAFETY: a C string, as this function demands.
    index_of(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Writes what `stat` says of device file `index`.
///
/// # Safety
/// `out` is writable.
unsafe fn write_stat(index: usize, out: *mut libc::stat) -> c_int {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    let minor = u32::try_from(index).map_or(u32::MAX, |index| BASE_MINOR + index);
    stat.st_mode = libc::S_IFCHR | 0o666;
    stat.st_nlink = 1;
    stat.st_rdev = libc::makedev(MAJOR, minor);
    stat.st_blksize = 4096;
    // SAFETY: as this function demands.
    unsafe { out.write(stat) };
    0
}

type Stat = unsafe extern "C" fn(*const c_char, *mut libc::stat) -> c_int;
type Xstat = unsafe extern "C" fn(c_int, *const c_char, *mut libc::stat) -> c_int;
type Access = unsafe extern "C" fn(*const c_char, c_int) -> c_int;

static STAT: Next = Next::new(c"stat");
static STAT64: Next = Next::new(c"stat64");
static XSTAT: Next = Next::new(c"__xstat");
static XSTAT64: Next = Next::new(c"__xstat64");
static ACCESS: Next = Next::new(c"access");

/// Looks the next definitions up, which is not safe in a signal handler: before the program runs.
#[used]
#[unsafe(link_section = ".init_array")]
static RESOLVE: extern "C" fn() = resolve_all;

extern "C" fn resolve_all() {
    for next in [&STAT, &STAT64, &XSTAT, &XSTAT64, &ACCESS] {
        next.resolve();
    }
}

/// The system call behind every `stat`, for callers that came before [`resolve_all`].
///
/// # Safety
/// As for `stat`.
unsafe fn stat_call(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as this function demands; the C library's structure is the kernel's on 64-bit Linux.
    let code = unsafe { libc::syscall(libc::SYS_newfstatat, libc::AT_FDCWD, path, out, 0) };
    if code == 0 { 0 } else { -1 }
}

/// # Safety
/// As for `stat`.
unsafe fn stat_with(next: &Next, path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as this function demands; the address is that of a function of this type.
    unsafe {
        match (find(path), next.get()) {
            (Some(index), _) => write_stat(index, out),
            (None, Some(next)) => transmute::<*mut c_void, Stat>(next)(path, out),
            (None, None) => stat_call(path, out),
        }
    }
}

/// # Safety
/// As for `__xstat`.
unsafe fn xstat_with(
    next: &Next,
    version: c_int,
    path: *const c_char,
    out: *mut libc::stat,
) -> c_int {
    // SAFETY: as this function demands; the address is that of a function of this type.
    unsafe {
        match (find(path), next.get()) {
            (Some(index), _) => write_stat(index, out),
            (None, Some(next)) => transmute::<*mut c_void, Xstat>(next)(version, path, out),
            (None, None) => stat_call(path, out),
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn stat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments, unchanged.
    unsafe { stat_with(&STAT, path, out) }
}

/// The same as `stat` on 64-bit systems.
#[unsafe(no_mangle)]
unsafe extern "C" fn stat64(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments, unchanged.
    unsafe { stat_with(&STAT64, path, out) }
}

/// What `stat` was before glibc 2.33; programs in portable packages (wheels) call it.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xstat(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments, unchanged.
    unsafe { xstat_with(&XSTAT, version, path, out) }
}

/// The same as `__xstat` on 64-bit systems.
#[unsafe(no_mangle)]
unsafe extern "C" fn __xstat64(version: c_int, path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the program's arguments, unchanged.
    unsafe { xstat_with(&XSTAT64, version, path, out) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn access(path: *const c_char, mode: c_int) -> c_int {
    // SAFETY: the program's arguments, unchanged; the address is that of a function of this type.
    unsafe {
        match (find(path), ACCESS.get()) {
            (Some(_), _) if mode & libc::X_OK == 0 => 0,
            (Some(_), _) => {
                *libc::__errno_location() = libc::EACCES;
                -1
            }
            (None, Some(next)) => transmute::<*mut c_void, Access>(next)(path, mode),
            (None, None) => {
                let call = libc::SYS_faccessat;
                if libc::syscall(call, libc::AT_FDCWD, path, mode) == 0 { 0 } else { -1 }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_listed_devices_have_files() {
        assert_eq!(index_of(b"/dev/infiniband/uverbs0"), None, "nobody asked for devices yet");
        publish(12);
        assert_eq!(index_of(b"/dev/infiniband/uverbs0"), Some(0));
        assert_eq!(index_of(b"/dev/infiniband/uverbs11"), Some(11));
        for path in
            ["uverbs12", "uverbs", "uverbs00", "uverbs1x", "uverbs1/x", "uverbs9999", "rdma_cm"]
        {
            assert_eq!(index_of(format!("/dev/infiniband/{path}").as_bytes()), None, "{path}");
        }
    }
}
