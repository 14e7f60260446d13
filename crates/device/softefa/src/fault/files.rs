//! The faults that are requested while programs run: files in the directory of their run.
//!
//! ```text
//! RUN_DIR/fault/command   what `softefa fault set` asks for, or nothing
//! RUN_DIR/fault/script    the steps of `--fault-script`, in the order of time
//! RUN_DIR/fault/start     what `--fault` asks for
//! RUN_DIR/fault/begin     when the first device of the run was opened, from which the steps count
//! ```
//! Each file is put in its place whole, by a rename or a link, so that a reader finds the old or
//! the new one and never a mixture. A file that is incomplete, of another user, or not a regular
//! file is not used.

use std::fmt::Display;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use srd::Instant;

use super::{FaultSpec, TimedFault};
use crate::counters::{self, ProcessCounters};
use crate::host;

const HEAD: &str = "softefa-fault 1";
/// The last line. A file that was cut off does not end with it.
const TAIL: &str = "end";
/// Length of the longest file that is read.
const BYTES_MAX: u64 = 1 << 20;
/// The bits of a file's mode by which others may write to it.
const MODE_OTHERS_WRITE: u32 = 0o022;

const COMMAND: &str = "command";
const START: &str = "start";
const SCRIPT: &str = "script";
const BEGIN: &str = "begin";

fn place(run_dir: &Path, name: &str) -> PathBuf {
    run_dir.join("fault").join(name)
}

/// Makes the programs of the run in `run_dir` deal `fault`, or end with `None` the one that was
/// requested. Tells the programs that run, and returns the devices that were told.
///
/// # Errors
/// The file cannot be written; then nothing has changed.
pub fn set(run_dir: &Path, fault: Option<&TimedFault>) -> io::Result<Vec<ProcessCounters>> {
    write(run_dir, COMMAND, fault.iter())?;
    // A device that is opened from now on reads the file; all others are on this list.
    let running = counters::read_dir(run_dir)?.into_iter().filter(ProcessCounters::is_running);
    // A device whose process ends meanwhile need not be told.
    Ok(running.filter(|device| counters::announce_faults(run_dir, device).is_ok()).collect())
}

/// Reads the fault that a command has requested in the run in `run_dir`, whether or not it is over.
///
/// # Errors
/// The file exists and cannot be used.
pub fn asked(run_dir: &Path) -> io::Result<Option<TimedFault>> {
    Ok(read(run_dir, COMMAND)?.into_iter().next())
}

/// Makes the programs of the run in `run_dir` deal `steps`, each from its time after the first
/// device was opened. It is for a run without programs yet.
///
/// # Errors
/// The file cannot be written.
pub fn set_script(run_dir: &Path, steps: &[TimedFault]) -> io::Result<()> {
    write(run_dir, SCRIPT, steps.iter())
}

/// Records for readers the faults with which the programs of the run in `run_dir` start.
///
/// # Errors
/// The file cannot be written.
pub fn set_start(run_dir: &Path, spec: &FaultSpec) -> io::Result<()> {
    let (spec, from_ns) = (spec.clone(), 0);
    let fault = TimedFault { spec, device: None, peer: None, from_ns, for_ns: None };
    write(run_dir, START, [&fault].into_iter())
}

pub(super) fn start(run_dir: &Path) -> io::Result<FaultSpec> {
    let noted = read(run_dir, START)?.into_iter().next();
    Ok(noted.map(|fault| fault.spec).unwrap_or_default())
}

/// Returns the steps of the run in `run_dir`, as they were set.
///
/// # Errors
/// The file exists and cannot be used.
pub fn script(run_dir: &Path) -> io::Result<Vec<TimedFault>> {
    read(run_dir, SCRIPT)
}

/// Returns the time on the clock of [`TimedFault::from_ns`].
#[must_use]
pub fn now_ns() -> u64 {
    host::now().as_ns()
}

/// Returns when the steps of a script began. They begin now, if no device was opened before.
pub(super) fn begin(run_dir: &Path, now: Instant) -> io::Result<Instant> {
    let path = place(run_dir, BEGIN);
    if let Some(begin) = begun(run_dir)? {
        return Ok(begin);
    }
    let draft = draft(&path, [now.as_ns()].iter())?;
    // Another process may have been the first.
    let linked = fs::hard_link(&draft, &path);
    fs::remove_file(&draft)?;
    match linked {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => begun(run_dir)?.ok_or_else(|| io::ErrorKind::NotFound.into()),
    }
}

/// Returns when the steps began; `None` before that, and without any steps.
pub(super) fn begun(run_dir: &Path) -> io::Result<Option<Instant>> {
    let Some(text) = read_text(&place(run_dir, BEGIN))? else { return Ok(None) };
    let ns = lines(&text)?.first().and_then(|line| line.parse().ok());
    ns.map(|ns| Some(Instant::from_ns(ns))).ok_or_else(unusable)
}

fn write(run_dir: &Path, name: &str, faults: impl Iterator<Item = impl Display>) -> io::Result<()> {
    let path = place(run_dir, name);
    let draft = draft(&path, faults)?;
    fs::rename(&draft, &path).inspect_err(|_| {
        let _ = fs::remove_file(&draft);
    })
}

