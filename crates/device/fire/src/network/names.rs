//! Names of namespaces: those of a run carry its process, so that runs do not meet and a later one
//! removes what a killed one left.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::machine;
use crate::say::say;
use crate::stale::{PREFIX, dead_maker};
use crate::tool;

/// A prefix that nobody else has.
pub(super) fn fresh() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Removes the networks of runs that were killed.
pub(crate) fn remove_stale() {
    for name in machine::names_in("/run/netns") {
        if dead_maker(&name, 2).is_some() && tool::run("ip", &format!("netns del {name}")).is_ok() {
            say!("fire: removed {name}, which a killed run left");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stale::maker;

    #[test]
    fn a_name_tells_its_maker() {
        assert_eq!(maker(&format!("{}-h0", fresh()), 2), Some(std::process::id()));
        assert_ne!(fresh(), fresh());
    }
}
