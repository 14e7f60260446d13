//! The location of the private sysfs tree, and the verbs functions that read sysfs.

use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fs::{self, DirBuilder};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::ptr;

use softefa::Config;

use crate::errno::Errno;
use crate::{panic, paths};

/// The variable by which programs and libfabric find sysfs.
const ENV_SYSFS_PATH: &CStr = c"SYSFS_PATH";

/// The subdirectory of a run directory, where `softefa run` makes the tree, too.
const SUBDIR: &str = "sysfs";

/// The number of names that are tried for a tree of one process.
const TRIES: u32 = 100;

/// Makes the tree for `config`, publishes it to programs that read sysfs themselves, points
/// `SYSFS_PATH` at it unless the user did, and returns its root.
///
/// If the tree cannot be made, programs that read it do not find the device. That is logged, but
/// other programs work without it.
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

/// Returns the root of one tree per user and set of devices, which all processes share, so that
/// nothing piles up in `/tmp`; or one of this process alone if another user owns that directory,
/// who could redirect us anywhere.
fn default_root(config: &Config) -> PathBuf {
    // SAFETY: has no precondition.
    let uid = unsafe { libc::getuid() };
    let name = |device| format!("{}-{}", config.profile_of(device), device.name);
    let names: Vec<String> = config.devices.iter().map(name).collect();
    let dir = format!("softefa-{uid}-{}", names.join("-"));
    let base = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_dir());
    let root = base.map_or_else(std::env::temp_dir, PathBuf::from).join(dir);
    if is_private(&root, uid) {
        return root;
    }
    let pid = std::process::id();
    let mut candidates =
        (0..TRIES).map(|number| PathBuf::from(format!("{}-{pid}-{number}", root.display())));
    candidates.find(|dir| DirBuilder::new().mode(0o700).create(dir).is_ok()).unwrap_or(root)
}

/// Returns whether `dir` is a directory of user `uid`, which is made if it does not exist.
fn is_private(dir: &Path, uid: u32) -> bool {
    let _ = DirBuilder::new().mode(0o700).create(dir);
    fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir() && meta.uid() == uid)
}

#[unsafe(no_mangle)]
extern "C" fn ibv_get_sysfs_path() -> *const c_char {
    // SAFETY: a C string; the result is the program's to read until the environment changes.
    let path = unsafe { libc::getenv(ENV_SYSFS_PATH.as_ptr()) };
    if path.is_null() { c"/sys".as_ptr() } else { path }
}

/// Reads `dir/file` without its final line break into `buffer`; returns the number of bytes, or -1.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory of another user is not used: its owner would choose what the program reads, and
    /// where it writes.
    #[test]
    fn a_directory_of_somebody_else_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        // SAFETY: has no precondition.
        let uid = unsafe { libc::getuid() };
        let (fresh, link) = (dir.path().join("fresh"), dir.path().join("link"));
        assert!(is_private(&fresh, uid) && is_private(&fresh, uid), "made, and found again");
        std::os::unix::fs::symlink(&fresh, &link).unwrap();
        assert!(!is_private(&link, uid));
        assert!(!is_private(&fresh, uid + 1));
    }
}
