//! Packages of PyPI. Only `make consumers` runs them, because they are downloaded.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{has, is_long};

/// Returns true if packages may be downloaded.
pub(crate) fn is_wanted() -> bool {
    is_long() && has("python3")
}

/// Returns a virtual environment with one package, which is made once; several packages in one
/// environment would overwrite each other. `more` goes to pip as well: options, and further
/// packages.
pub(crate) fn install(package: &str, version: &str, more: &[&str]) -> PathBuf {
    let venv = directory().join(format!("{package}-{version}"));
    let installed = venv.join("installed");
    let wanted = more.join(" ");
    if std::fs::read_to_string(&installed).ok().as_ref() != Some(&wanted) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let wheel = format!("{package}=={version}");
        run(Command::new(venv.join("bin/pip")).args(["install", "--quiet", &wheel]).args(more));
        std::fs::write(&installed, wanted).unwrap();
    }
    venv
}

/// Returns the directory in which an environment has its packages.
pub(crate) fn site_packages(venv: &Path) -> PathBuf {
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'), end='')";
    let python = venv.join("bin/python");
    let output = Command::new(&python).args(["-c", ask]).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", python.display()));
    PathBuf::from(String::from_utf8(output.stdout).unwrap())
}

/// Returns the unpacked source distribution of `NAME-VERSION`, which alone contains a package's
/// tests. It is downloaded once with the pip of a virtual environment.
pub(crate) fn source(venv: &Path, name: &str, version: &str) -> PathBuf {
    let dir = directory();
    let sources = dir.join(format!("{name}-{version}"));
    if !sources.is_dir() {
        let download = ["download", "--quiet", "--no-deps", "--no-binary", name, "--dest"];
        let requirement = format!("{name}=={version}");
        run(Command::new(venv.join("bin/pip")).args(download).arg(&dir).arg(requirement));
        let archive = dir.join(format!("{name}-{version}.tar.gz"));
        run(Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(&dir));
    }
    sources
}

/// Returns the directory in which downloads are kept between runs.
pub(crate) fn directory() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("consumers")
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}");
}
