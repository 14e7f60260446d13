//! Helpers that tests of the command share: a small scenario in a folder, and the command on it.
#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Path of the command.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_netsim");

/// A scenario of two racks of two hosts with a permutation, which ends well in an instant.
pub(crate) const SCENARIO: &str = "title = \"two racks\"
seeds = [1, 2]
limit_ms = 10
[topology.leaf_spine]
racks = 2
hosts_per_rack = 2
spines = 2
[network]
gbps = 100
hop_ns = 500
buffer_bytes = 100_000
[[workload.permutation]]
bytes = 50_000
";

/// Creates a folder with a scenario file, `s.toml`.
pub(crate) fn with_file(text: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("s.toml"), text).expect("a file");
    folder
}

/// Runs the command in a folder.
pub(crate) fn netsim(folder: &Path, args: &[&str]) -> Output {
    Command::new(PROGRAM).args(args).current_dir(folder).output().expect("the command starts")
}
