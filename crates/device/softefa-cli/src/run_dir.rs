//! The private directory of one run: the sysfs tree its programs read and the counters they write.
//!
//! A run holds a lock on its directory as long as it lives. Its programs may live longer. The next
//! run removes a directory that neither uses any more.

pub(crate) mod programs;

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, OFlags, flock};
use softefa::Adapter;
use softefa::config::{ENV_RUN_DIR, format_key, parse_key};
use softefa::local_copy::{UserKey, random_key};

use crate::eprint::eprint_line;
use crate::failure::Failure;

const RUN_PREFIX: &str = "run-";
const KEY_FILE: &str = "local-key";
const LOCK_FILE: &str = "lock";
const KEEP_FILE: &str = "keep";
const PROGRAM_FILE: &str = "program";

/// A run directory, which is removed when this is dropped unless it must be kept.
#[derive(Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
    keep: bool,
    local_key: UserKey,
    _lock: File,
}

/// A run that is alive now.
#[derive(Debug)]
pub(crate) struct LiveRun {
    /// The path of the directory.
    pub(crate) path: PathBuf,
    /// The name of its program, without characters that are not printable.
    pub(crate) program: String,
}

impl LiveRun {
    /// Returns the id of its `softefa run` process; 0 for a directory that was renamed.
    pub(crate) fn pid(&self) -> u32 {
        let name = self.path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let pid = name.strip_prefix(RUN_PREFIX).and_then(|rest| rest.split('-').next());
        pid.and_then(|pid| pid.parse().ok()).unwrap_or_default()
    }

    fn at(path: PathBuf) -> Self {
        let program = fs::read_to_string(path.join(PROGRAM_FILE)).unwrap_or_default();
        // A terminal would obey control characters.
        let program = program.chars().filter(|c| !c.is_control()).collect();
        Self { path, program }
    }
}

impl RunDir {
    /// Makes a directory for this run under the user's base directory. Other commands do not see
    /// the run before it is [announced](Self::announce).
    ///
    /// # Errors
    /// The base directory cannot be made, belongs to another user, or is full.
    pub(crate) fn create(keep: bool) -> Result<Self, Failure> {
        let base = base();
        Self::create_in(&base, keep).map_err(|error| {
            Failure::of_machine(format!(
                "cannot make a run directory in {}: {error}; set XDG_RUNTIME_DIR to a directory of yours",
                base.display()
            ))
        })
    }

    fn create_in(base: &Path, keep: bool) -> io::Result<Self> {
        make_private(base)?;
        // A fresh directory must be locked before others look for stale ones.
        let _alone = one_at_a_time(base)?;
        remove_stale(base);
        let path = make_unique(base)?;
        let filled = fill(&path, keep).and_then(|lock| Ok((lock, local_key(base)?)));
        match filled {
            Ok((lock, local_key)) => Ok(Self { path, keep, local_key, _lock: lock }),
            Err(error) => {
                // The directory is removed here and not in a destructor, which would wait for the
                // lock that we hold. If it cannot be removed, it is stale, and the next run removes
                // it.
                let _ = fs::remove_dir_all(&path);
                Err(error)
            }
        }
    }

    /// Shows the run to other commands, as one of `program`. Its device tree and its first faults
    /// must have been written, because what a command changes before that would be lost.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn announce(&self, program: &str) -> io::Result<()> {
        // It is written under another name first, so that no reader sees half of it.
        let written = self.path.join(format!("{PROGRAM_FILE}.new"));
        fs::write(&written, program)?;
        fs::rename(written, self.path.join(PROGRAM_FILE))
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the key that all runs of this user on this machine share.
    pub(crate) fn local_key(&self) -> UserKey {
        self.local_key
    }

    /// Returns the root of the sysfs tree (`SYSFS_PATH`).
    pub(crate) fn sysfs(&self) -> PathBuf {
        self.path.join("sysfs")
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        // Processes that outlive the run still need the directory; the next run after their end
        // removes it.
        if !programs::all(&self.path).is_empty() {
            return;
        }
        // A directory that is half removed looks like that of a killed run, which others would
        // remove, too.
        let _alone = self.path.parent().map(one_at_a_time);
        if let Err(error) = fs::remove_dir_all(&self.path) {
            eprint_line!("softefa: run directory {} left behind: {error}", self.path.display());
        }
    }
}

/// Locks a run directory, which marks the run as alive, and notes whether to keep it.
fn fill(path: &Path, keep: bool) -> io::Result<File> {
    let lock = open_lock(path, true)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    if keep {
        fs::write(path.join(KEEP_FILE), "")?;
    }
    Ok(lock)
}

