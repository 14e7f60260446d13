//! Paths that programs read literally, wherever `SYSFS_PATH` points.
//!
//! `SYSFS_PATH` reaches libibverbs and libfabric's efa provider only. NCCL, UCX from 1.19 on,
//! Mooncake, UCCL, eRPC and scripts open `/sys/class/infiniband/...` themselves, where this machine
//! has nothing, or devices that the run does not show, and ask whether `/dev/infiniband` is there.
//! So the functions of the C library that take a path are answered here: what names a device is
//! looked up in the tree of the run, and every other path goes to the next definition, after the
//! comparison of a few bytes. Results such as that of `realpath` are places in that tree.
//!
//! Programs with system calls of their own (Go, static ones) are not reached.

mod forward;
mod open;
mod stat;
mod walk;

use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicPtr, Ordering};

use softefa::{Adapter, Config, DeviceSpec, Profile, config};

use crate::{devnode, rdmacm};

/// The directory of device classes.
const CLASSES: &[u8] = b"/sys/class/";
/// The classes that a run has, or single devices of one.
const OURS: [&[u8]; 3] = [b"infiniband", b"infiniband_verbs", b"misc/rdma_cm"];
/// The directory of device files.
const FILES: &[u8] = b"/dev/infiniband";
/// The tree in the directory of a run; it has the classes in `class` and the files in
/// `dev/infiniband`.
const TREE: &str = "sysfs/";
/// The longest path, with its terminating zero.
const PATH_MAX: usize = libc::PATH_MAX as usize;

/// The tree, with a slash at its end; null before it is known. Never freed.
static ROOT: AtomicPtr<c_char> = AtomicPtr::new(std::ptr::null_mut());

/// Publishes the tree at `sysfs` to the program.
pub(crate) fn publish(sysfs: &Path) {
    set_root([sysfs.as_os_str().as_bytes(), b"/"].concat());
}

fn set_root(root: Vec<u8>) {
    // A directory of the operating system has no zero byte in its name.
    let Ok(root) = CString::new(root) else { return };
    let known = ROOT.load(Ordering::Acquire);
    // SAFETY: published whole, and never freed.
    if known.is_null() || unsafe { CStr::from_ptr(known) } != root.as_c_str() {
        ROOT.store(root.into_raw(), Ordering::Release);
    }
}

/// Programs look at sysfs before they list devices, so the tree that `softefa run` has made is
/// published at start.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

extern "C" fn begin() {
    let value = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (Some(dir), Some(devices)) = (value(config::ENV_RUN_DIR), value(config::ENV_DEVICES))
    else {
        return;
    };
    Config::remember_env();
    // An invalid list is reported when the program lists devices.
    let devices = devices.to_str().and_then(|text| DeviceSpec::parse_list(text).ok());
    set_root([dir.as_bytes(), b"/", TREE.as_bytes()].concat());
    let profile = value(config::ENV_PROFILE).and_then(|text| text.to_str()?.parse().ok());
    let profile: Profile = profile.unwrap_or_default();
    let mut profiles = devices.iter().flatten().map(|device| device.profile.unwrap_or(profile));
    rdmacm::publish(profiles.any(|profile| profile.adapter() == Adapter::Roce));
    devnode::publish(devices.map_or(0, |devices| devices.len()));
}

/// Returns the two parts of the path in the tree, if the path names something of ours.
fn inside(path: &[u8]) -> Option<[&[u8]; 2]> {
    let is_whole = |rest: &[u8]| rest.first().is_none_or(|byte| *byte == b'/');
    if let Some(rest) = path.strip_prefix(FILES) {
        return is_whole(rest).then_some([b"dev/infiniband", rest]);
    }
    let rest = path.strip_prefix(CLASSES)?;
    let is_ours = |ours: &&[u8]| rest.strip_prefix(*ours).is_some_and(is_whole);
    OURS.iter().any(is_ours).then_some([b"class/", rest])
}

/// A path of the program, and the path in the tree that replaces it.
struct Redirected {
    given: *const c_char,
    /// The path in the tree, if the path was redirected.
    other: MaybeUninit<[u8; PATH_MAX]>,
    is_other: bool,
}

impl Redirected {
    /// Neither allocates nor locks: `open` and `stat` may be called from signal handlers.
    ///
    /// # Safety
    /// `path` is null or a C string, and stays so as long as the result is used.
    #[inline]
    unsafe fn of(path: *const c_char) -> Self {
        let mut redirected = Self { given: path, other: MaybeUninit::uninit(), is_other: false };
        // SAFETY: as this function demands.
        if unsafe { may_be_ours(path) } {
            redirected.look_up();
        }
        redirected
    }

