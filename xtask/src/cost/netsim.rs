//! Instructions that `netsim` executes for each data packet.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use super::Build;
use super::callgrind::{count, output};
use super::record::Record;

/// Runs of a build of netsim, and the record of their cost.
struct Gate {
    record: Record,
    /// Names of the scenarios, without their folder and ending: one of each engine.
    scenarios: [&'static str; 2],
    /// Fields of the scenarios that are set.
    settings: &'static [&'static str],
}

const SCENARIOS: [&str; 2] = ["perm128-leafspine", "perm128-roce"];
const RELEASE: Gate = Gate {
    record: record("crates/sim/netsim/instructions.txt"),
    scenarios: SCENARIOS,
    settings: &[],
};

/// The debug build runs a quarter of the release build's work.
const DEBUG: Gate = Gate {
    record: record("crates/sim/netsim/instructions-debug.txt"),
    scenarios: SCENARIOS,
    settings: &["topology.racks=2"],
};

/// Exit code that is tolerated, because a part of a run may miss what its scenario expects.
const WORST_CODE: i32 = 1;

const fn record(path: &'static str) -> Record {
    Record { path, unit: "data packet", tolerance_percent: 2.0, bless: "NETSIM_BLESS" }
}

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

/// Counts what `netsim`, a program of this build, executes per data packet, and compares it with
/// the record.
pub(crate) fn check(root: &Path, netsim: &Path, build: Build) -> Result<()> {
    let gate = match build {
        Build::Release => RELEASE,
        Build::Debug => DEBUG,
    };
    let cost = |scenario: &'static str| {
        let mut run = Command::new(netsim);
        let file = format!("scenarios/{scenario}.toml");
        run.current_dir(root).args(["run", &file, "--seed", "1"]);
        run.args(gate.settings.iter().flat_map(|setting| ["--set", setting]));
        let (instructions, _) = count(&run, WORST_CODE)?;
        let packets = data_packets(&mut run)?;
        ensure!(packets > 0, "{file} sent no data packets");
        Ok((scenario, instructions as f64 / packets as f64))
    };
    let costs = gate.scenarios.map(cost).into_iter().collect::<Result<Vec<_>>>()?;
    gate.record.compare(root, &costs)
}

/// Returns the number of data packets that a run sends.
fn data_packets(run: &mut Command) -> Result<u64> {
    let said = output(run.args(["--json", "-"]), WORST_CODE)?;
    let results: Results = serde_json::from_slice(&said.stdout).context("netsim's results")?;
    let runs = results.points.iter().flat_map(|point| &point.runs);
    Ok(runs.map(|run| run.outcome.data_packets).sum())
}
