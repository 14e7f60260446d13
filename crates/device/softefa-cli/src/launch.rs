//! The environment that loads the adapter into a program.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use rustix::io::Errno;
use softefa::{Config, config};

use crate::failure::Failure;
use crate::library;
use crate::program;
use crate::run_dir::RunDir;

const SHELL: &str = "/bin/sh";
const ENV_PRELOAD: &str = "LD_PRELOAD";
const ENV_LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
const ENV_SYSFS: &str = "SYSFS_PATH";
/// Makes libfabric use the device: between processes of one host (efa-device peers with the same
/// GID) it would send through shared memory.
const ENV_SHM_TRANSFER: &str = "FI_EFA_ENABLE_SHM_TRANSFER";
/// The variable with the options of AddressSanitizer.
const ENV_ASAN: &str = "ASAN_OPTIONS";
/// The option by which AddressSanitizer ends a program at once when it is not the first library; a
/// run turns it off.
const ASAN_LINK_ORDER: &str = "verify_asan_link_order";

/// Returns the command of the program with its arguments and the device's environment; not started
/// yet.
///
/// # Errors
/// The program is missing.
pub(crate) fn command(
    words: &[OsString],
    config: &Config,
    run: &RunDir,
) -> Result<Command, Failure> {
    let Some((name, args)) = words.split_first() else {
        return Err(Failure::new("no program given; usage: softefa run -- PROGRAM"));
    };
    let mut command = Command::new(program::find(name)?);
    std::os::unix::process::CommandExt::arg0(&mut command, name);
    command.args(args);
    for variable in config::ENV_ALL {
        command.env_remove(variable);
    }
    command.envs(config.to_env());
    command.env(ENV_SYSFS, run.sysfs());
    if env::var_os(ENV_SHM_TRANSFER).is_none() {
        command.env(ENV_SHM_TRANSFER, "0");
    }
    if let Some(options) = asan_options(env::var_os(ENV_ASAN)) {
        command.env(ENV_ASAN, options);
    }
    Ok(command)
}

/// Returns the options of AddressSanitizer with which a program starts behind a preloaded library;
/// `None` when the user has set that option.
fn asan_options(existing: Option<OsString>) -> Option<OsString> {
    let own = format!("{ASAN_LINK_ORDER}=0");
    match existing {
        Some(options) if options.to_string_lossy().contains(ASAN_LINK_ORDER) => None,
        Some(mut options) if !options.is_empty() => {
            options.push(":");
            options.push(own);
            Some(options)
        }
        _ => Some(own.into()),
    }
}

/// Makes the loader load the adapter, and find `replacements` before the system's libraries.
///
/// The preloaded library serves programs that are linked with libibverbs, whatever their copy of it
/// is called; the replacements serve programs that open it by name. Libraries of an enclosing run
/// are removed: a process has one adapter.
///
/// # Errors
/// A path cannot be written in the loader's lists.
pub(crate) fn preload(
    command: &mut Command,
    library: &Path,
    replacements: Option<&Path>,
    run: &RunDir,
) -> Result<(), Failure> {
    let lists = [(ENV_PRELOAD, Some(library), ": "), (ENV_LIBRARY_PATH, replacements, ":;")];
    for (variable, path, separators) in lists {
        let existing = env::var_os(variable).map(|list| without_ours(&list, separators));
        if let Some(path) = path {
            let path = loadable(path, run.path())?;
            command.env(variable, prepend(&path, existing.as_deref()));
        } else if let Some(list) = existing {
            command.env(variable, list);
        }
    }
    Ok(())
}

/// Starts the program. A script without an interpreter line is run by the shell, as by `env`.
///
/// # Errors
/// The kernel refused to execute it.
pub(crate) fn spawn(command: &mut Command) -> Result<Child, Failure> {
    let started = match command.spawn() {
        Err(error) if is_unknown(&error) && !library::is_elf(Path::new(command.get_program())) => {
            as_script(command).spawn()
        }
        started => started,
    };
    started.map_err(|error| refusal(command.get_program(), &error))
}

/// Returns true if the kernel does not know the format of the program.
fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(Errno::NOEXEC.raw_os_error())
}

/// Returns the command in the same environment as a shell script.
fn as_script(command: &Command) -> Command {
    let mut script = Command::new(SHELL);
    script.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => script.env(name, value),
            None => script.env_remove(name),
        };
    }
    script
}

/// Returns advice for the user when the kernel refuses to execute `program`.
fn refusal(program: &OsStr, error: &io::Error) -> Failure {
    let program = Path::new(program).display();
    let line = |hint: &str| format!("program {program} cannot be run: {error}; {hint}");
    match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::not_found(line("is its interpreter (first line) there?"))
        }
        io::ErrorKind::WouldBlock | io::ErrorKind::OutOfMemory => Failure::not_executable(line(
            "raise the limit of processes or memory (ulimit, control group)",
        )),
        io::ErrorKind::PermissionDenied => Failure::not_executable(line(
            "may this user execute it, and its interpreter (first line)? is it on a noexec mount?",
        )),
        _ => Failure::not_executable(line("is it built for this machine?")),
    }
}

