//! What a simulated data packet costs, in instructions: unlike seconds they are the same on a busy
//! machine, so a few percent show.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Path below the root of the recorded cost.
const RECORD: &str = "crates/netsim/instructions.txt";
const SCENARIO: &str = "scenarios/perm128-leafspine.toml";
/// How far from the recorded cost is still the same, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;
/// Set to write the record instead of comparing with it.
const BLESS: &str = "NETSIM_BLESS";

#[derive(Deserialize)]
struct Results {
    points: Vec<Point>,
}

#[derive(Deserialize)]
struct Point {
    runs: Vec<Run>,
}

#[derive(Deserialize)]
struct Run {
    outcome: Outcome,
}

#[derive(Deserialize)]
struct Outcome {
    data_packets: u64,
}

/// Counts what `netsim` (a release build) executes per data packet, and compares it with the record.
pub(crate) fn check(root: &Path, netsim: &Path) -> Result<()> {
    let packets = data_packets(root, netsim)?;
    ensure!(packets > 0, "{SCENARIO} sent no data packets");
    let measured = run_counted(root, netsim)? as f64 / packets as f64;
    let record = root.join(RECORD);
    if std::env::var_os(BLESS).is_some() {
        let text = format!("{measured:.0} instructions per data packet, {SCENARIO}, seed 1\n");
        return fs::write(&record, text).with_context(|| format!("writing {RECORD}"));
    }
    let text = fs::read_to_string(&record).with_context(|| format!("reading {RECORD}"))?;
    let recorded = recorded(&text)?;
    let change_percent = 100.0 * (measured / recorded - 1.0);
    println!(
        "instructions per data packet: {measured:.0}, recorded {recorded:.0} ({change_percent:+.1} %)"
    );
    ensure!(
        change_percent.abs() <= TOLERANCE_PERCENT,
        "more than {TOLERANCE_PERCENT} % from {RECORD}; if that is meant, `{BLESS}=1 make cost` records it"
    );
    Ok(())
}

/// The number that a record begins with.
fn recorded(text: &str) -> Result<f64> {
    let first = text.split_whitespace().next().unwrap_or_default();
    let cost: f64 =
        first.parse().with_context(|| format!("{RECORD} begins with '{first}', not a number"))?;
    ensure!(cost >= 1.0, "{RECORD} records {cost} instructions per data packet");
    Ok(cost)
}

fn data_packets(root: &Path, netsim: &Path) -> Result<u64> {
    let mut command = Command::new(netsim);
    let text =
        output(command.current_dir(root).args(["run", SCENARIO, "--seed", "1", "--json", "-"]))?;
    let results: Results = serde_json::from_slice(&text.stdout).context("netsim's results")?;
    Ok(results
        .points
        .iter()
        .flat_map(|point| &point.runs)
        .map(|run| run.outcome.data_packets)
        .sum())
}

fn run_counted(root: &Path, netsim: &Path) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(netsim);
    instructions(&output(command.current_dir(root).args(["run", SCENARIO, "--seed", "1"]))?)
}

/// What callgrind counted in all.
pub(crate) fn instructions(said: &std::process::Output) -> Result<u64> {
    let report = String::from_utf8_lossy(&said.stderr);
    let count = report.lines().find_map(|line| line.split_once("Collected : ")?.1.parse().ok());
    count.with_context(|| format!("callgrind said no count:\n{report}"))
}

/// What a program said that ended well.
pub(crate) fn output(command: &mut Command) -> Result<std::process::Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}

#[cfg(test)]
mod tests {
    use super::recorded;

    #[test]
    fn a_record_begins_with_its_number() {
        assert_eq!(recorded("8115 instructions per data packet\n").ok(), Some(8115.0));
        for wrong in ["", "about 8115", "0 instructions", "NaN"] {
            assert!(recorded(wrong).is_err(), "{wrong:?}");
        }
    }
}
