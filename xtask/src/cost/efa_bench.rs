//! Instructions of the timed loops of `efa-bench` beyond the fabric's calls, for each message: each
//! loop runs without a fabric under callgrind, twice, and the difference of the two runs is divided
//! by that of their messages.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::callgrind::{count, output};
use super::record::Record;
use super::{AS_TESTED, Build};

/// Environment variable from which the loops read their orders.
const ORDER: &str = "EFA_BENCH_OWN_COST";
/// Name of the test that runs the loops.
const TEST: &str = "bench::own_cost::every_loop_handles_what_it_is_given";
/// Loops, each with its amount of work in the shorter run: messages, or milliseconds for the
/// receiver.
const LOOPS: [(&str, u64); 4] = [
    ("latency-client", 1000),
    ("latency-server", 1000),
    ("stream-sender", 10_000),
    ("stream-receiver", 10),
];

/// The test program that is counted, and the record of its costs.
struct Gate {
    record: Record,
    /// Arguments by which `cargo test` finds it.
    cargo: &'static [&'static str],
    /// Length of the longer run, as a multiple of the shorter one.
    longer: u64,
}

const RELEASE: Gate = Gate {
    record: record("crates/bench/bench-engine/instructions.txt"),
    cargo: &["--release", "--package", "bench-engine", "--lib"],
    longer: 20,
};

const DEBUG: Gate = Gate {
    record: record("crates/bench/bench-engine/instructions-debug.txt"),
    cargo: &AS_TESTED,
    longer: 5,
};

/// Creates a record with a wide tolerance, because compilers lay out loops anew.
const fn record(path: &'static str) -> Record {
    Record { path, unit: "message", tolerance_percent: 10.0, bless: "EFA_BENCH_BLESS" }
}

/// Counts each loop and compares it with the record.
pub(crate) fn check(root: &Path, build: Build) -> Result<()> {
    let gate = match build {
        Build::Release => RELEASE,
        Build::Debug => DEBUG,
    };
    let program = test_program(root, gate.cargo)?;
    let cost = |&(name, few): &(&'static str, u64)| {
        Ok((name, per_message(&program, name, few, few * gate.longer)?))
    };
    let measured: Vec<(&str, f64)> = LOOPS.iter().map(cost).collect::<Result<_>>()?;
    gate.record.compare(root, &measured)
}

/// Returns the program of the unit tests of `bench-engine`, of which one runs the loops.
fn test_program(root: &Path, arguments: &[&str]) -> Result<PathBuf> {
    let mut cargo = nested_cargo::command();
    cargo.args(["test", "--quiet", "--no-run", "--message-format", "json"]).args(arguments);
    let said = output(cargo.current_dir(root), 0)?;
    let said = String::from_utf8_lossy(&said.stdout);
    let program = said.lines().find_map(program_of).map(PathBuf::from);
    program.context("cargo made no test program of bench-engine")
}

/// Returns the unit tests' program that a line of cargo's is about.
fn program_of(line: &str) -> Option<String> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    let is_it = target["name"] == "bench_engine" && target["kind"][0] == "lib";
    (is_it && message["profile"]["test"] == true).then_some(())?;
    Some(message["executable"].as_str()?.to_owned())
}

/// Number of times that a run is made twice as long when others have the processor.
const DOUBLINGS: u32 = 4;

fn per_message(program: &Path, name: &str, few: u64, many: u64) -> Result<f64> {
    let few = run(program, name, few)?;
    // A loop that runs for a time does less in a longer one when the machine is busy.
    for doublings in 0..=DOUBLINGS {
        let many = run(program, name, many << doublings)?;
        if many.1 > few.1 * 2 {
            return Ok((many.0.saturating_sub(few.0)) as f64 / (many.1 - few.1) as f64);
        }
    }
    bail!(
        "{name}: {} messages in a run, and less than twice as many in one that is {} times as long: \
         end what else runs on this machine",
        few.1,
        (many << DOUBLINGS) / many
    )
}

/// Returns the instructions of a run, and the messages that it handled.
fn run(program: &Path, name: &str, amount: u64) -> Result<(u64, u64)> {
    let mut command = Command::new(program);
    command.args(["--exact", TEST, "--nocapture", "--test-threads", "1"]);
    command.env(ORDER, format!("{name} {amount}"));
    let (instructions, said) = count(&command, 0)?;
    let text = String::from_utf8_lossy(&said.stdout);
    let handled = text.lines().find_map(|line| line.strip_prefix("handled ")?.parse().ok());
    let handled =
        handled.with_context(|| format!("{name} said nothing of its messages:\n{text}"))?;
    Ok((instructions, handled))
}
