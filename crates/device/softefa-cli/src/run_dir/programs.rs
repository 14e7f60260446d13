//! The programs of a run that are alive. They may outlive the program that was started, and
//! `softefa run`, too.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use softefa::config::ENV_RUN_DIR;
use softefa::counters;

/// Returns the processes that have opened a device, by id.
pub(crate) fn with_devices(run: &Path) -> Vec<u32> {
    let all = counters::read_dir(run).unwrap_or_default();
    let mut pids: Vec<u32> =
        all.iter().filter(|process| process.is_running()).map(|process| process.pid).collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Returns the processes that have opened a device, and those that could, because they were started
/// in the environment of the run.
pub(crate) fn all(run: &Path) -> Vec<u32> {
    let mut pids = with_devices(run);
    pids.extend(in_environment_of(run));
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Returns the processes of this user whose environment names `run`. A process that has ended has
/// no environment.
fn in_environment_of(run: &Path) -> Vec<u32> {
    let mut wanted = OsString::from(format!("{ENV_RUN_DIR}=")).into_vec();
    wanted.extend(run.as_os_str().as_bytes());
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|variable| variable == wanted)
    })
    .collect()
}

/// Returns a sentence about the processes: `1 program of this run goes on (pid 7)`.
pub(crate) fn still_running(pids: &[u32]) -> String {
    let shown: Vec<String> = pids.iter().map(u32::to_string).collect();
    let shown = shown.join(", ");
    match pids.len() {
        1 => format!("1 program of this run goes on (pid {shown})"),
        count => format!("{count} programs of this run go on (pids {shown})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_counted_and_named() {
        assert_eq!(still_running(&[7]), "1 program of this run goes on (pid 7)");
        assert_eq!(still_running(&[7, 8]), "2 programs of this run go on (pids 7, 8)");
    }
}
