//! Control groups, which limit memory and processes.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::names_in;
use crate::output::eprint_line;
use crate::stale::{PREFIX, dead_maker};

const ROOT: &str = "/sys/fs/cgroup";

/// A control group, removed when dropped.
pub(super) struct Cgroup {
    pub(super) dir: PathBuf,
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // The processes in the group may take a moment to exit.
        for _ in 0..50 {
            if fs::remove_dir(&self.dir).is_ok() || !self.dir.exists() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

impl Cgroup {
    /// Creates a group with a limit; `None` where this machine has no such controller.
    pub(super) fn with(controller: &str, files: [&str; 2], limit: &str) -> Option<Self> {
        let old = Path::new(ROOT).join(controller);
        let (base, file) =
            if old.is_dir() { (old, files[0]) } else { (PathBuf::from(ROOT), files[1]) };
        let dir = base.join(format!("{PREFIX}-{}-{limit}", std::process::id()));
        fs::create_dir(&dir).ok()?;
        let cgroup = Self { dir };
        fs::write(cgroup.dir.join(file), limit).ok()?;
        Some(cgroup)
    }
}

/// Removes the groups that killed runs have left, and ends the processes in them.
pub(crate) fn remove_stale() {
    for controller in ["memory", "pids", "."] {
        remove_stale_in(&Path::new(ROOT).join(controller));
    }
}

fn remove_stale_in(base: &Path) {
    let names = names_in(&base.to_string_lossy());
    for name in names.iter().filter(|name| dead_maker(name, 1).is_some()) {
        let group = Cgroup { dir: base.join(name) };
        let members = fs::read_to_string(group.dir.join("cgroup.procs")).unwrap_or_default();
        for pid in members.lines().filter_map(|line| Pid::from_raw(line.parse().ok()?)) {
            // A process that is gone already is fine.
            let _ = kill_process(pid, Signal::KILL);
        }
        drop(group);
        eprint_line!("fire: removed the control group {name}, which a killed run left");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stale::tests::dead_pid;

    #[test]
    fn groups_of_killed_runs_are_removed() {
        let base = tempfile::tempdir().expect("a directory");
        let name = |pid: u32| format!("{PREFIX}-{pid}-4096");
        let names = [name(dead_pid()), name(std::process::id()), "other-1-1".to_owned()];
        for name in &names {
            fs::create_dir(base.path().join(name)).expect("made");
        }
        remove_stale_in(base.path());
        let left = names_in(&base.path().to_string_lossy());
        assert_eq!(left, [names[1].clone(), names[2].clone()]);
    }
}
