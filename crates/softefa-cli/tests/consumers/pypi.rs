//! Packages of PyPI. Only `make consumers` runs them, because they are downloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{has, is_long};

/// Whether packages may be downloaded.
pub(crate) fn is_wanted() -> bool {
    is_long() && has("python3")
}

/// A virtual environment with one package, made once; those of several would overwrite each other.
/// `more` goes to pip as well: options, and packages beside it.
pub(crate) fn install(package: &str, version: &str, more: &[&str]) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("consumers");
    let venv = target.join(format!("{package}-{version}"));
    let installed = venv.join("installed");
    if !installed.is_file() {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let wheel = format!("{package}=={version}");
        run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", &wheel]).args(more));
        std::fs::write(&installed, "").unwrap();
    }
    venv
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}");
}