/// Opens the lock file in `dir`, for writing as well, because NFS locks no other files.
fn open_lock(dir: &Path, create: bool) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(create).mode(0o600);
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(dir.join(LOCK_FILE))
}

/// Returns the lock of processes that make or remove directories of runs.
fn one_at_a_time(base: &Path) -> io::Result<File> {
    check_private(base)?;
    let lock = open_lock(base, true)?;
    flock(&lock, FlockOperation::LockExclusive)?;
    Ok(lock)
}

/// Returns the runs of this user that are announced and are alive or have programs with devices, in
/// the order of their names.
pub(crate) fn live_runs() -> Vec<LiveRun> {
    live_runs_in(&base())
}

fn live_runs_in(base: &Path) -> Vec<LiveRun> {
    // The contents of another user's directory are not trusted.
    if check_private(base).is_err() {
        return Vec::new();
    }
    let mut paths = run_paths(base);
    let is_live = |path: &Path| {
        let has_devices = || !programs::with_devices(path).is_empty();
        path.join(PROGRAM_FILE).exists() && (is_locked(path) || has_devices())
    };
    paths.retain(|path| check_private(path).is_ok() && is_live(path));
    let mut runs: Vec<LiveRun> = paths.into_iter().map(LiveRun::at).collect();
    runs.sort_by(|a, b| a.path.cmp(&b.path));
    runs
}

/// Returns the run that this process is inside of.
pub(crate) fn own_run() -> Option<LiveRun> {
    let path = PathBuf::from(std::env::var_os(ENV_RUN_DIR).filter(|path| !path.is_empty())?);
    // This process is one of its programs, even if `softefa run` has ended.
    path.is_dir().then(|| LiveRun::at(path))
}

/// Returns a lock until whose end no run beside the one at `path` begins or removes its directory;
/// `None` if there is no lock.
pub(crate) fn hold(path: &Path) -> Option<File> {
    one_at_a_time(path.parent()?).ok()
}

/// Returns the kind of adapter that `device` is in the run at `path`, according to its tree.
pub(crate) fn adapter_of(path: &Path, device: &str) -> Adapter {
    let port = path.join("sysfs/class/infiniband").join(device).join("ports/1");
    match fs::read_to_string(port.join("link_layer")) {
        Ok(text) if text.trim_end() == "Ethernet" => Adapter::Roce,
        _ => Adapter::Efa,
    }
}

/// Returns `$XDG_RUNTIME_DIR/softefa`, otherwise `softefa-UID` in the temporary directory.
fn base() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from) {
        Some(dir) if dir.is_absolute() && dir.is_dir() => dir.join("softefa"),
        _ => {
            let uid = rustix::process::getuid().as_raw();
            std::env::temp_dir().join(format!("softefa-{uid}"))
        }
    }
}

/// Makes `dir` for this user only.
fn make_private(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        result => return result,
    }
    check_private(dir)
}

/// Checks that `dir` is this user's. In a shared temporary directory another user may have made it
/// first, so that a symbolic link or another owner is refused.
fn check_private(dir: &Path) -> io::Result<()> {
    let meta = fs::symlink_metadata(dir)?;
    if !meta.is_dir() || meta.uid() != rustix::process::getuid().as_raw() {
        return Err(io::Error::other("it exists and is not a directory of this user"));
    }
    Ok(())
}

/// Reads the key of the user's runs, or makes it in the first run. The caller holds the lock of
/// `base`.
fn local_key(base: &Path) -> io::Result<UserKey> {
    let path = base.join(KEY_FILE);
    let kept = fs::read_to_string(&path).ok().and_then(|text| parse_key(text.trim()).ok());
    if let Some(key) = kept {
        return Ok(key);
    }
    let key = random_key();
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    writeln!(file, "{}", format_key(&key))?;
    Ok(key)
}

fn make_unique(base: &Path) -> io::Result<PathBuf> {
    let pid = std::process::id();
    for attempt in 0..1000 {
        let path = base.join(format!("{RUN_PREFIX}{pid}-{attempt}"));
        match DirBuilder::new().mode(0o700).create(&path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(path),
        }
    }
    Err(io::Error::other("1000 kept runs of one process id; remove some"))
}

fn run_paths(base: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(base) else { return Vec::new() };
    entries
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(RUN_PREFIX))
        .map(|entry| entry.path())
        .collect()
}

