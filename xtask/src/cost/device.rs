//! Instructions that the adapter executes for a message, both ends together: an example of
//! `softefa` sends them under callgrind, twice, and the difference of the two runs is divided by
//! that of their messages.

use std::path::Path;
use std::process::Command;

use anyhow::Result;

use super::callgrind::{count_within, output};
use super::record::Record;
use super::{AS_TESTED, Build};

/// Name of the example.
const EXAMPLE: &str = "message_cost";
/// Functions of the example that are counted, with what they call.
const WITHIN: [&str; 2] = ["message_cost::ping", "message_cost::stream"];
/// Kinds of messages, and how many of them the shorter and the longer run send.
const KINDS: [&str; 12] = [
    "ping-64",
    "stream-64",
    "stream-8192",
    "ping-64-memory",
    "stream-64-memory",
    "stream-8192-memory",
    "rc-ping-64",
    "rc-stream-64",
    "rc-write-64",
    "rc-ping-64-memory",
    "rc-stream-64-memory",
    "rc-write-64-memory",
];
const FEW: u64 = 400;
const MANY: u64 = 1200;

const fn record(path: &'static str) -> Record {
    Record { path, unit: "message", tolerance_percent: 2.0, bless: "SOFTEFA_BLESS" }
}

/// Counts each kind of message and compares it with the record.
pub(crate) fn check(root: &Path, build: Build) -> Result<()> {
    let of_softefa = ["--release", "--package", "softefa"];
    let (record, folder, packages) = match build {
        Build::Release => {
            (record("crates/device/softefa/instructions.txt"), "release", &of_softefa[..])
        }
        Build::Debug => {
            (record("crates/device/softefa/instructions-debug.txt"), "debug", &AS_TESTED[..])
        }
    };
    let mut cargo = nested_cargo::command();
    cargo.args(["build", "--quiet", "--example", EXAMPLE]).args(packages);
    output(cargo.current_dir(root), 0)?;
    let program = root.join("target").join(folder).join("examples").join(EXAMPLE);
    let cost = |kind: &'static str| {
        let run = |messages: u64| {
            let mut command = Command::new(&program);
            command.args([kind, &messages.to_string()]);
            count_within(&command, &WITHIN)
        };
        let more = run(MANY)?.saturating_sub(run(FEW)?);
        Ok((kind, more as f64 / (MANY - FEW) as f64))
    };
    let measured: Vec<(&str, f64)> = KINDS.into_iter().map(cost).collect::<Result<_>>()?;
    record.compare(root, &measured)
}
