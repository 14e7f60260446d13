//! Finds the program before anything is prepared for it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, StatVfsMountFlags, access, getxattr, statvfs};
use rustix::process::{getgid, getuid};
use rustix::thread::no_new_privs;

use crate::failure::Failure;

/// The mode bit for set-user-ID.
const MODE_SET_USER: u32 = 0o4000;
/// The mode bits for set-group-ID, which needs the group's execute bit, too.
const MODE_SET_GROUP: u32 = 0o2010;
/// The extended attribute that holds file capabilities.
const XATTR_CAPABILITY: &str = "security.capability";
/// The execute bits of a file mode.
const MODE_EXECUTE: u32 = 0o111;

/// Returns the path of `name`: itself if it contains a slash, otherwise the first file of that name
/// in PATH that this user may execute.
///
/// # Errors
/// The program is not found (127) or not executable (126); the message contains the name.
pub(crate) fn find(name: &OsStr) -> Result<PathBuf, Failure> {
    let path = env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    find_in(name, &path)
}

fn find_in(name: &OsStr, search: &OsStr) -> Result<PathBuf, Failure> {
    let shown = Path::new(name).display();
    if name.is_empty() {
        return Err(Failure::not_found("program name is empty; usage: softefa run -- PROGRAM"));
    }
    let in_path = !name.as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if in_path {
        // An empty entry is the current folder. A path without a slash would be searched for again.
        let dirs = env::split_paths(search);
        dirs.map(|dir| if dir.as_os_str().is_empty() { ".".into() } else { dir })
            .map(|dir| dir.join(name))
            .collect()
    } else {
        vec![PathBuf::from(name)]
    };
    let mut found_unusable = None;
    for candidate in candidates {
        match kind(&candidate) {
            Kind::Executable => return Ok(candidate),
            Kind::Refused(why) => return Err(unusable(&candidate, why)),
            Kind::Unusable(why) => found_unusable = found_unusable.or(Some((candidate, why))),
            Kind::Missing => {}
        }
    }
    Err(match found_unusable {
        Some((path, why)) => unusable(&path, why),
        None if in_path => Failure::not_found(format!(
            "program {shown} not found in PATH; install it or give its path"
        )),
        None => Failure::not_found(format!("program {shown} not found; check the path")),
    })
}

fn unusable(path: &Path, why: &str) -> Failure {
    Failure::not_executable(format!("program {} cannot be run: {why}", path.display()))
}

/// The kind of file at a path.
enum Kind {
    Executable,
    /// The file cannot be executed; the search goes on in PATH.
    Unusable(&'static str),
    /// The program would run, but find no device.
    Refused(&'static str),
    Missing,
}

fn kind(path: &Path) -> Kind {
    let Ok(meta) = path.metadata() else { return Kind::Missing };
    if meta.is_dir() {
        return Kind::Unusable("it is a directory");
    }
    if meta.mode() & MODE_EXECUTE == 0 {
        return Kind::Unusable("it is not executable (chmod +x)");
    }
    if access(path, Access::EXEC_OK).is_err() {
        return Kind::Unusable("this user may not execute it (its mode, or a noexec mount)");
    }
    more_rights(path, &meta).map_or(Kind::Executable, Kind::Refused)
}

/// Returns why the program at `path` would have more rights than this user, if it would: the loader
/// preloads nothing into such a program, which would find no device.
fn more_rights(path: &Path, meta: &Metadata) -> Option<&'static str> {
    let is_forbidden = no_new_privs().unwrap_or(false)
        || statvfs(path).is_ok_and(|system| system.f_flag.contains(StatVfsMountFlags::NOSUID));
    if is_forbidden || is_script(path) {
        return None;
    }
    let has = |bits| meta.mode() & bits == bits;
    let (user, group) = (getuid(), getgid().as_raw());
    let is_set_id = has(MODE_SET_USER) && meta.uid() != user.as_raw()
        || has(MODE_SET_GROUP) && meta.gid() != group;
    let mut value = [0u8; 64];
    let is_capable = getxattr(path, XATTR_CAPABILITY, &mut value).is_ok_and(|len| len > 0);
    match (is_set_id, is_capable && !user.is_root()) {
        (true, _) => Some("it is set-user-ID, and the loader preloads nothing into such"),
        (_, true) => Some("it has file capabilities, and the loader preloads nothing into such"),
        _ => None,
    }
}

/// Returns true for a script: the kernel checks the rights of its interpreter instead.
fn is_script(path: &Path) -> bool {
    let mut head = [0; 2];
    File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == *b"#!"
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn searches_path_only_without_slash() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        let search = dir.path().as_os_str();
        let find = |name: &str| find_in(OsStr::new(name), search);
        assert_eq!(find("tool").unwrap_err().code(), 126, "not executable yet");
        std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(find("tool").unwrap(), tool);
        assert_eq!(find("./tool-that-is-not-there").unwrap_err().code(), 127);
        assert_eq!(find("other").unwrap_err().code(), 127);
        assert_eq!(find("/").unwrap_err().code(), 126);
    }
}
