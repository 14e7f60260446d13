//! `netsim sweep` and `netsim compare`: grids, resuming, failures, interruption, Slurm.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::disallowed_methods, reason = "real processes have a deadline in real time")]

mod common;

use common::{PROGRAM, SCENARIO, netsim, with_file};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Arguments of a sweep of 8 runs.
const SWEEP: [&str; 8] = [
    "sweep",
    "s.toml",
    "--set",
    "workload.bytes=64KB,1MB",
    "--set",
    "transport.paths=1,16",
    "--out",
    "d",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Asserts that the command succeeds, and returns its standard output and standard error.
fn good(folder: &Path, args: &[&str]) -> (String, String) {
    let output = netsim(folder, args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "netsim {}: {stderr}", args.join(" "));
    (text(&output.stdout), stderr)
}

fn run_files(folder: &Path) -> usize {
    fs::read_dir(folder.join("d/runs")).map_or(0, |entries| {
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.starts_with('.')).count()
    })
}

#[test]
fn a_sweep_makes_all_combinations_and_goes_on_where_it_ended() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    let (table, progress) = good(path, &SWEEP);
    assert_eq!(table.lines().count(), 2 + 4, "a row per point: {table}");
    assert!(table.contains("1MB") && table.contains("8/8"), "{table}");
    assert_eq!(progress.matches("/8] ").count(), 8, "a line per run: {progress}");
    assert_eq!(run_files(path), 8);
    let csv = fs::read_to_string(path.join("d/results.csv")).unwrap();
    assert_eq!(csv.lines().count(), 9);
    assert!(csv.starts_with("scenario,workload.bytes,transport.paths,seed,flows,done,"), "{csv}");
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    let place = rows[0].iter().position(|title| *title == "goodput_percent").unwrap();
    let goodput = |row: &Vec<&str>| row[place].parse::<f64>().unwrap();
    assert!(rows[1..].iter().all(|row| (1.0..200.0).contains(&goodput(row))), "{csv}");

    let (again, progress) = good(path, &SWEEP);
    assert_eq!(again, table);
    assert_eq!(progress, "netsim: 8 runs are finished already\n");
    let kept = fs::read_dir(path.join("d/runs")).unwrap().next().unwrap().unwrap().path();
    fs::write(kept, "torn").unwrap();
    let (again, progress) = good(path, &SWEEP);
    assert_eq!((again, progress.matches("/8] ").count()), (table, 1), "{progress}");

    let changed = SCENARIO.replace("hop_ns = 500", "hop_ns = 700");
    fs::write(path.join("s.toml"), changed).unwrap();
    let (_, progress) = good(path, &SWEEP);
    assert_eq!(progress.matches("/8] ").count(), 8, "other inputs, other runs: {progress}");
}

#[test]
fn a_point_of_a_sweep_is_what_run_gives() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    let set = ["--set", "transport.paths=3", "--json", "a.json", "--seed", "2"];
    good(path, &[&["run", "s.toml"], &set[..]].concat());
    good(
        path,
        &["sweep", "s.toml", "--set", "transport.paths=3", "--seeds", "2", "--json", "b.json"],
    );
    let digest = |name: &str| {
        let json = fs::read(path.join(name)).unwrap();
        let results: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(results["format"], "netsim-results/1");
        let digest = results["points"][0]["runs"][0]["digest"].as_str().map(str::to_owned);
        digest.unwrap()
    };
    assert_eq!(digest("a.json"), digest("b.json"));
    let (table, _) = good(path, &["compare", "a.json", "b.json"]);
    assert!(table.ends_with("0 improved, 6 the same, 0 regressed or missing\n"), "{table}");
}

#[test]
fn tables_of_another_sweep_are_left_alone() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    good(path, &["sweep", "s.toml", "--out", "d", "-q"]);
    let output = netsim(path, &SWEEP);
    assert_eq!(output.status.code(), Some(2));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("another sweep") && stderr.contains("--force"), "{stderr}");
    good(path, &[&SWEEP[..], &["--force"]].concat());
}