/// Writes a complete file beside `path`, which is to take its place.
fn draft(path: &Path, lines: impl Iterator<Item = impl Display>) -> io::Result<PathBuf> {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let mut text = format!("{HEAD}\n");
    lines.for_each(|line| text += &format!("{line}\n"));
    text += TAIL;
    text.push('\n');
    if let Some(dir) = path.parent() {
        match fs::DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
    }
    loop {
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let draft = path.with_extension(format!("{}-{serial}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft) {
            // The draft is of a killed process that had the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(mut file) => {
                return file.write_all(text.as_bytes()).map(|()| draft.clone()).inspect_err(|_| {
                    let _ = fs::remove_file(&draft);
                });
            }
        }
    }
}

fn read(run_dir: &Path, name: &str) -> io::Result<Vec<TimedFault>> {
    let Some(text) = read_text(&place(run_dir, name))? else { return Ok(Vec::new()) };
    lines(&text)?.into_iter().map(|line| line.parse().map_err(|_| unusable())).collect()
}

/// Returns the lines between head and tail.
fn lines(text: &str) -> io::Result<Vec<&str>> {
    let inside = text.strip_prefix(HEAD).and_then(|rest| rest.strip_prefix('\n'));
    let inside = inside.and_then(|rest| rest.strip_suffix('\n')?.strip_suffix(TAIL));
    let inside = inside.filter(|rest| rest.is_empty() || rest.ends_with('\n'));
    Ok(inside.ok_or_else(unusable)?.lines().collect())
}

/// Returns the text of a file that only this user can have written; `None` if there is none.
fn read_text(path: &Path) -> io::Result<Option<String>> {
    let mut options = OpenOptions::new();
    // Another user must not redirect us with a link, or make us wait for the other end of a pipe.
    options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    check(&file)?;
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(Some(text))
}

fn check(file: &File) -> io::Result<()> {
    let meta = file.metadata()?;
    let is_ours = meta.uid() == rustix::process::geteuid().as_raw();
    if !meta.is_file() || !is_ours || meta.mode() & MODE_OTHERS_WRITE != 0 {
        return Err(io::Error::other("it is not a file that this user alone can write"));
    }
    if meta.len() > BYTES_MAX {
        return Err(io::Error::other("it is too long"));
    }
    Ok(())
}

fn unusable() -> io::Error {
    io::Error::other("it is not what softefa has written")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn fault(spec: &str) -> TimedFault {
        let spec = TimedFault::parse_spec(spec).unwrap();
        TimedFault { spec, device: None, peer: None, from_ns: 1, for_ns: None }
    }

    #[test]
    fn what_was_asked_for_last_is_there_whole() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(asked(dir.path()).unwrap(), None);
        let all = ["loss=5%,seed=1", "none", "rnr=1%,delay=1us..2us,seed=2"].map(fault);
        std::thread::scope(|scope| {
            for fault in &all {
                scope.spawn(|| (0..200).for_each(|_| drop(set(dir.path(), Some(fault)).unwrap())));
            }
            for _ in 0..1_000 {
                let seen = asked(dir.path()).unwrap();
                assert!(seen.is_none_or(|seen| all.contains(&seen)));
            }
        });
        set(dir.path(), None).unwrap();
        assert_eq!(asked(dir.path()).unwrap(), None);
        assert_eq!(fs::read_dir(dir.path().join("fault")).unwrap().count(), 1, "drafts are left");
    }

    #[test]
    fn the_first_who_comes_begins() {
        let dir = tempfile::tempdir().unwrap();
        let begins: Vec<Instant> = std::thread::scope(|scope| {
            let begin = |ns| begin(dir.path(), Instant::from_ns(ns)).unwrap();
            let all = [1, 2, 3, 4].map(|ns| scope.spawn(move || begin(ns)));
            all.map(|one| one.join().unwrap()).into()
        });
        assert!(begins.iter().all(|begin| *begin == begins[0]), "{begins:?}");
        assert_eq!(begun(dir.path()).unwrap(), Some(begins[0]));
    }

    #[test]
    fn what_is_not_whole_or_not_ours_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        set(dir.path(), Some(&fault("loss=5%"))).unwrap();
        let path = place(dir.path(), COMMAND);
        let good = fs::read(&path).unwrap();
        let put = |bytes: &[u8]| {
            fs::remove_file(&path).unwrap();
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        };
        for cut in 0..good.len() {
            put(&good[..cut]);
            assert!(asked(dir.path()).is_err(), "cut at {cut}");
        }
        for bad in [&[0xff; 100][..], b"softefa-fault 1\nend\nx\n", &vec![b'\n'; 2 << 20]] {
            put(bad);
            assert!(asked(dir.path()).is_err());
        }
        put(&good);
        assert!(asked(dir.path()).is_ok());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o620)).unwrap();
        assert!(asked(dir.path()).is_err(), "others may write it");
        fs::remove_file(&path).unwrap();
        let elsewhere = dir.path().join("elsewhere");
        fs::write(&elsewhere, &good).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert!(asked(dir.path()).is_err(), "a link");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(asked(dir.path()).is_err(), "a directory");
        fs::remove_dir(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        assert!(asked(dir.path()).is_err(), "a pipe, which nobody writes to");
    }
}
