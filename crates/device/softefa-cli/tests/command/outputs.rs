//! `--pcap`, `--counters`, `--trace` and `--fault`: what is refused, and what is said.

use std::process::Command;

use crate::harness::softefa;

/// It read zeros for ever.
#[test]
fn a_file_without_lines_is_no_trace() {
    let mut command = Command::new("timeout");
    let output = command.args(["20"]).arg(softefa()).args(["trace", "/dev/zero"]).output();
    let output = output.expect("timeout starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("neither a trace nor a capture"), "{text}");
}