fn remove_stale(base: &Path) {
    for path in run_paths(base) {
        let is_in_use = || is_locked(&path) || !programs::all(&path).is_empty();
        if !path.join(KEEP_FILE).exists() && !is_in_use() {
            // If it cannot be removed now, the next run does so.
            let _ = fs::remove_dir_all(&path);
        }
    }
}

/// Returns true if another process holds the lock, which only an attempt to lock tells, or if the
/// lock file cannot be opened.
fn is_locked(run: &Path) -> bool {
    match open_lock(run, false) {
        Ok(lock) => flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_removes_itself_and_what_killed_runs_left() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().join("base");
        make_private(&base).unwrap();
        fs::create_dir(base.join("run-1-0")).unwrap();
        let live = RunDir::create_in(&base, false).unwrap();
        assert!(!base.join("run-1-0").exists(), "stale run is still there");
        let second = RunDir::create_in(&base, false).unwrap();
        assert!(live.path().exists(), "a run removed another that is alive");
        let path = second.path().to_path_buf();
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn runs_that_begin_and_end_together_do_not_meet() {
        let base = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let run = RunDir::create_in(base.path(), false).unwrap();
                        fs::create_dir(run.sysfs()).unwrap();
                        for file in 0..50 {
                            fs::write(run.sysfs().join(file.to_string()), "").unwrap();
                        }
                    }
                });
            }
        });
        assert!(run_paths(base.path()).is_empty());
    }

    #[test]
    fn a_run_is_not_seen_before_it_is_announced() {
        let base = tempfile::tempdir().unwrap();
        let run = RunDir::create_in(base.path(), false).unwrap();
        assert!(live_runs_in(base.path()).is_empty(), "its devices are not written yet");
        run.announce("sleep").unwrap();
        let seen = live_runs_in(base.path());
        assert_eq!(seen.iter().map(|run| &*run.program).collect::<Vec<_>>(), ["sleep"]);
        assert_eq!(seen[0].pid(), std::process::id());
    }

    #[test]
    fn kept_run_survives_the_next() {
        let base = tempfile::tempdir().unwrap();
        let kept = RunDir::create_in(base.path(), true).unwrap();
        let path = kept.path().to_path_buf();
        drop(kept);
        drop(RunDir::create_in(base.path(), false).unwrap());
        assert!(path.exists());
    }

    #[test]
    fn runs_of_a_user_share_a_key_that_nobody_else_can_read() {
        let base = tempfile::tempdir().unwrap();
        let [first, second] = [(); 2].map(|()| RunDir::create_in(base.path(), false).unwrap());
        assert_eq!(first.local_key(), second.local_key());
        let mode = fs::metadata(base.path().join(KEY_FILE)).unwrap().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }

    /// A link in place of a lock file is not followed, and the runs of another user are not used.
    #[test]
    fn nothing_of_another_user_s_base_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (base, canary) = (dir.path().join("base"), dir.path().join("canary"));
        let run = base.join("run-1-0");
        fs::write(&canary, "whole").unwrap();
        fs::create_dir_all(&run).unwrap();
        fs::write(run.join(PROGRAM_FILE), "theirs").unwrap();
        std::os::unix::fs::symlink(&canary, base.join(LOCK_FILE)).unwrap();
        let lock = open_lock(&run, true).unwrap();
        flock(&lock, FlockOperation::LockExclusive).unwrap();
        assert!(hold(&run).is_none(), "a link is not followed");
        assert_eq!(live_runs_in(&base).len(), 1, "ours");
        if std::os::unix::fs::chown(&base, Some(65534), Some(65534)).is_err() {
            eprintln!("SKIPPED, NOT TESTED: a directory of another user needs root");
            return;
        }
        assert!(live_runs_in(&base).is_empty() && hold(&run).is_none());
        assert!(RunDir::create_in(&base, false).is_err());
        assert_eq!(fs::read_to_string(canary).unwrap(), "whole");
    }

    /// A run whose lock file cannot be opened counts as alive.
    #[test]
    fn a_run_whose_lock_cannot_be_had_lives() {
        let base = tempfile::tempdir().unwrap();
        let run = base.path().join("run-1-0");
        fs::create_dir(&run).unwrap();
        std::os::unix::fs::symlink("nowhere", run.join(LOCK_FILE)).unwrap();
        drop(RunDir::create_in(base.path(), false).unwrap());
        assert!(run.exists());
    }

    #[test]
    fn base_that_is_a_link_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(RunDir::create_in(&link, false).is_err());
    }
}
