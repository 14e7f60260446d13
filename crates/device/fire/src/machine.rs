//! The machine that runs an experiment: a description, and the load from other programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::interrupt;
use crate::stale::{PREFIX, dead_maker};
use crate::tool;

/// Returns distribution, kernel and number of processors.
pub(crate) fn describe() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let name = name.unwrap_or("unknown").trim_matches('"');
    format!("{name}, Linux {}, {} processors", kernel.trim(), processors())
}

pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, Into::into)
}

/// Returns how many processors other programs keep busy, measured over half a second.
///
/// # Errors
/// An interruption was requested meanwhile.
pub(crate) fn others_load() -> Result<f64> {
    let before = ticks();
    interrupt::sleep(Duration::from_millis(500))?;
    let after = ticks();
    let (busy, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    #[expect(clippy::cast_precision_loss, reason = "ticks of half a second")]
    Ok(processors() as f64 * busy as f64 / (all.max(1)) as f64)
}

/// Returns busy and total ticks of the machine.
fn ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> =
        first.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    let all: u64 = fields.iter().take(8).sum();
    (all.saturating_sub(idle), all)
}

/// The part of each second that programs with real-time priority may use, in us; -1 for all of it.
const REAL_TIME_SHARE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// The directory of the file that holds the previous value until it is restored.
const BACKUP_DIR: &str = "/run";
/// The end of the name of that file.
const BACKUP_SUFFIX: &str = "realtime";

/// Gives this thread and its children real-time priority until it is dropped, so that a busy
/// machine disturbs the timing less. Such programs must not spin.
///
/// Linux takes this priority away for 50 ms of each second if it is used much, so that others can
/// run. That would look like a dead link, and is switched off meanwhile.
pub(crate) struct RealTimePriority {
    _share: Option<RealTimeShare>,
}

impl RealTimePriority {
    /// Takes real-time priority. Nothing changes where it is refused.
    pub(crate) fn take() -> Self {
        let _ = tool::run("chrt", &format!("--fifo --pid 1 {}", std::process::id()));
        Self { _share: RealTimeShare::take(Path::new(REAL_TIME_SHARE), Path::new(BACKUP_DIR)) }
    }
}

impl Drop for RealTimePriority {
    fn drop(&mut self) {
        let _ = tool::run("chrt", &format!("--other --pid 0 {}", std::process::id()));
    }
}

/// Reserves all of each second for real-time priority until it is dropped.
struct RealTimeShare {
    setting: PathBuf,
    /// The file with the previous value, for the run after one that was killed.
    note: PathBuf,
    before: String,
}

impl RealTimeShare {
    /// Returns `None` where the setting cannot be changed.
    fn take(setting: &Path, backup_dir: &Path) -> Option<Self> {
        let before = fs::read_to_string(setting).ok()?;
        let note = backup_dir.join(format!("{PREFIX}-{}-{BACKUP_SUFFIX}", std::process::id()));
        // Without the file, a run that is killed leaves the setting changed; nothing else depends
        // on it.
        let _ = fs::write(&note, &before);
        let share = Self { setting: setting.to_path_buf(), note, before };
        fs::write(setting, "-1").is_ok().then_some(share)
    }
}

impl Drop for RealTimeShare {
    fn drop(&mut self) {
        let _ = fs::write(&self.setting, &self.before);
        let _ = fs::remove_file(&self.note);
    }
}

/// Restores the settings that killed runs have changed.
pub(crate) fn restore_stale() {
    restore_stale_in(Path::new(REAL_TIME_SHARE), Path::new(BACKUP_DIR));
}

fn restore_stale_in(setting: &Path, backup_dir: &Path) {
    let is_stale = |name: &String| name.ends_with(BACKUP_SUFFIX) && dead_maker(name, 1).is_some();
    for name in names_in(&backup_dir.to_string_lossy()).into_iter().filter(is_stale) {
        let note = backup_dir.join(name);
        if let Ok(before) = fs::read_to_string(&note) {
            drop(RealTimeShare { setting: setting.to_path_buf(), note, before });
        }
    }
}

/// Returns the names of abstract Unix sockets in the text of `/proc/net/unix`, without those that
/// the kernel numbered.
pub(crate) fn abstract_sockets(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with('@')).map(str::to_owned).collect()
}

/// Returns the names in a directory, sorted; none if it does not exist.
pub(crate) fn names_in(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Returns what is in `after` and not in `before`.
pub(crate) fn added(before: &[String], after: &[String]) -> Vec<String> {
    after.iter().filter(|name| !before.contains(name)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abstract_names_are_found() {
        let text = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0001 01 111 /run/x\n\
                    0000: 00000002 00000000 00010000 0001 01 112 @softefa/1\n\
                    0000: 00000003 00000000 00000000 0001 03 113\n";
        assert_eq!(abstract_sockets(text), ["@softefa/1"]);
    }

    /// Any previous value is restored, including -1, which the share itself sets.
    #[test]
    fn the_share_of_real_time_is_put_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let setting = dir.path().join("setting");
        let now = || fs::read_to_string(&setting).expect("a setting");
        for before in ["-1\n", "950000\n"] {
            fs::write(&setting, before).expect("written");
            let share = RealTimeShare::take(&setting, dir.path()).expect("it can be changed");
            assert_eq!(now(), "-1");
            drop(share);
            assert_eq!(now(), before);
            assert_eq!(names_in(&dir.path().to_string_lossy()), ["setting"]);
        }
        // A killed run leaves its file, and the setting changed.
        let note = format!("{PREFIX}-{}-{BACKUP_SUFFIX}", crate::stale::tests::dead_pid());
        fs::write(dir.path().join(note), "950000\n").expect("written");
        fs::write(&setting, "-1").expect("written");
        restore_stale_in(&setting, dir.path());
        assert_eq!(now(), "950000\n");
        assert_eq!(names_in(&dir.path().to_string_lossy()), ["setting"]);
    }

    #[test]
    fn the_load_is_between_nothing_and_everything() {
        let load = others_load().expect("nobody interrupts");
        assert!((0.0..=processors() as f64).contains(&load), "{load}");
    }
}
