//! The adapter library, and the libraries that programs use.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::Finding;
use crate::args::ReplaceVerbs;
use crate::failure::Failure;
use crate::launch;
use crate::library;
use crate::run_dir::RunDir;

/// The releases of rdma-core whose interface the adapter provides
/// (`crates/device/softefa-verbs/abi`).
const RDMA_CORE: std::ops::RangeInclusive<u32> = 44..=65;
/// The releases of libfabric from the first to the last that `docs/CONSUMERS.md` covers.
const LIBFABRIC: [(u32, u32); 2] = [(1, 17), (2, 5)];

pub(super) fn findings(option: Option<&Path>) -> Vec<Finding> {
    vec![adapter(option), rdma_core(), libfabric()]
}

/// Checks that the adapter library is found, and that the loader loads it into a program.
fn adapter(option: Option<&Path>) -> Finding {
    let name = "adapter library";
    let path = match library::find(option) {
        Ok(path) => path,
        Err(failure) => {
            return Finding::broken(
                name,
                failure.to_string(),
                "make build, or softefa doctor --library FILE",
            );
        }
    };
    let shown = path.display();
    let output = match preload(&path) {
        Ok(output) => output,
        Err(error) => return Finding::note(name, format!("{shown}, not tried: {error}")),
    };
    let is_loaded = String::from_utf8_lossy(&output.stdout).contains(&*path.to_string_lossy());
    if !is_loaded {
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().next().unwrap_or("the loader does not say why").to_owned();
        let help = format!("ldd {shown}");
        return Finding::broken(name, format!("{shown} is not taken into programs: {line}"), help);
    }
    match library::replacements(&path, ReplaceVerbs::Auto) {
        Ok(Some(_)) => Finding::good(name, format!("{shown}, with versioned libraries beside it")),
        _ => Finding::limited(
            name,
            format!(
                "{shown}, without versioned libraries beside it: programs that open libibverbs by name do not find it"
            ),
            "make build",
        ),
    }
}

/// Returns the memory map of a program that has the library at `path` preloaded, as in a run.
fn preload(path: &Path) -> Result<Output, Failure> {
    let run = if launch::is_plain(path) { None } else { Some(RunDir::create(false)?) };
    let loadable = match &run {
        None => path.to_path_buf(),
        Some(run) => launch::loadable(path, run.path())?,
    };
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "cat /proc/self/maps"]).env("LD_PRELOAD", loadable);
    command.output().map_err(|error| Failure::new(error.to_string()))
}

/// Returns the search path of the loader, as far as it matters.
fn places() -> Vec<PathBuf> {
    let mut places: Vec<PathBuf> = env::var_os("LD_LIBRARY_PATH")
        .map(|list| env::split_paths(&list).collect())
        .unwrap_or_default();
    let arch = env::consts::ARCH;
    for dir in ["/lib", "/usr/lib", "/usr/local/lib", "/lib64", "/usr/lib64"] {
        places.push(format!("{dir}/{arch}-linux-gnu").into());
        places.push(dir.into());
    }
    places
}

/// Returns the file that `name` leads to, with links resolved.
fn resolve(name: &str) -> Option<PathBuf> {
    places().iter().find_map(|dir| fs::canonicalize(dir.join(name)).ok())
}

/// Returns the release of rdma-core in a name like `libibverbs.so.1.14.44.0`.
fn release_of(file: &str) -> Option<u32> {
    file.strip_prefix("libibverbs.so.1.")?.split('.').nth(1)?.parse().ok()
}

fn rdma_core() -> Finding {
    let name = "rdma-core";
    let Some(path) = resolve("libibverbs.so.1") else {
        return Finding::note(
            name,
            "libibverbs.so.1 is not installed: programs that bring none along will not start",
        );
    };
    let file = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    match release_of(&file) {
        Some(release) if RDMA_CORE.contains(&release) => {
            Finding::good(name, format!("{release}, known to work ({})", path.display()))
        }
        Some(release) => Finding::limited(
            name,
            format!(
                "{release}, not tried; {} to {} are known to work",
                RDMA_CORE.start(),
                RDMA_CORE.end()
            ),
            "softefa run -- ibv_devinfo",
        ),
        None => {
            Finding::note(name, format!("{}, whose name does not tell its release", path.display()))
        }
    }
}

/// Returns the release that `fi_info --version` prints.
fn version_in(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.strip_prefix("libfabric: "))?;
    let mut parts = line.split('.').map(|part| part.trim().parse().ok());
    Some((parts.next()??, parts.next()??))
}

fn libfabric() -> Finding {
    let name = "libfabric";
    let Some(path) = resolve("libfabric.so.1") else {
        return Finding::note(
            name,
            "not installed; MPI and NCCL's EFA plug-in bring their own or need it",
        );
    };
    let told = Command::new("fi_info").arg("--version").output().ok();
    let version = told.and_then(|output| version_in(&String::from_utf8_lossy(&output.stdout)));
    let [oldest, latest] = LIBFABRIC;
    match version {
        Some(found @ (major, minor)) if (oldest..=latest).contains(&found) => {
            Finding::good(name, format!("{major}.{minor}, known to work ({})", path.display()))
        }
        Some((major, minor)) => Finding::limited(
            name,
            format!(
                "{major}.{minor}, not tried; {}.{} to {}.{} are known to work",
                oldest.0, oldest.1, latest.0, latest.1
            ),
            "softefa run -- fi_info -p efa",
        ),
        None => Finding::note(
            name,
            format!("{}; its release is told by fi_info, which is not installed", path.display()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read_off_names_and_versions() {
        assert_eq!(release_of("libibverbs.so.1.14.44.0"), Some(44));
        assert_eq!(release_of("libibverbs.so.1"), None);
        assert_eq!(release_of("libefa.so.1.2.44.0"), None);
        assert_eq!(
            version_in("fi_info: 1.17.0\nlibfabric: 1.17.0\nlibfabric api: 1.17\n"),
            Some((1, 17))
        );
        assert_eq!(version_in("fi_info: 2"), None);
    }

    #[test]
    fn a_library_that_is_not_there_is_broken() {
        let finding = adapter(Some(Path::new("/nonexistent/lib.so")));
        assert_eq!(finding.state, super::super::State::Broken);
        assert!(finding.found.contains("/nonexistent/lib.so"), "{finding:?}");
    }

    #[test]
    fn a_library_that_is_none_is_broken() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("libsoftefa_verbs.so");
        fs::write(&file, "no library").unwrap();
        let finding = adapter(Some(&file));
        assert_eq!(finding.state, super::super::State::Broken, "{finding:?}");
    }
}
