//! What runs of `fire` leave behind that were killed: namespaces, control groups, a setting of the
//! kernel. All carry the process that made them, and a later run puts them right.

use std::path::Path;

use crate::experiments::remove_stale_groups;
use crate::machine;
use crate::network;

/// What the names of all things of ours begin with.
pub(crate) const PREFIX: &str = "fire";

/// Puts right what killed runs have left.
pub(crate) fn remove() {
    network::remove_stale();
    remove_stale_groups();
    machine::restore_stale();
}

/// The process that made a thing of this name and is no more; `parts` follow it in the name.
pub(crate) fn dead_maker(name: &str, parts: usize) -> Option<u32> {
    maker(name, parts).filter(|pid| !Path::new(&format!("/proc/{pid}")).exists())
}

/// The process that made a thing of this name; `None` if none of ours did.
pub(crate) fn maker(name: &str, parts: usize) -> Option<u32> {
    let mut words = name.split('-');
    let is_ours = words.next() == Some(PREFIX);
    let pid = words.next()?.parse().ok()?;
    (is_ours && words.count() == parts).then_some(pid)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The id of a process that has ended.
    pub(crate) fn dead_pid() -> u32 {
        let mut child = std::process::Command::new("true").spawn().expect("a process");
        child.wait().expect("its end");
        child.id()
    }

    #[test]
    fn only_our_own_names_are_ours() {
        let own = std::process::id();
        assert_eq!(maker(&format!("{PREFIX}-{own}-0-h0"), 2), Some(own));
        assert_eq!(dead_maker(&format!("{PREFIX}-{own}-0-h0"), 2), None);
        for foreign in ["fire", "fire-x-0-h0", "other-1-0-h0", "fire-1-h0", "softefa-1-a"] {
            assert_eq!(maker(foreign, 2), None, "{foreign}");
        }
        let dead = dead_pid();
        assert_eq!(dead_maker(&format!("{PREFIX}-{dead}-4096"), 1), Some(dead));
    }
}