#[test]
fn every_combination_is_checked_before_anything_runs() {
    let folder = with_file(SCENARIO);
    let refused = |args: &[&str], parts: &[&str]| {
        let output = netsim(folder.path(), &[&["sweep", "s.toml", "--out", "d"], args].concat());
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{stderr}");
        assert_eq!(run_files(folder.path()), 0);
    };
    refused(&["--set", "network.gbps=100,30"], &["network.gbps=30", "30 Gbit/s", "25, 32"]);
    refused(&["--set", "workload.bites=1"], &["workload.bites=1", "unknown", "permutation"]);
    refused(&["--set", "paths"], &["FIELD=VALUE"]);
    refused(&["--seeds", "3..1"], &["3..1"]);
    refused(&["--part", "5/4"], &["1 to 4"]);
}

#[test]
fn a_point_that_does_not_end_well_is_named_and_the_others_are_kept() {
    let fault = "[[fault]]\ntarget = \"host0\"\nat_us = 1\ncut = true\n";
    let folder = with_file(&format!("{SCENARIO}{fault}"));
    let output = netsim(folder.path(), &["sweep", "s.toml", "--set", "fault.at_us=1,9999", "-q"]);
    assert_eq!(output.status.code(), Some(1));
    let (table, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(table.contains("4/8") && table.contains("8/8"), "{table}");
    let again =
        "2 of 4 flows ended well; repeat it with: netsim run s.toml --set fault.at_us=1 --seed 2";
    assert!(stderr.contains(again), "{stderr}");
}

#[test]
fn every_point_is_held_to_what_its_scenario_expects() {
    let folder = with_file(&format!("{SCENARIO}[expect]\nmax_to_ideal = 3.0\n"));
    let path = folder.path();
    let args = ["sweep", "s.toml", "--set", "network.buffer_bytes=100KB,200KB", "--out", "d", "-q"];
    let slow = ["--set", "fault=[],[{target = \"leaf0-spine0\", at_us = 0, gbps = 1}]"];
    let sweep = || netsim(path, &[&args[..], &slow].concat());
    let output = sweep();
    let (table, said) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{table}{said}");
    let words: Vec<&str> =
        table.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(words[0], "expected", "{table}");
    assert_eq!(words[2..6], ["held", "MISSED", "held", "MISSED"], "{table}");
    assert!(table.ends_with("expectations: 2 held, 2 MISSED\n"), "{table}");
    let again = "expected at most 3; repeat it with: netsim sweep s.toml --set ";
    assert!(said.contains(again) && said.contains("--seeds 1,2"), "{said}");
    let kept = sweep();
    assert_eq!(text(&kept.stdout), table, "of runs that were kept, too");
    let json = fs::read(path.join("d/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let expected = &results["points"][1]["expected"][0];
    assert_eq!((&expected["figure"], &expected["most"]), (&"max/ideal".into(), &3.0.into()));
    assert!(expected["missed"].is_string() && expected["value"].as_f64() > Some(3.0), "{expected}");
    let held = ["sweep", "s.toml", "--set", "network.buffer_bytes=100KB", "-q"];
    good(path, &held);
}

/// Polls until `ready`, or kills the child and fails.
fn wait_until(child: &mut Child, what: &str, mut ready: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !ready() {
        if Instant::now() > deadline || child.try_wait().unwrap().is_some() {
            let _ = child.kill();
            panic!("{what} did not happen");
        }
        std::thread::yield_now();
    }
}

#[test]
fn ctrl_c_leaves_whole_files() {
    let folder = with_file(&SCENARIO.replace("limit_ms = 10", "limit_ms = 60_000"));
    let path = folder.path();
    let long = ["sweep", "s.toml", "--set", "workload.bytes=1KB,4GB", "--out", "d", "--jobs", "1"];
    let mut child = Command::new(PROGRAM)
        .args([&long[..], &["--seeds", "1..1"]].concat())
        .current_dir(path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(&mut child, "the first run", || run_files(path) == 1);
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(text(&output.stdout).lines().count(), 3, "the point that ended is shown");
    let json = fs::read(path.join("d/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["points"].as_array().map(Vec::len), Some(1));
}

/// Checks a script as shellcheck does; where that is missing, says so (and fails in CI).
fn assert_shellcheck(script: &str) {
    let command =
        Command::new("shellcheck").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let Ok(mut child) = command else {
        assert!(std::env::var_os("CI").is_none(), "shellcheck is missing; .ci/setup installs it");
        eprintln!("NOT CHECKED: shellcheck is not installed");
        return;
    };
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}\n{script}", text(&output.stdout));
}

#[test]
fn the_slurm_script_runs_the_sweep_in_parts() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    let (script, _) = good(path, &[&SWEEP[..], &["--seeds", "4..5", "--slurm", "3"]].concat());
    assert!(script.contains("#SBATCH --array=1-3\n"), "{script}");
    assert_shellcheck(&script);
    fs::write(path.join("job.sh"), &script).unwrap();
    for (task, runs) in [("1", 3), ("2", 6), ("3", 8)] {
        let run = Command::new("bash")
            .arg(path.join("job.sh"))
            .env("SLURM_ARRAY_TASK_ID", task)
            .env("SLURM_CPUS_PER_TASK", "1")
            .output()
            .unwrap();
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(run.stdout.is_empty() && !path.join("d/results.json").exists());
        assert_eq!(run_files(path), runs);
    }
    let (_, progress) = good(path, &[&SWEEP[..], &["--seeds", "4..5"]].concat());
    assert_eq!(progress, "netsim: 8 runs are finished already\n");
    assert!(path.join("d/results.json").exists());
}

#[test]
fn compare_tells_what_is_worse_and_what_is_missing() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    good(path, &[&SWEEP[..], &["--json", "a.json", "-q"]].concat());
    let slow = SCENARIO.replace("hop_ns = 500", "hop_ns = 5000");
    fs::write(path.join("s.toml"), slow).unwrap();
    let fewer =
        ["sweep", "s.toml", "--set", "workload.bytes=64KB", "--set", "transport.paths=1,16"];
    good(path, &[&fewer[..], &["--json", "b.json", "-q"]].concat());
    let output = netsim(path, &["compare", "a.json", "b.json"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("REGRESSED") && table.matches("MISSING").count() == 2, "{table}");
    let (table, _) = good(path, &["compare", "b.json", "b.json", "--threshold", "0"]);
    assert!(table.ends_with("0 improved, 12 the same, 0 regressed or missing\n"), "{table}");
    let output = netsim(path, &["compare", "a.json", "s.toml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("s.toml is not a result file"));
}

/// The comparison once succeeded without comparing anything.
#[test]
fn compare_needs_the_same_seeds() {
    let folder = with_file(SCENARIO);
    let path = folder.path();
    good(path, &["run", "s.toml", "--json", "both.json"]);
    good(path, &["run", "s.toml", "--json", "one.json", "--seed", "1"]);
    good(path, &["run", "s.toml", "--json", "two.json", "--seed", "2"]);
    let output = netsim(path, &["compare", "one.json", "two.json"]);
    let table = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{table}");
    assert!(table.contains("every seed  MISSING"), "{table}");
    assert!(table.ends_with("0 improved, 0 the same, 1 regressed or missing\n"), "{table}");
    let (table, _) = good(path, &["compare", "both.json", "two.json"]);
    assert!(table.contains("two racks: seed 1 only in the first\n"), "{table}");
    assert!(table.ends_with("0 improved, 6 the same, 0 regressed or missing\n"), "{table}");
}
