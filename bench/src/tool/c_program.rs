//! The C programs of this crate's `c/`, compiled when they are needed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::Tools;

/// Compiles `name` with `compiler`, beside `softefa`. `package` is what to install when the
/// compiler or its headers are missing.
///
/// # Errors
/// The compiler is missing or refuses the program.
pub(super) fn compile(
    tools: &Tools,
    name: &str,
    compiler: &str,
    libraries: &[&str],
    package: &str,
) -> Result<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("c").join(format!("{name}.c"));
    let program = tools.softefa.with_file_name(name);
    let output = Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-Wall", "-Wextra", "-o"])
        .args([&program, &source])
        .args(libraries)
        .output()
        .with_context(|| format!("{compiler} cannot be run; install {package}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{compiler} refused {} ({package} installed?):\n{said}",
        source.display()
    );
    Ok(program)
}
