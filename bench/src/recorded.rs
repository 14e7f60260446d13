//! What is counted elsewhere and recorded: instructions of a message, which no clock measures.

use std::fs;
use std::path::Path;

const RECORD: &str = "crates/device/softefa/instructions.txt";
const KIND: &str = "ping-64";

/// A line below the table; empty where the record is not at hand.
pub(crate) fn line() -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("");
    let record = fs::read_to_string(root.join(RECORD)).unwrap_or_default();
    instructions(&record).map_or_else(String::new, |count| {
        format!(
            "instructions per 64 B message, both ends: {count} (`cargo xtask device-cost`, {RECORD})\n"
        )
    })
}

/// A line for each kind of message: its instructions and its name.
fn instructions(record: &str) -> Option<u64> {
    let count = |line: &str| line.strip_suffix(KIND)?.trim().parse().ok();
    record.lines().find_map(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_of_this_tree_is_read() {
        assert_eq!(instructions("rustc 1.95.0\n7525 ping-64\n14104 stream-8192\n"), Some(7525));
        assert_eq!(instructions("rustc 1.95.0\n"), None);
        let line = line();
        assert!(line.starts_with("instructions per 64 B message") && line.len() <= 120, "{line:?}");
    }
}