/// The loader's lists have no quoting: spaces, colons and semicolons separate, and `$` expands. A
/// library at such a path is loaded through a link in the run directory.
///
/// # Errors
/// The run directory has such a path, too.
pub(crate) fn loadable(path: &Path, run_dir: &Path) -> Result<PathBuf, Failure> {
    if is_plain(path) {
        return Ok(path.to_path_buf());
    }
    let link = run_dir.join(path.file_name().unwrap_or_default());
    if !is_plain(&link) {
        return Err(Failure::new(format!(
            "neither {} nor {} can be loaded: space, ':', ';' or '$' in the path; set XDG_RUNTIME_DIR",
            path.display(),
            link.display()
        )));
    }
    symlink(path, &link)
        .map_err(|error| Failure::new(format!("cannot link {}: {error}", link.display())))?;
    Ok(link)
}

/// Returns whether the loader's lists can contain the path.
pub(crate) fn is_plain(path: &Path) -> bool {
    !path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b' ' | b':' | b';' | b'$'))
}

/// Returns a list of the loader without the libraries of another run. Paths with blanks are
/// possible in only one of the lists.
fn without_ours(list: &OsStr, separators: &str) -> OsString {
    let is_separator = |byte: &u8| separators.as_bytes().contains(byte);
    let entries: Vec<&[u8]> = list.as_bytes().split(is_separator).collect();
    let is_other = |entry: &&&[u8]| !library::is_ours(Path::new(OsStr::from_bytes(entry)));
    let others: Vec<&[u8]> = entries.iter().filter(is_other).copied().collect();
    if others.len() == entries.len() {
        return list.to_owned();
    }
    OsString::from_vec(others.join(&b':'))
}

/// Puts a library in front of a list, because the first definition of a symbol, and the first
/// library of a name, wins.
fn prepend(path: &Path, existing: Option<&OsStr>) -> OsString {
    let mut list = path.as_os_str().to_owned();
    if let Some(existing) = existing.filter(|list| !list.is_empty()) {
        list.push(":");
        list.push(existing);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The architecture of the program was checked before.
    #[test]
    fn a_limit_of_processes_is_named() {
        let refused =
            |errno| refusal(OsStr::new("p"), &io::Error::from_raw_os_error(errno)).to_string();
        let (no_process, no_memory, no_program) = (11, 12, 8);
        for errno in [no_process, no_memory] {
            let text = refused(errno);
            assert!(text.contains("limit") && !text.contains("built for"), "{text}");
        }
        assert!(refused(no_program).contains("built for this machine"));
    }

    #[test]
    fn options_of_a_sanitizer_are_kept() {
        let options = |existing: &str| asan_options(Some(existing.into()));
        assert_eq!(asan_options(None).unwrap(), "verify_asan_link_order=0");
        let both = options("halt_on_error=0").unwrap();
        assert_eq!(both, "halt_on_error=0:verify_asan_link_order=0");
        assert_eq!(options("verify_asan_link_order=1"), None);
    }

    #[test]
    fn existing_preloads_stay_behind_ours() {
        let library = Path::new("/x/libsoftefa_verbs.so");
        assert_eq!(prepend(library, None), library.as_os_str());
        assert_eq!(prepend(library, Some(OsStr::new(""))), library.as_os_str());
        let both = prepend(library, Some(OsStr::new("/y/z.so")));
        assert_eq!(both, "/x/libsoftefa_verbs.so:/y/z.so");
    }

    #[test]
    fn what_another_run_put_there_is_taken_out() {
        let without = |list: &str, separators| {
            without_ours(OsStr::new(list), separators).into_string().unwrap()
        };
        assert_eq!(without("/a/libsoftefa_verbs.so:/y/z.so /w.so", ": "), "/y/z.so:/w.so");
        assert_eq!(without("/a/replace-verbs:/lib:", ":;"), "/lib:");
        assert_eq!(without("/a/replace-verbs:/opt/my libs;/lib", ":;"), "/opt/my libs:/lib");
        assert_eq!(without("/a/libsoftefa_verbs.so", ": "), "");
        assert_eq!(without("/x.so /y.so:", ": "), "/x.so /y.so:", "the user's stays as it is");
    }

    #[test]
    fn library_in_an_awkward_place_is_linked() {
        let dir = tempfile::tempdir().unwrap();
        let awkward = dir.path().join("my libs/libsoftefa_verbs.so");
        let link = loadable(&awkward, dir.path()).unwrap();
        assert_eq!(std::fs::read_link(&link).unwrap(), awkward);
        let plain = Path::new("/usr/lib/libsoftefa_verbs.so");
        assert_eq!(loadable(plain, dir.path()).unwrap(), plain);
    }
}
