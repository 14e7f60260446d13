//! Names of other processes, for people to recognise.

use std::fs;

/// Returns the name of a process as ps(1) shows it; `?` if it has ended.
pub(crate) fn name(pid: u32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    // A program may choose any name, and a terminal must not obey it.
    let name: String = name.trim_end().chars().filter(|c| !c.is_control()).collect();
    if name.is_empty() { "?".to_owned() } else { name }
}
