//! The temporary files of the children.

use std::path::{Path, PathBuf};

use bench_record::failure::{Failure, plain};

/// A folder for the files of the children, removed at the end.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Creates the folder, which the journal's lock keeps to this process. Files that a killed
    /// process left in it are removed.
    pub(super) fn new(out: &Path) -> Result<Self, Failure> {
        let folder = out.join(".efa-bench");
        // Usually there is none.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).map_err(|e| Failure::Output {
            path: folder.display().to_string(),
            reason: plain(&e),
        })?;
        // Children may run elsewhere: give them absolute names.
        Ok(Self(folder.canonicalize().unwrap_or(folder)))
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(super) fn forget(&self, files: &[&Path]) {
        debug_assert!(files.iter().all(|f| f.starts_with(&self.0)));
        for file in files {
            // Usually there is none.
            let _ = std::fs::remove_file(file);
        }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
