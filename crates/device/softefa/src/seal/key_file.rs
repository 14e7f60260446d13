//! The file that holds the key.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{self, Path, PathBuf};

use super::KEY_BYTES;
use super::keys::{SealKey, wipe};

/// The permissions that others must not have.
const OTHERS: u32 = 0o077;

/// Advice on making a key. It does not name the file, because a file with that name may be
/// something else.
const ADVICE: &str = "make a key: head -c 32 /dev/urandom > FILE && chmod 600 FILE";

/// The reason why a key file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyFileError {
    /// The file does not exist.
    #[error("key file '{}' does not exist; {}", shown(path), ADVICE)]
    Missing {
        /// The path as given.
        path: PathBuf,
    },
    /// The path is that of a directory, a pipe or a device, but every process of a run opens the
    /// file again.
    #[error("key file '{}' is not a regular file; {}", shown(path), ADVICE)]
    NotAFile {
        /// The path as given.
        path: PathBuf,
    },
    /// The file is shorter or longer than a key.
    #[error("key file '{}' has {len} bytes instead of {KEY_BYTES}; {}", shown(path), ADVICE)]
    Length {
        /// The path as given.
        path: PathBuf,
        /// The length of the file in bytes.
        len: u64,
    },
    /// The file exists and cannot be read.
    #[error("key file '{}' cannot be read: {reason}", shown(path))]
    Unreadable {
        /// The path as given.
        path: PathBuf,
        /// The error of the operating system.
        reason: String,
    },
}

/// Formats the path as part of one line, whatever bytes are in it.
fn shown(path: &Path) -> String {
    path.display().to_string().escape_debug().to_string()
}

impl SealKey {
    /// Reads the key file at `path`.
    ///
    /// # Errors
    /// [`KeyFileError`].
    pub fn read(path: &Path) -> Result<Self, KeyFileError> {
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => KeyFileError::Missing { path: path.to_path_buf() },
            _ => KeyFileError::Unreadable { path: path.to_path_buf(), reason: error.to_string() },
        };
        // An empty name is no file, and `absolute` refuses it, too.
        let at =
            path::absolute(path).map_err(|_| KeyFileError::Missing { path: path.to_path_buf() })?;
        if !fs::metadata(&at).map_err(failed)?.is_file() {
            return Err(KeyFileError::NotAFile { path: path.to_path_buf() });
        }
        // If the file has become a pipe since, opening it does not block.
        let mut file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&at)
            .map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        let mut raw = [0; KEY_BYTES];
        let len = read_up_to(&mut file, &mut raw).map_err(failed)?;
        let is_more = len == KEY_BYTES && file.read(&mut [0]).map_err(failed)? > 0;
        if len < KEY_BYTES || is_more {
            wipe(&mut raw);
            let len = if is_more { metadata.len().max(KEY_BYTES as u64 + 1) } else { len as u64 };
            return Err(KeyFileError::Length { path: path.to_path_buf(), len });
        }
        let mut key = Self::new(&at, &raw);
        wipe(&mut raw);
        key.exposed_mode = Some(metadata.mode() & 0o777).filter(|mode| mode & OTHERS != 0);
        Ok(key)
    }

    /// Returns a warning about the permissions of the file, if others can read or change it.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        let (mode, file) = (self.exposed_mode?, shown(self.path()));
        Some(format!(
            "key file {file} has mode {mode:04o}: others can read or change it; chmod 600 {file}"
        ))
    }
}

/// Fills `raw` as far as the file goes, and returns the number of bytes.
fn read_up_to(file: &mut File, raw: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < raw.len() {
        match file.read(&mut raw[len..]) {
            Ok(0) => break,
            Ok(more) => len += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn file(dir: &tempfile::TempDir, bytes: &[u8], mode: u32) -> PathBuf {
        let path = dir.path().join(format!("{} {mode:o}", bytes.len()));
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_key_is_32_bytes() {
        let dir = tempfile::tempdir().unwrap();
        let key = SealKey::read(&file(&dir, &[7; 32], 0o600)).unwrap();
        assert_eq!(key.warning(), None);
        for len in [0, 1, 31, 33, 65, 5000] {
            let path = file(&dir, &vec![7; len], 0o600);
            let error = SealKey::read(&path).unwrap_err();
            assert_eq!(error, KeyFileError::Length { path, len: len as u64 });
            let text = error.to_string();
            assert!(text.contains("head -c 32 /dev/urandom") && text.contains("chmod 600"));
        }
    }

    #[test]
    fn rights_of_others_are_told() {
        let dir = tempfile::tempdir().unwrap();
        for mode in [0o644, 0o640, 0o602] {
            let key = SealKey::read(&file(&dir, &[7; 32], mode)).unwrap();
            let warning = key.warning().unwrap();
            assert!(warning.contains(&format!("{mode:04o}")), "{warning}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("missing");
        assert_eq!(SealKey::read(&missing), Err(KeyFileError::Missing { path: missing }));
        assert_eq!(SealKey::read(Path::new("")), Err(KeyFileError::Missing { path: "".into() }));
        let two_lines = SealKey::read(Path::new("/a\nb")).unwrap_err().to_string();
        assert_eq!(two_lines.lines().count(), 1, "{two_lines}");
        let pipe = dir.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
        assert!(made.success());
        for path in [dir.path(), &pipe, Path::new("/dev/zero")] {
            let path = path.to_path_buf();
            assert_eq!(SealKey::read(&path), Err(KeyFileError::NotAFile { path }));
        }
    }

    #[test]
    fn the_path_is_made_absolute() {
        let key = SealKey::read(Path::new("Cargo.toml"));
        assert!(matches!(key, Err(KeyFileError::Length { .. })), "{key:?}");
        let dir = tempfile::tempdir().unwrap();
        let path = file(&dir, &[7; 32], 0o600);
        assert_eq!(SealKey::read(&path).unwrap().path(), path);
    }
}
