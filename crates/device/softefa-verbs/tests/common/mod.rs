//! Compiling C programs and running them on the library.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use softefa::counters::{self, ProcessCounters};

/// Compiles `tests/c/<name>.c` and links it with `libraries`; the program, or what the compiler
/// said.
pub(crate) fn compile(name: &str, libraries: &[&str]) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(format!("{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("verbs-{name}"));
    let output = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-o"])
        .args([&program, &source])
        .args(libraries)
        .output()
        .map_err(|error| format!("cc cannot be run: {error}; install gcc"))?;
    if output.status.success() {
        return Ok(program);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(format!("cc refused {} (libibverbs-dev installed?):\n{said}", source.display()))
}

/// The preloadable library, built from the present sources.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let is_release = !cfg!(debug_assertions);
        nested_cargo::build(&["--lib"], is_release).expect("the library builds");
        let dir = if is_release { "release" } else { "debug" };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("tmp has a parent");
        let library = target.join(dir).join("libsoftefa_verbs.so");
        assert!(library.is_file(), "{} is missing", library.display());
        library
    })
}

/// A finished program and what its device counted.
pub(crate) struct Run {
    pub(crate) output: Output,
    processes: Vec<ProcessCounters>,
}

impl Run {
    /// Sum over the program's processes and devices.
    #[allow(dead_code, reason = "not every test counts them")]
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let values = self.processes.iter().flat_map(|process| &process.values);
        values.filter(|(counter, _)| *counter == name).map(|(_, value)| value).sum()
    }

    /// Devices that were opened, each in each process once.
    #[allow(dead_code, reason = "not every test counts them")]
    pub(crate) fn devices(&self) -> usize {
        self.processes.len()
    }
}

/// Runs `program` with these arguments and variables, for at most a minute.
pub(crate) fn run(program: &Path, args: &[&str], env: &[(&str, &OsStr)]) -> Run {
    let dir = tempfile::tempdir().expect("a directory for the run");
    let output = Command::new("timeout")
        .arg("60")
        .arg(program)
        .args(args)
        .env("SOFTEFA_RUN_DIR", dir.path())
        .env_remove("SYSFS_PATH")
        .envs(env.iter().copied())
        .output()
        .expect("timeout runs");
    let processes = counters::read_dir(dir.path()).expect("the counters can be read");
    Run { output, processes }
}
