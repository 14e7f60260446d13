//! Leftovers of killed runs: namespaces, control groups, a kernel setting. Their names contain the
//! process that made them, and a later run cleans them up.

use std::path::Path;

use crate::experiments::remove_stale_groups;
use crate::machine;
use crate::network;

/// The prefix of all names of ours.
pub(crate) const PREFIX: &str = "fire";

/// Removes what killed runs have left.
pub(crate) fn remove() {
    network::remove_stale();
    remove_stale_groups();
    machine::restore_stale();
}

/// Returns the process that made what has this name, if it has ended; `parts` follow it in the
/// name.
pub(crate) fn dead_maker(name: &str, parts: usize) -> Option<u32> {
    maker(name, parts).filter(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// Returns the process that made what has this name; `None` if it is not ours.
pub(crate) fn maker(name: &str, parts: usize) -> Option<u32> {
    let mut words = name.split('-');
    let is_ours = words.next() == Some(PREFIX);
    let pid = words.next()?.parse().ok()?;
    (is_ours && words.count() == parts).then_some(pid)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the id of a process that has ended.
    pub(crate) fn dead_pid() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("its end");
        child.id()
    }

    #[test]
    fn only_our_own_names_are_ours() {
        let pid = std::process::id();
        assert_eq!(maker(&format!("{PREFIX}-{pid}-0-h0"), 2), Some(pid));
        assert_eq!(dead_maker(&format!("{PREFIX}-{pid}-0-h0"), 2), None);
        for foreign in ["fire", "fire-x-0-h0", "other-1-0-h0", "fire-1-h0", "softefa-1-a"] {
            assert_eq!(maker(foreign, 2), None, "{foreign}");
        }
        let dead = dead_pid();
        assert_eq!(dead_maker(&format!("{PREFIX}-{dead}-4096"), 1), Some(dead));
    }
}
