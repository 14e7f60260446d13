//! Rooms of `softefa` in one direction: each may use those below it and nothing else.

use std::collections::BTreeSet;

use super::Finding;
use super::tree::Tree;

const CRATE: &str = "crates/device/softefa/src/";
/// Rooms from the bottom up. A room is a module of the crate's root.
const ROOMS: &[&str] = &[
    "status",
    "sync",
    "address",
    "gid",
    "ids",
    "numbering",
    "uncancelled",
    "say",
    "generation",
    "host",
    "mapped",
    "process",
    "scheduling",
    "lifecycle",
    "descriptor",
    "filter",
    "memory",
    "poll_set",
    "fork_release",
    "event_queue",
    "async_event",
    "failure",
    "seal",
    "lint",
    "completion",
    "framing",
    "sealing",
    "lease",
    "ahn",
    "groups",
    "keys",
    "progress",
    "mr",
    "datagram",
    "own_memory",
    "local_copy",
    "interface",
    "mad",
    "gateway",
    "config",
    "identity",
    "limits",
    "counters",
    "hw_counters",
    "sysfs",
    "capture",
    "trace",
    "fault",
    "qp_state",
    "wire",
    "device",
    "management",
    "pd",
    "ah",
    "request",
    "rq",
    "srq",
    "sq",
    "shell",
    "side",
    "service",
    "cq",
    "qp",
    "lib",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        if let Some(room) = room_of(&file.path) {
            findings.extend(check_file(&file.path, room, &file.text));
        }
    }
    findings
}

/// Returns the room a source file is in; tests are in none, they may use everything.
fn room_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix(CRATE)?;
    let is_test = inside.ends_with("/tests.rs") || inside.ends_with("/refused.rs");
    let room = inside.split('/').next()?.trim_end_matches(".rs");
    (!is_test).then_some(room)
}

fn check_file(path: &str, room: &str, text: &str) -> Vec<Finding> {
    let Some(height) = height_of(room) else {
        return vec![Finding::new(path, format!("room {room} has no place in xtask's ROOMS"))];
    };
    let above = |used: &&str| height_of(used).is_some_and(|of_used| of_used > height);
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let used = used_rooms(code);
    let finding = |used: &str| {
        Finding::new(path, format!("room {room} must not use {used}, which is above it (ROOMS)"))
    };
    used.iter().copied().filter(above).map(finding).collect()
}

fn height_of(room: &str) -> Option<usize> {
    ROOMS.iter().position(|known| *known == room)
}

/// Returns the modules of the root that `code` names.
fn used_rooms(code: &str) -> BTreeSet<&str> {
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let after = lines.flat_map(|line| line.split("crate::").skip(1));
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    after.map(|rest| rest.split(|c| !is_part(c)).next().unwrap_or_default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_text(path: &str, text: &str) -> usize {
        check_file(path, room_of(path).unwrap(), text).len()
    }

    #[test]
    fn a_room_may_use_those_below() {
        let below = "use crate::mr::Sge;\n// See crate::qp::Qp.\n";
        assert_eq!(check_text("crates/device/softefa/src/shell/mod.rs", below), 0);
        let above = "fn f(qp: &crate::qp::Qp) {}\n";
        assert_eq!(check_text("crates/device/softefa/src/shell/mod.rs", above), 1);
        let of_tests = format!("{below}#[cfg(test)]\nmod tests {{ {above} }}");
        assert_eq!(check_text("crates/device/softefa/src/shell/mod.rs", &of_tests), 0);
    }

    #[test]
    fn a_new_room_needs_a_place() {
        assert_eq!(check_text("crates/device/softefa/src/attic.rs", ""), 1);
        assert_eq!(room_of("crates/device/softefa/src/service/tests.rs"), None);
        assert_eq!(room_of("crates/device/srd/src/lib.rs"), None);
    }
}
