//! Finding the program before anything is prepared for it.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Set-user-ID and set-group-ID bits of a file mode.
const MODE_SET_ID: u32 = 0o6000;
/// Any execute bit of a file mode.
const MODE_EXECUTE: u32 = 0o111;

/// Where `name` is: itself when it holds a slash, else the first executable of that name in PATH.
///
/// # Errors
/// Not found (127) or not executable (126), with the name.
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
        env::split_paths(search).map(|dir| dir.join(name)).collect()
    } else {
        vec![PathBuf::from(name)]
    };
    let mut found_unusable = None;
    for candidate in candidates {
        match kind(&candidate) {
            Kind::Executable => return Ok(candidate),
            Kind::Unusable(why) => found_unusable = found_unusable.or(Some((candidate, why))),
            Kind::Missing => {}
        }
    }
    Err(match found_unusable {
        Some((path, why)) => {
            Failure::not_executable(format!("program {} cannot be run: {why}", path.display()))
        }
        None if in_path => Failure::not_found(format!(
            "program {shown} not found in PATH; install it or give its path"
        )),
        None => Failure::not_found(format!("program {shown} not found; check the path")),
    })
}

/// What a path is to us.
enum Kind {
    Executable,
    Unusable(&'static str),
    Missing,
}

fn kind(path: &Path) -> Kind {
    let Ok(meta) = path.metadata() else { return Kind::Missing };
    if meta.is_dir() {
        return Kind::Unusable("it is a directory");
    }
    let mode = meta.permissions().mode();
    if mode & MODE_EXECUTE == 0 {
        return Kind::Unusable("it is not executable (chmod +x)");
    }
    if mode & MODE_SET_ID != 0 {
        return Kind::Unusable("it is set-user-ID, and the loader preloads nothing into such");
    }
    Kind::Executable
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn set_user_id_program_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("tool");
        std::fs::write(&tool, "#!/bin/sh\n").unwrap();
        std::fs::set_permissions(&tool, PermissionsExt::from_mode(0o4755)).unwrap();
        let failure = find_in(tool.as_os_str(), OsStr::new("")).unwrap_err();
        assert!(failure.to_string().contains("set-user-ID"), "{failure}");
    }
}
