//! Files of licences in the folder of a crate: its own ones at the root, and further down those of
//! the code that it carries from elsewhere, as an allocator in C.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

/// Beginnings of their names, in capitals.
const BEGINNINGS: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];
/// Endings of names that begin so and are something else: a module about licences, a picture.
const OTHER_ENDS: [&str; 10] = ["c", "cc", "cpp", "h", "html", "png", "py", "rs", "svg", "toml"];
/// Names of folders of which nothing gets into a program.
const NOT_LINKED: [&str; 8] =
    ["benches", "examples", "fixtures", "fuzz", "target", "test", "testdata", "tests"];

/// Returns the texts of the licences in `folder`, each once.
///
/// # Errors
/// Returns an error if a file cannot be read, or the crate has no text of its own at the root.
pub(super) fn texts(folder: &Path) -> Result<BTreeSet<String>> {
    let (mut files, mut waiting) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(next) = waiting.pop() {
        look_into(&next, &mut files, &mut waiting)
            .with_context(|| format!("cannot list {}", next.display()))?;
    }
    ensure!(
        files.iter().any(|file| file.parent() == Some(folder)),
        "there is no text of a licence in {}",
        folder.display()
    );
    let text = |file: &PathBuf| -> Result<String> {
        let body =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Ok(body.trim_end().to_owned())
    };
    files.iter().map(text).collect()
}

/// Adds the licences in a folder to `files`, and the folders in it to `waiting`.
fn look_into(
    folder: &Path,
    files: &mut Vec<PathBuf>,
    waiting: &mut Vec<PathBuf>,
) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A link could lead in a circle.
        let kind = entry.file_type()?;
        if kind.is_file() && is_licence(&entry.file_name()) {
            files.push(entry.path());
        } else if kind.is_dir() && is_linked(&entry.file_name()) {
            waiting.push(entry.path());
        }
    }
    Ok(())
}

fn is_licence(name: &OsStr) -> bool {
    let capitals = name.to_string_lossy().to_uppercase();
    let end = Path::new(name).extension().unwrap_or_default();
    BEGINNINGS.iter().any(|begin| capitals.starts_with(begin))
        && OTHER_ENDS.iter().all(|other| end != *other)
}

fn is_linked(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    !name.starts_with('.') && !NOT_LINKED.contains(&&*name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(folder: &Path, file: &str, text: &str) {
        let path = folder.join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("written");
    }

    /// The licence of the allocator in C once did not come along.
    #[test]
    fn licences_of_code_from_elsewhere_are_found_and_each_text_once() {
        let folder = tempfile::tempdir().expect("a folder");
        for (file, text) in [
            ("LICENSE-MIT", "mine\n"),
            ("c_src/lib/v2/LICENSE", "theirs\n"),
            ("c_src/lib/v3/license.txt", "theirs"),
            ("third_party/other/COPYING.LESSER", "of others"),
            ("tests/fixtures/LICENSE", "of a test"),
            ("c_src/lib/test/LICENSE", "of a test there"),
            ("src/license.rs", "code"),
            ("src/License/mod.rs", "code"),
            (".git/LICENSE", "of nothing"),
        ] {
            write(folder.path(), file, text);
        }
        let found = texts(folder.path()).expect("texts");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["mine", "of others", "theirs"]);
    }

    #[test]
    fn a_crate_without_a_licence_of_its_own_is_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "c_src/LICENSE", "theirs");
        let error = texts(folder.path()).expect_err("none of its own").to_string();
        assert!(error.contains("no text of a licence"), "{error}");
    }
}
