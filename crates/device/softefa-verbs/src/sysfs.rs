//! Where the private sysfs tree is, and the verbs functions that read sysfs.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::{fs, ptr};

use softefa::Config;

use crate::errno::Errno;
use crate::{panic, paths};

/// What programs and libfabric look up to find sysfs.
const ENV_SYSFS_PATH: &CStr = c"SYSFS_PATH";

/// The tree inside a run directory, where `softefa run` makes it, too.
const SUBDIR: &str = "sysfs";

/// Makes the tree for `config`, shows it to programs that read sysfs themselves, and points
/// `SYSFS_PATH` at it unless the user did; its root.
///
/// A tree that cannot be made costs programs that read it the device, so it is said, but others
/// work without.
pub(crate) fn prepare(config: &Config) -> PathBuf {
    let root = config.run_dir.as_ref().map_or_else(|| default_root(config), |dir| dir.join(SUBDIR));
    if let Err(error) = softefa::sysfs::create(&root, config) {
        softefa::say(&format!("softefa: cannot write the sysfs tree {}: {error}", root.display()));
    }
    paths::publish(&root);
    if let Ok(value) = CString::new(root.as_os_str().as_bytes()) {
        // SAFETY: both are C strings; the environment is changed once, when the program first asks
        // for devices, and only if the variable is not there (the last argument).
        unsafe { libc::setenv(ENV_SYSFS_PATH.as_ptr(), value.as_ptr(), 0) };
    }
    root
}

/// One tree per user and set of devices, shared by all processes: nothing piles up in `/tmp`.
fn default_root(config: &Config) -> PathBuf {
    // SAFETY: has no precondition.
    let uid = unsafe { libc::getuid() };
    let name = |device| format!("{}-{}", config.profile_of(device), device.name);
    let names: Vec<String> = config.devices.iter().map(name).collect();
    let dir = format!("softefa-{uid}-{}", names.join("-"));
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_dir());
    base.map_or_else(std::env::temp_dir, PathBuf::from).join(dir)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    // SAFETY: a C string; the result is the program's to read until the environment changes.
    let path = unsafe { libc::getenv(ENV_SYSFS_PATH.as_ptr()) };
    if path.is_null() { c"/sys".as_ptr() } else { path }
}

/// Reads `dir/file` without its final line break into `buffer`; the number of bytes, or -1.
#[unsafe(no_mangle)]
unsafe extern "C" fn ibv_read_sysfs_file(
    dir: *const c_char,
    file: *const c_char,
    buffer: *mut c_char,
    size: usize,
) -> c_int {
    panic::count(|| {
        if dir.is_null() || file.is_null() || buffer.is_null() {
            return Err(Errno::EINVAL);
        }
        // SAFETY: not null, so C strings of the program.
        let (dir, file) = unsafe { (CStr::from_ptr(dir), CStr::from_ptr(file)) };
        let path = |text: &CStr| PathBuf::from(OsStr::from_bytes(text.to_bytes()));
        let text = fs::read(path(dir).join(path(file)))
            .map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EIO)))?;
        let line = text.strip_suffix(b"\n").unwrap_or(&text);
        let len = line.len().min(size);
        // SAFETY: `buffer` has `size` bytes, as the program says, and `len` is no more.
        unsafe { ptr::copy_nonoverlapping(line.as_ptr().cast(), buffer, len) };
        if len < size {
            // SAFETY: inside the buffer.
            unsafe { buffer.add(len).write(0) };
        }
        c_int::try_from(len).map_err(|_| Errno::EINVAL)
    })
}
