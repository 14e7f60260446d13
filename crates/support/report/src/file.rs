//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// A file could not be written; nothing of it is left.
#[derive(Debug, Error)]
#[error("cannot write {}: {reason}", path.display())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// The reason in words.
    pub reason: String,
}

/// Writes `content` to a temporary file beside `path`, flushes it to disk and renames it, so that
/// readers see the old file or the whole new one. Missing parent folders are made. A path that is
/// no regular file (`/dev/stdout`, a pipe) is written directly.
///
/// # Errors
/// [`WriteError`], for example for a full disk; the temporary file is removed.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let failed = |error: io::Error| WriteError { path: path.to_owned(), reason: words(&error) };
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        let mut device = OpenOptions::new().write(true).open(path).map_err(failed)?;
        return device.write_all(content).map_err(failed);
    }
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let temporary = temporary_beside(path);
    let written = write_whole(&temporary, content).and_then(|()| fs::rename(&temporary, path));
    written.map_err(|error| {
        let _ = fs::remove_file(&temporary);
        failed(error)
    })
}

fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// A name in the same folder (rename must not cross file systems), unique to this process.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// The error's text without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .expect("folder")
            .map(|e| e.expect("entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_replaced_whole_and_folders_are_made() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("a/b/index.html");
        write_atomic(&path, b"one").expect("write");
        write_atomic(&path, b"two").expect("write");
        assert_eq!(fs::read(&path).expect("read"), b"two");
        assert_eq!(entries(&folder.path().join("a/b")), ["index.html"]);
    }

    #[test]
    fn a_full_device_is_one_clear_error() {
        let error = write_atomic(Path::new("/dev/full"), b"x").unwrap_err();
        assert_eq!(error.to_string(), "cannot write /dev/full: No space left on device");
    }

    #[test]
    fn a_target_that_is_a_folder_leaves_nothing_behind() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("taken");
        fs::create_dir(&path).expect("mkdir");
        assert!(write_atomic(&path, b"x").is_err());
        assert_eq!(entries(folder.path()), ["taken"]);
    }
}
