//! What the timed loops of `efa-bench` cost beyond the fabric's calls, in instructions for each
//! message: each loop runs without a fabric under callgrind, twice, and the difference of the two runs
//! is divided by that of their messages.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::cost::{instructions, output};

/// Path below the root of the recorded costs: a line for each loop, number first, name last.
const RECORD: &str = "crates/efa-bench/instructions.txt";
/// What the loops read their orders from, and the test that they are.
const ORDER: &str = "EFA_BENCH_OWN_COST";
const TEST: &str = "bench::own_cost::every_loop_handles_what_it_is_given";
/// A loop, and its amounts of work: messages, of the receiver milliseconds.
const LOOPS: [(&str, [u64; 2]); 4] = [
    ("latency-client", [2_000, 20_000]),
    ("latency-server", [2_000, 20_000]),
    ("stream-sender", [20_000, 200_000]),
    ("stream-receiver", [20, 200]),
];
/// How far from the recorded cost is still the same, in percent; compilers lay out loops anew.
const TOLERANCE_PERCENT: f64 = 10.0;
/// Set to write the record instead of comparing with it.
const BLESS: &str = "EFA_BENCH_BLESS";

/// Counts each loop and compares it with the record.
pub(crate) fn check(root: &Path) -> Result<()> {
    let program = test_program(root)?;
    let measured: Vec<(&str, f64)> = LOOPS
        .iter()
        .map(|(name, amounts)| Ok((*name, per_message(&program, name, *amounts)?)))
        .collect::<Result<_>>()?;
    let record = root.join(RECORD);
    if env::var_os(BLESS).is_some() {
        let lines = measured.iter().map(|(name, cost)| format!("{cost:.0} {name}\n"));
        let text = lines.collect::<String>();
        return fs::write(&record, text).with_context(|| format!("writing {RECORD}"));
    }
    let text = fs::read_to_string(&record).with_context(|| format!("reading {RECORD}"))?;
    let mut apart = Vec::new();
    for (name, cost) in measured {
        let recorded = recorded(&text, name)?;
        let change_percent = 100.0 * (cost / recorded - 1.0);
        println!(
            "{name}: {cost:.0} instructions for each message, recorded {recorded:.0} \
             ({change_percent:+.1} %)"
        );
        if change_percent.abs() > TOLERANCE_PERCENT {
            apart.push(name);
        }
    }
    ensure!(
        apart.is_empty(),
        "{} more than {TOLERANCE_PERCENT} % from {RECORD}; if that is meant, `{BLESS}=1 make cost` records it",
        apart.join(", ")
    );
    Ok(())
}

/// The number before a name.
fn recorded(text: &str, name: &str) -> Result<f64> {
    let line = text.lines().find(|line| line.split_whitespace().last() == Some(name));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    let cost = number.with_context(|| format!("{RECORD} has no number for {name}"))?;
    ensure!(cost >= 1.0, "{RECORD} records {cost} instructions for {name}");
    Ok(cost)
}

/// The release build of the unit tests, of which one runs the loops.
fn test_program(root: &Path) -> Result<PathBuf> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["test", "--release", "--quiet", "--package", "efa-bench", "--bin", "efa-bench"]);
    cargo.args(["--no-run", "--message-format", "json"]).current_dir(root);
    let said = output(&mut cargo)?;
    let said = String::from_utf8_lossy(&said.stdout);
    let mut programs = said.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        Some(PathBuf::from(message["executable"].as_str()?))
    });
    programs.next_back().context("cargo made no test program of efa-bench")
}

fn per_message(program: &Path, name: &str, [few, many]: [u64; 2]) -> Result<f64> {
    let (few, many) = (run(program, name, few)?, run(program, name, many)?);
    ensure!(many.1 > few.1, "{name}: {} messages after {}", many.1, few.1);
    Ok((many.0.saturating_sub(few.0)) as f64 / (many.1 - few.1) as f64)
}

/// Instructions of a run, and the messages that it handled.
fn run(program: &Path, name: &str, amount: u64) -> Result<(u64, u64)> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    command.args(["--exact", TEST, "--nocapture", "--test-threads", "1"]);
    command.env(ORDER, format!("{name} {amount}"));
    let said = output(&mut command)?;
    let text = String::from_utf8_lossy(&said.stdout);
    let handled = text.lines().find_map(|line| line.strip_prefix("handled ")?.parse().ok());
    let handled =
        handled.with_context(|| format!("{name} said nothing of its messages:\n{text}"))?;
    Ok((instructions(&said)?, handled))
}

#[cfg(test)]
mod tests {
    use super::recorded;

    #[test]
    fn a_record_has_a_number_for_each_loop() {
        let text = "60 latency-client\n35 stream-sender\n";
        assert_eq!(recorded(text, "stream-sender").ok(), Some(35.0));
        for (text, name) in [(text, "other"), ("few x\n", "x"), ("0 x\n", "x")] {
            assert!(recorded(text, name).is_err(), "{text} {name}");
        }
    }
}
