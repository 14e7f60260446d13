//! The character devices programs expect below `/dev/infiniband`, without making them.
//!
//! UCX takes a device only if `/dev/infiniband/<dev_name>` is a character device that it may read
//! and write (`uct_ib_device_is_accessible`), and only root could make one. So the C library's
//! questions about exactly these paths ([`crate::paths`]) are answered here, once the program has been told
//! of the devices. All of it may be called from signal handlers and before constructors ran: nothing
//! allocates or locks.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Device files of uverbs devices, up to their number.
const PREFIX: &[u8] = b"/dev/infiniband/uverbs";
/// Major number and first minor number of uverbs devices (Linux `uverbs_main.c`).
const MAJOR: u32 = 231;
const BASE_MINOR: u32 = 192;
/// Who may use them, and what programs ask for at once.
const MODE: libc::mode_t = 0o666;
const BLOCK_BYTES: u32 = 4096;

/// How many devices the program has been told of.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// From now on `uverbs0` to `uverbs<count - 1>` are there.
pub(crate) fn publish(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

fn minor(index: usize) -> u32 {
    u32::try_from(index).map_or(u32::MAX, |index| BASE_MINOR + index)
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
pub(crate) unsafe fn find(path: *const c_char) -> Option<usize> {
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
pub(crate) unsafe fn write_stat(index: usize, out: *mut libc::stat) -> c_int {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_mode = libc::S_IFCHR | MODE;
    stat.st_nlink = 1;
    stat.st_rdev = libc::makedev(MAJOR, minor(index));
    stat.st_blksize = BLOCK_BYTES.into();
    // SAFETY: as this function demands.
    unsafe { out.write(stat) };
    0
}

/// As [`write_stat`], for `statx`.
///
/// # Safety
/// `out` is writable.
pub(crate) unsafe fn write_statx(index: usize, out: *mut libc::statx) -> c_int {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_NLINK;
    stat.stx_mode = (libc::S_IFCHR | MODE) as u16;
    stat.stx_nlink = 1;
    (stat.stx_rdev_major, stat.stx_rdev_minor) = (MAJOR, minor(index));
    stat.stx_blksize = BLOCK_BYTES;
    // SAFETY: as this function demands.
    unsafe { out.write(stat) };
    0
}

/// What `access` says of a device file of ours: everybody may read and write it.
///
/// # Safety
/// None; as those of its kin.
pub(crate) unsafe fn access(mode: c_int) -> c_int {
    if mode & libc::X_OK == 0 {
        return 0;
    }
    // SAFETY: each thread has its `errno`.
    unsafe { *libc::__errno_location() = libc::EACCES };
    -1
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
