//! Wireshark on the command line, with our dissector.

use std::path::Path;
use std::process::Command;

const DISSECTOR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../dissector/softefa.lua");

/// Returns the output of tshark.
pub(crate) fn tshark(file: &Path, args: &[&str]) -> String {
    let output = Command::new("tshark")
        .arg("-X")
        .arg(format!("lua_script:{DISSECTOR}"))
        // Queue pair numbers are drawn at random, and may be the port of another protocol.
        .args(["-o", "udp.try_heuristic_first:TRUE", "-r"])
        .arg(file)
        .args(args)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && !said.to_lowercase().contains("lua:"), "{said}");
    String::from_utf8(output.stdout).unwrap()
}
