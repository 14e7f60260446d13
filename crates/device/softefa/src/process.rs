//! This process and others, as the kernel shows them.

use std::fs;

use crate::generation::PerProcess;

/// Id of this process, asked of the kernel once.
pub(crate) fn own_id() -> u32 {
    static ID: PerProcess<u32> = PerProcess::new();
    *ID.get_or_init(std::process::id)
}

/// Returns when the process started, in clock ticks since boot; `None` when it has ended. Together
/// with the process id it names a process for good: ids are used again.
pub(crate) fn start_ticks(pid: u32) -> Option<u64> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 22 of proc(5) `stat`, unless the state (field 3) is that of a process that has ended.
fn parse_stat(stat: &str) -> Option<u64> {
    // The name in field 2 may hold anything, spaces and parentheses too.
    let mut fields = stat[stat.rfind(')')? + 1..].split_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    fields.nth(18)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_is_found_whatever_the_name() {
        let rest = "1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        assert_eq!(parse_stat(&format!("7 (a b) c) S {rest}")), Some(4711));
        assert_eq!(parse_stat(&format!("7 (x) Z {rest}")), None, "a zombie has ended");
        assert_eq!(parse_stat("7 (x) S 1 1"), None);
        assert!(start_ticks(std::process::id()).is_some());
    }
}
