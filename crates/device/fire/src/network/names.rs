//! Names of namespaces: those of a run carry its process, so that runs do not meet and a later one
//! removes what a killed one left.

use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::machine;
use crate::say::say;
use crate::tool;

const PREFIX: &str = "fire";

/// A prefix that nobody else has.
pub(super) fn fresh() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The process that made a namespace of this name; `None` if none of ours did.
fn maker(name: &str) -> Option<u32> {
    let mut parts = name.split('-');
    let is_ours = parts.next() == Some(PREFIX);
    let pid = parts.next()?.parse().ok()?;
    (is_ours && parts.count() == 2).then_some(pid)
}

/// Removes the networks of runs that were killed.
pub(crate) fn remove_stale() {
    for name in machine::names_in("/run/netns") {
        let is_stale = maker(&name).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists());
        if is_stale && tool::run("ip", &format!("netns del {name}")).is_ok() {
            say!("fire: removed {name}, which a killed run left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_ours() {
        let name = format!("{}-h0", fresh());
        assert_eq!(maker(&name), Some(std::process::id()));
        for foreign in ["fire", "fire-x-0-h0", "other-1-0-h0", "fire-1-h0", "softefa-1-a"] {
            assert_eq!(maker(foreign), None, "{foreign}");
        }
        assert_ne!(fresh(), fresh());
    }
}
