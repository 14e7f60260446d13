//! The machine around an experiment: what it is, and how busy others keep it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::interrupt;
use crate::stale::{PREFIX, dead_maker};
use crate::tool;

/// Distribution, kernel and processors.
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

/// How many processors others keep busy now, looked at for half a second while we do nothing.
///
/// # Errors
/// Somebody asked for the end meanwhile.
pub(crate) fn others_load() -> Result<f64> {
    let before = ticks();
    interrupt::sleep(Duration::from_millis(500))?;
    let after = ticks();
    let (busy, all) = (after.0.saturating_sub(before.0), after.1.saturating_sub(before.1));
    #[expect(clippy::cast_precision_loss, reason = "ticks of half a second")]
    Ok(processors() as f64 * busy as f64 / (all.max(1)) as f64)
}

/// Busy and all ticks of the machine.
fn ticks() -> (u64, u64) {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = stat.lines().next().unwrap_or_default();
    let fields: Vec<u64> =
        first.split_whitespace().skip(1).filter_map(|f| f.parse().ok()).collect();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    let all: u64 = fields.iter().take(8).sum();
    (all.saturating_sub(idle), all)
}

/// What programs with real-time priority may use of each second in us; -1: all of it.
const REAL_TIME_SHARE: &str = "/proc/sys/kernel/sched_rt_runtime_us";

/// Where it is kept until it is put back, and as what.
const NOTES: &str = "/run";
const NOTE: &str = "realtime";

/// Real-time priority of this thread and what it starts, until it is dropped: a busy machine
/// disturbs less what is timed. What has it must not spin.
///
/// Linux takes it away for 50 ms of a second in which it is used much, to whoever else waits, which
/// looks as a link does that dies. So it does not, meanwhile.
pub(crate) struct Precedence {
    _share: Option<Share>,
}

impl Precedence {
    /// Nothing changes where it is refused.
    pub(crate) fn take() -> Self {
        let _ = tool::run("chrt", &format!("--fifo --pid 1 {}", std::process::id()));
        Self { _share: Share::take(Path::new(REAL_TIME_SHARE), Path::new(NOTES)) }
    }
}

impl Drop for Precedence {
    fn drop(&mut self) {
        let _ = tool::run("chrt", &format!("--other --pid 0 {}", std::process::id()));
    }
}

/// All of each second for real-time priority, until it is dropped.
struct Share {
    setting: PathBuf,
    /// What others had left, for whoever comes after a run that was killed.
    note: PathBuf,
    before: String,
}

impl Share {
    /// `None` where it cannot be changed.
    fn take(setting: &Path, notes: &Path) -> Option<Self> {
        let before = fs::read_to_string(setting).ok()?;
        let note = notes.join(format!("{PREFIX}-{}-{NOTE}", std::process::id()));
        // Without it, only a run that is killed leaves the setting changed.
        let _ = fs::write(&note, &before);
        let share = Self { setting: setting.to_path_buf(), note, before };
        fs::write(setting, "-1").is_ok().then_some(share)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let _ = fs::write(&self.setting, &self.before);
        let _ = fs::remove_file(&self.note);
    }
}

/// Puts back what killed runs have changed.
pub(crate) fn restore_stale() {
    restore_stale_in(Path::new(REAL_TIME_SHARE), Path::new(NOTES));
}

fn restore_stale_in(setting: &Path, notes: &Path) {
    let is_stale = |name: &String| name.ends_with(NOTE) && dead_maker(name, 1).is_some();
    for name in names_in(&notes.to_string_lossy()).into_iter().filter(is_stale) {
        let note = notes.join(name);
        if let Ok(before) = fs::read_to_string(&note) {
            drop(Share { setting: setting.to_path_buf(), note, before });
        }
    }
}

/// Names of abstract Unix sockets in the text of `/proc/net/unix`, without those the kernel
/// numbered.
pub(crate) fn abstract_sockets(text: &str) -> Vec<String> {
    let names = text.lines().filter_map(|line| line.split_whitespace().nth(7));
    names.filter(|name| name.starts_with('@')).map(str::to_owned).collect()
}

/// Names in a directory, sorted; none if it is not there.
pub(crate) fn names_in(dir: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What is in `after` and not in `before`.
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

    /// A share of -1 was taken for what a killed run had left, and became 950000.
    #[test]
    fn the_share_of_real_time_is_put_back() {
        let dir = tempfile::tempdir().expect("a directory");
        let setting = dir.path().join("setting");
        let now = || fs::read_to_string(&setting).expect("a setting");
        for before in ["-1\n", "950000\n"] {
            fs::write(&setting, before).expect("written");
            let share = Share::take(&setting, dir.path()).expect("it can be changed");
            assert_eq!(now(), "-1");
            drop(share);
            assert_eq!(now(), before);
            assert_eq!(names_in(&dir.path().to_string_lossy()), ["setting"]);
        }
        // Killed: what it noted is there, and nobody has put it back.
        let note = format!("{PREFIX}-{}-{NOTE}", crate::stale::tests::dead_pid());
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
