//! Names of namespaces. They contain the process that made them, so that concurrent runs do not
//! collide and a later run removes what a killed one left.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::machine;
use crate::output::eprint_line;
use crate::stale::{PREFIX, dead_maker};
use crate::tool;

/// Returns a prefix that is unique on this machine.
pub(super) fn fresh() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Removes the networks of runs that were killed.
pub(crate) fn remove_stale() {
    for name in machine::names_in("/run/netns") {
        if dead_maker(&name, 2).is_some() && tool::run("ip", &format!("netns del {name}")).is_ok() {
            eprint_line!("fire: removed {name}, which a killed run left");
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