    #[cold]
    fn look_up(&mut self) {
        let root = ROOT.load(Ordering::Acquire);
        // SAFETY: not null, as `may_be_ours` has found, so a C string.
        let path = unsafe { CStr::from_ptr(self.given) }.to_bytes();
        let Some([start, rest]) = inside(path) else { return };
        if root.is_null() {
            return;
        }
        // SAFETY: published whole, and never freed.
        let root = unsafe { CStr::from_ptr(root) }.to_bytes();
        let len = root.len() + start.len() + rest.len();
        if len >= PATH_MAX {
            return;
        }
        // Bytes behind the terminating zero are not written and not read.
        let out = self.other.as_mut_ptr().cast::<u8>();
        // SAFETY: `len` bytes and the zero behind them are within the buffer, which overlaps
        // neither.
        unsafe {
            let mut at = out;
            for part in [root, start, rest] {
                at.copy_from_nonoverlapping(part.as_ptr(), part.len());
                at = at.add(part.len());
            }
            at.write(0);
        }
        self.is_other = true;
    }

    #[inline]
    fn as_ptr(&self) -> *const c_char {
        if self.is_other { self.other.as_ptr().cast() } else { self.given }
    }
}

/// Returns whether the path begins as ours do. Most differ in the first bytes; their length is not
/// computed.
///
/// # Safety
/// `path` is null or a C string.
#[inline]
unsafe fn may_be_ours(path: *const c_char) -> bool {
    // SAFETY: as this function demands.
    unsafe { begins_with(path, CLASSES) || begins_with(path, FILES) }
}

/// # Safety
/// `path` is null or a C string.
#[inline]
pub(crate) unsafe fn begins_with(path: *const c_char, start: &[u8]) -> bool {
    !path.is_null()
        && start.iter().enumerate().all(|(at, byte)| {
            // SAFETY: the bytes before this one were not the terminating zero.
            unsafe { path.cast::<u8>().add(at).read() == *byte }
        })
}

/// Returns whether the kernel cannot read the path. Programs pass addresses to learn what is mapped
/// (`EFAULT`). The cheapest call that tells is one to change the signal mask in an invalid way: it
/// changes nothing, but reads the mask first (Linux `kernel/signal.c`). It takes 0.1 us,
/// `process_vm_readv` 0.6.
pub(crate) fn is_unreadable(path: *const c_char) -> bool {
    const NO_WAY: c_int = -1;
    const MASK_BYTES: usize = 8;
    // A mask that lies in one page with the first byte.
    let mask = path.map_addr(|addr| addr & !(MASK_BYTES - 1));
    // The kernel does not read a null mask.
    if mask.is_null() {
        return true;
    }
    // SAFETY: nothing is written; what cannot be read is an error.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let (none, len) = (std::ptr::null_mut::<libc::sigset_t>(), MASK_BYTES);
        libc::syscall(libc::SYS_rt_sigprocmask, NO_WAY, mask, none, len);
        let is_bad = *errno == libc::EFAULT;
        *errno = before;
        is_bad
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_classes_of_a_run_are_looked_up() {
        for (path, found) in [
            ("/sys/class/infiniband", "class/infiniband"),
            ("/sys/class/infiniband/", "class/infiniband/"),
            ("/sys/class/infiniband/a/ports/1/state", "class/infiniband/a/ports/1/state"),
            ("/sys/class/infiniband_verbs/abi_version", "class/infiniband_verbs/abi_version"),
            ("/sys/class/misc/rdma_cm/abi_version", "class/misc/rdma_cm/abi_version"),
            ("/dev/infiniband", "dev/infiniband"),
            ("/dev/infiniband/", "dev/infiniband/"),
            ("/dev/infiniband/umad0", "dev/infiniband/umad0"),
        ] {
            let inside = inside(path.as_bytes()).map(|parts| parts.concat());
            assert_eq!(inside.as_deref(), Some(found.as_bytes()), "{path}");
        }
        assert_eq!(inside(b"/dev/infiniband0"), None);
        let others = ["infiniband_mad", "infiniband.d", "misc", "misc/rdma_cmx", "net", ""];
        for path in others.map(|other| format!("/sys/class/{other}")).iter().chain(&["/sys".into()])
        {
            assert_eq!(inside(path.as_bytes()), None, "{path}");
        }
    }

    #[test]
    fn a_path_that_becomes_too_long_stays_as_it_is() {
        publish(Path::new("/run/softefa-1"));
        let redirected = |path: &str| {
            let path = CString::new(path).unwrap();
            // SAFETY: a C string that outlives the path.
            let redirected = unsafe { Redirected::of(path.as_ptr()) };
            // SAFETY: as above, or its own.
            unsafe { CStr::from_ptr(redirected.as_ptr()) }.to_str().unwrap().to_owned()
        };
        assert_eq!(redirected("/sys/class/infiniband"), "/run/softefa-1/class/infiniband");
        assert_eq!(redirected("/etc/hosts"), "/etc/hosts");
        let long = format!("/sys/class/infiniband/{}", "x".repeat(PATH_MAX));
        assert_eq!(redirected(&long), long);
    }
}
