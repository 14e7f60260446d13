//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Maximum number of symbolic links that are followed.
const LINKS_MAX: usize = 40;

/// An error from writing a file; nothing of the file is left.
#[derive(Debug, Error)]
#[error("cannot write {}: {reason}", path.display())]
pub struct WriteError {
    /// The file that was to be written.
    pub path: PathBuf,
    /// The reason in words.
    pub reason: String,
}

/// The way in which a file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// Written as it is, behind what it has: a device, a pipe, a descriptor of a process.
    Stream,
    /// Replaced as a whole by another file at this place, to which symbolic links lead.
    File(PathBuf),
}

impl Destination {
    /// Decides how `path` is written. A device must not be replaced by a file. Nor must a link such
    /// as `/dev/stdout`, even where it leads to a file.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut place = path.to_owned();
        for _ in 0..LINKS_MAX {
            let folder = place.parent().and_then(|folder| fs::canonicalize(folder).ok());
            let is_there = fs::symlink_metadata(&place);
            if is_there.is_ok() && folder.is_some_and(|folder| folder.starts_with("/proc")) {
                return Self::Stream;
            }
            match is_there {
                Ok(meta) if meta.is_symlink() => match fs::read_link(&place) {
                    Ok(target) => place = place.with_file_name(target),
                    Err(_) => break,
                },
                Ok(meta) if !meta.is_file() && !meta.is_dir() => return Self::Stream,
                _ => return Self::File(place),
            }
        }
        Self::File(path.to_owned())
    }
}

/// Opens a [`Destination::Stream`].
///
/// # Errors
/// Returns the error of the operating system.
pub fn open_stream(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).open(path)
}

/// Writes `content` to a temporary file beside `path`, flushes it to disk and renames it, so that
/// readers see the old file or the whole new one. Missing parent folders are made. A path that is
/// no regular file (`/dev/stdout`, a pipe) is written directly.
///
/// # Errors
/// Returns [`WriteError`], for example for a full disk; the temporary file is removed.
pub fn write_atomic(path: &Path, content: &[u8]) -> Result<(), WriteError> {
    let failed = |error: io::Error| WriteError { path: path.to_owned(), reason: words(&error) };
    let path = match Destination::of(path) {
        Destination::Stream => {
            return open_stream(path)
                .and_then(|mut stream| stream.write_all(content))
                .map_err(failed);
        }
        Destination::File(path) => path,
    };
    let path = path.as_path();
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
    let mut file = create_new(path)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Creates a temporary file. One that is there already, as from an earlier process, is removed and
/// not written to.
///
/// # Errors
/// Returns the error of the operating system.
pub fn create_new(path: &Path) -> io::Result<File> {
    let create = || OpenOptions::new().write(true).create_new(true).open(path);
    create().or_else(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            fs::remove_file(path)?;
            create()
        }
        _ => Err(error),
    })
}

/// Returns a name in the same folder (rename must not cross file systems), unique to this process.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Returns the error's text without its number.
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

    /// The option `--json /dev/stdout` as root once replaced the link of the system by a file.
    #[test]
    fn descriptors_and_devices_are_written_and_files_replaced() {
        let folder = tempfile::tempdir().expect("tempdir");
        let at = |name: &str| folder.path().join(name);
        fs::write(at("log"), "before ").expect("write");
        let log = OpenOptions::new().append(true).open(at("log")).expect("open");
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&log));
        std::os::unix::fs::symlink(&descriptor, at("stdout")).expect("link");
        write_atomic(&at("stdout"), b"whole").expect("write");
        assert_eq!(fs::read_link(at("stdout")).expect("still a link"), Path::new(&descriptor));
        assert_eq!(fs::read(at("log")).expect("read"), b"before whole");
        for (path, place) in [
            ("/dev/null", Destination::Stream),
            ("/dev/stdout", Destination::Stream),
            (&descriptor, Destination::Stream),
            ("nowhere", Destination::File("nowhere".into())),
        ] {
            assert_eq!(Destination::of(Path::new(path)), place, "{path}");
        }
        std::os::unix::fs::symlink("kept", at("link")).expect("link");
        write_atomic(&at("link"), b"one").expect("write");
        write_atomic(&at("link"), b"two").expect("write");
        assert_eq!(fs::read(at("kept")).expect("read"), b"two");
        std::os::unix::fs::symlink("loop", at("loop")).expect("link");
        assert!(matches!(Destination::of(&at("loop")), Destination::File(_)));
    }

    #[test]
    fn what_lies_in_the_way_of_a_temporary_file_is_not_written_to() {
        let folder = tempfile::tempdir().expect("tempdir");
        let (canary, path) = (folder.path().join("canary"), folder.path().join("out"));
        fs::write(&canary, "whole").expect("write");
        std::os::unix::fs::symlink(&canary, temporary_beside(&path)).expect("link");
        write_atomic(&path, b"x").expect("write");
        assert_eq!(fs::read(&canary).expect("read"), b"whole");
        assert_eq!(entries(folder.path()), ["canary", "out"]);
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
