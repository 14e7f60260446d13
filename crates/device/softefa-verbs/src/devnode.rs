//! The character devices programs expect below `/dev/infiniband`, without making them. The
//! directory itself, with files of these names in it, is in the tree of the run ([`crate::paths`]).
//!
//! UCX uses a device only if `/dev/infiniband/<dev_name>` is a character device that it may read
//! and write (`uct_ib_device_is_accessible`), and only root could create one. So the C library's
//! functions about exactly these paths ([`crate::paths`]) are answered here, once the program has
//! listed the devices. All of it may be called from signal handlers and before constructors have
//! run: nothing allocates or locks.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{paths, rdmacm};

/// The directory of device files.
const DIR: &[u8] = b"/dev/infiniband/";
/// The prefix of files of uverbs devices, before their number.
const UVERBS: &[u8] = b"uverbs";
/// The file of the connection manager ([`crate::rdmacm`]).
const RDMA_CM: &[u8] = b"rdma_cm";
/// The major number of uverbs devices (Linux `uverbs_main.c`).
const MAJOR: u32 = 231;
/// The minor number of the first uverbs device.
const BASE_MINOR: u32 = 192;
/// The numbers of the connection manager, a miscellaneous device: the kernel chooses the minor one.
const RDMA_CM_NUMBERS: (u32, u32) = (10, 58);
/// The permissions of the files.
const MODE: libc::mode_t = 0o666;
/// The block size of the files.
const BLOCK_BYTES: u32 = 4096;

/// The number of devices that the program has listed.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Publishes `uverbs0` to `uverbs<count - 1>`.
pub(crate) fn publish(count: usize) {
    COUNT.store(count, Ordering::Relaxed);
}

/// A device file of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    /// The file of a uverbs device, by its number.
    Uverbs(usize),
    /// The file of the connection manager.
    RdmaCm,
}

impl Node {
    /// Returns major and minor number.
    fn numbers(self) -> (u32, u32) {
        match self {
            Self::Uverbs(index) => {
                (MAJOR, u32::try_from(index).map_or(u32::MAX, |index| BASE_MINOR + index))
            }
            Self::RdmaCm => RDMA_CM_NUMBERS,
        }
    }
}

/// Returns the device file at a path.
fn node_at(path: &[u8]) -> Option<Node> {
    let name = path.strip_prefix(DIR)?;
    if name == RDMA_CM {
        return rdmacm::is_there().then_some(Node::RdmaCm);
    }
    index_in(name).map(Node::Uverbs)
}

/// Parses the number in the name of a uverbs device's file.
fn index_in(name: &[u8]) -> Option<usize> {
    let digits = name.strip_prefix(UVERBS)?;
    // The kernel writes no leading zeroes, and has at most 1,000 devices.
    if digits.is_empty() || digits.len() > 3 || (digits[0] == b'0' && digits.len() > 1) {
        return None;
    }
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| usize::from(byte - b'0'));
    let index = digits.iter().try_fold(0, |value, byte| Some(value * 10 + digit(byte)?))?;
    (index < COUNT.load(Ordering::Relaxed)).then_some(index)
}

/// Like [`node_at`], for a path of the program.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
pub(crate) unsafe fn find(path: *const c_char) -> Option<Node> {
    // Most paths differ in the first bytes; their length is not computed.
    // SAFETY: as this function demands.
    if !unsafe { paths::begins_with(path, DIR) } {
        return None;
    }
    // SAFETY: a C string, as this function demands.
    node_at(unsafe { CStr::from_ptr(path) }.to_bytes())
}

/// Writes the `stat` structure of a device file.
///
/// # Safety
/// `out` is writable.
pub(crate) unsafe fn write_stat(node: Node, out: *mut libc::stat) -> c_int {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut stat: libc::stat = unsafe { std::mem::zeroed() };
    stat.st_mode = libc::S_IFCHR | MODE;
    stat.st_nlink = 1;
    let (major, minor) = node.numbers();
    stat.st_rdev = libc::makedev(major, minor);
    stat.st_blksize = BLOCK_BYTES.into();
    // SAFETY: as this function demands.
    unsafe { out.write(stat) };
    0
}

/// Like [`write_stat`], for `statx`.
///
/// # Safety
/// `out` is writable.
pub(crate) unsafe fn write_statx(node: Node, out: *mut libc::statx) -> c_int {
    // SAFETY: all-zero bytes are a valid structure of numbers.
    let mut stat: libc::statx = unsafe { std::mem::zeroed() };
    stat.stx_mask = libc::STATX_TYPE | libc::STATX_MODE | libc::STATX_NLINK;
    stat.stx_mode = (libc::S_IFCHR | MODE) as u16;
    stat.stx_nlink = 1;
    (stat.stx_rdev_major, stat.stx_rdev_minor) = node.numbers();
    stat.stx_blksize = BLOCK_BYTES;
    // SAFETY: as this function demands.
    unsafe { out.write(stat) };
    0
}

/// Returns the result of `access` for a device file: everybody may read and write it.
///
/// # Safety
/// None; unsafe only like its siblings.
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
        let index_of = |name: &str| node_at(format!("/dev/infiniband/{name}").as_bytes());
        assert_eq!(index_of("uverbs0"), None, "nobody asked for devices yet");
        publish(12);
        assert_eq!(index_of("uverbs0"), Some(Node::Uverbs(0)));
        assert_eq!(index_of("uverbs11"), Some(Node::Uverbs(11)));
        for name in
            ["uverbs12", "uverbs", "uverbs00", "uverbs1x", "uverbs1/x", "uverbs9999", "rdma_c"]
        {
            assert_eq!(index_of(name), None, "{name}");
        }
    }

    #[test]
    fn the_connection_manager_is_there_when_a_device_needs_it() {
        assert_eq!(node_at(b"/dev/infiniband/rdma_cm"), None);
        rdmacm::publish(true);
        assert_eq!(node_at(b"/dev/infiniband/rdma_cm"), Some(Node::RdmaCm));
        for path in ["/dev/infiniband/rdma_cm0", "/dev/infiniband/", "/dev/rdma_cm", "rdma_cm"] {
            assert_eq!(node_at(path.as_bytes()), None, "{path}");
        }
    }
}
