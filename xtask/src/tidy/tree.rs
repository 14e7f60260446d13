//! The text files of the checkout, without files that are built or generated.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

/// Names of directories that hold no sources.
const SKIPPED_DIRS: [&str; 8] =
    [".git", "target", "report", "results", "corpus", "artifacts", "node_modules", "book"];
/// Directories with one of these names that do hold sources.
const KEPT_DIRS: [&str; 1] = ["crates/support/report"];

/// Ending of files that libraries drop into the current directory when a program crashes
/// (libfabric's psm3).
const SKIPPED_END: &str = ".btr";

/// Name of the file in a linked worktree that names the repository by its absolute path.
const WORKTREE_LINK: &str = ".git";

/// One text file.
#[derive(Debug)]
pub(crate) struct SourceFile {
    /// Path relative to the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl SourceFile {
    /// Returns whether the file holds Rust.
    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Returns whether everything in the file is test code.
    pub(crate) fn is_test(&self) -> bool {
        let in_dir = |dir: &str| self.path.contains(&format!("/{dir}/"));
        in_dir("tests") || in_dir("benches") || self.path.ends_with("tests.rs")
    }
}

/// All text files.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    files: Vec<SourceFile>,
}

impl Tree {
    pub(crate) fn read(root: &Path) -> Result<Self> {
        let mut tree = Self::default();
        tree.read_dir(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    fn read_dir(&mut self, dir: &Path, prefix: &str) -> Result<()> {
        let entries =
            fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{prefix}{name}");
            let kind = entry.file_type()?;
            if kind.is_dir() {
                let skipped = SKIPPED_DIRS.contains(&name.as_str());
                if !skipped || KEPT_DIRS.contains(&path.as_str()) {
                    self.read_dir(&entry.path(), &format!("{path}/"))?;
                }
            } else if kind.is_file() && !name.ends_with(SKIPPED_END) && name != WORKTREE_LINK {
                let bytes =
                    fs::read(entry.path()).with_context(|| format!("cannot read {path}"))?;
                // A file that is not text (a fuzz seed, an image) has no lines to check.
                if let Ok(text) = String::from_utf8(bytes) {
                    self.files.push(SourceFile { path, text });
                }
            }
        }
        Ok(())
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter()
    }

    /// Returns the text of the file at `path`.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.files.iter().find(|file| file.path == path).map(|file| file.text.as_str())
    }

    /// Returns whether there is a file or a folder at `path`.
    pub(crate) fn has(&self, path: &str) -> bool {
        let below = |file: &SourceFile| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.files.iter().any(below)
    }

    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| SourceFile {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self { files: files.iter().map(file).collect() }
    }
}
