//! Runs in which flows did not end, and runs that broke: the others do not speak for them.

mod common;

use common::{SCENARIO, netsim, with_file};
use std::fs;
use std::path::Path;
use std::process::Output;

/// A fault that cuts off host 0: two of the four flows do not end.
const CUT: &str = "[[fault]]\ntarget = \"host0\"\nat_us = 1\ncut = true\n";

/// A ring whose pauses deadlock with seed 2 of 1 to 3.
const RING: &str = "title = \"ring\"
seeds = [1, 2, 3]
limit_ms = 50
[topology.ring]
switches = 4
hosts_per_switch = 2
[network]
gbps = 100
hop_ns = 500
buffer_bytes = 100_000
[network.pfc]
[transport]
kind = \"roce\"
[[workload.permutation]]
bytes = 100_000
";

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn page(folder: &Path) -> String {
    fs::read_to_string(folder.join("p.html")).expect("the page is written")
}

/// The page once said how long the slowest flow took, and meant those that had ended.
#[test]
fn the_page_of_a_run_claims_nothing_of_flows_that_are_open() {
    let folder = with_file(&format!("{SCENARIO}{CUT}"));
    let output = netsim(folder.path(), &["run", "s.toml", "--html", "p.html"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let open = page(folder.path());
    assert!(!open.contains("The slowest flow took"), "{open}");
    assert!(open.contains("4 of 8 flows did not end well, so the slowest flow"), "{open}");
    let folder = with_file(SCENARIO);
    netsim(folder.path(), &["run", "s.toml", "--html", "p.html"]);
    assert!(page(folder.path()).contains("The slowest flow took"));
}

/// The point whose slow flows never ended once was the best one.
#[test]
fn a_sweep_ranks_only_points_of_which_all_flows_ended() {
    let folder = with_file(&format!("{SCENARIO}{CUT}"));
    let args = ["sweep", "s.toml", "--set", "fault.at_us=1,9998,9999", "-q", "--html", "p.html"];
    netsim(folder.path(), &args);
    let page = page(folder.path());
    assert!(page.contains("The slowest flow takes least with fault.at_us=999"), "{page}");
    let out = "Not ranked, because a run failed or flows did not end: fault.at_us=1.";
    assert!(page.contains(out), "{page}");
}

/// The mean over the seeds that survived was once ranked and drawn.
#[test]
fn a_sweep_ranks_no_point_with_a_seed_that_broke() {
    let folder = with_file(RING);
    let args = ["sweep", "s.toml", "--set", "workload.bytes=50KB,100KB", "-q", "--html", "p.html"];
    let output = netsim(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let page = page(folder.path());
    assert!(!page.contains("The slowest flow takes least"), "one point is no ranking: {page}");
    assert!(page.contains("flows did not end: workload.bytes=100KB."), "{page}");
    let means = page.split("mean: ").nth(1).unwrap_or_default();
    let means = means.split('<').next().unwrap_or_default();
    assert!(
        means.contains(" at 50000") || means.contains(" at 50,000"),
        "no mean at 100 KB: {means}"
    );
}

/// The table of a sweep once counted only the flows of seeds that did not break.
#[test]
fn a_row_with_a_seed_that_broke_does_not_look_complete() {
    let folder = with_file(RING);
    let output = netsim(folder.path(), &["sweep", "s.toml", "--set", "limit_ms=50", "-q"]);
    let table = stdout(&output);
    let row: Vec<&str> = table.lines().nth(2).unwrap_or_default().split_whitespace().collect();
    assert_eq!(row[..7], ["50", "2/3", "16/16", "-", "-", "-", "-"], "{table}");
}

/// The fairness shown was once that of the flows that had ended.
#[test]
fn fairness_is_unknown_while_flows_are_open() {
    let folder = with_file(&format!("{SCENARIO}{CUT}"));
    let place = |table: &str, title: &str| -> Vec<String> {
        let cells = |line: &str| -> Vec<String> {
            line.split("  ").map(str::trim).filter(|c| !c.is_empty()).map(str::to_owned).collect()
        };
        let mut lines = table.lines().skip_while(|line| !line.contains(title));
        let titles = cells(lines.next().unwrap_or_default());
        let place = titles.iter().position(|cell| cell == title).expect("the column is there");
        lines.skip(1).map(|line| cells(line).get(place).cloned().unwrap_or_default()).collect()
    };
    let run = stdout(&netsim(folder.path(), &["run", "s.toml"]));
    assert_eq!(place(&run, "Jain")[..2], ["-", "-"], "{run}");
    let args = ["sweep", "s.toml", "--set", "fault.at_us=1,9999", "-q"];
    let sweep = stdout(&netsim(folder.path(), &args));
    let jain = place(&sweep, "Jain");
    assert!(jain[0] == "-" && jain[1] != "-", "{sweep}");
}

/// One file that could not be written once left no table and no other file.
#[test]
fn a_full_disk_swallows_neither_the_table_of_a_sweep_nor_its_other_files() {
    let folder = with_file(SCENARIO);
    let args = ["sweep", "s.toml", "--json", "/dev/full", "--csv", "c.csv", "-q"];
    let output = netsim(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stdout(&output).contains("8/8"), "{}", stdout(&output));
    assert!(stderr(&output).contains("/dev/full"), "{}", stderr(&output));
    assert!(folder.path().join("c.csv").is_file());
}

/// A rule that a later seed broke once left neither a table nor a file.
#[test]
fn a_run_keeps_the_seeds_that_did_not_break() {
    let folder = with_file(RING);
    let output = netsim(folder.path(), &["run", "s.toml", "--json", "r.json", "--html", "p.html"]);
    let (table, said) = (stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(1), "as for sweep: {said}");
    assert_eq!(table.matches("8/8").count(), 2, "{table}");
    assert!(said.contains("deadlock of paused links") && said.contains("--seed 2"), "{said}");
    let json = fs::read(folder.path().join("r.json")).expect("results are written");
    let results: serde_json::Value = serde_json::from_slice(&json).expect("they are JSON");
    let runs = &results["points"][0]["runs"];
    assert!(runs[1]["error"].is_string() && runs[2]["done"] == 8, "{runs}");
    let page = page(folder.path());
    assert!(page.contains("deadlock of paused links"), "{page}");
    assert!(!page.contains("The slowest flow took"), "{page}");
}

/// Its rates were once divided by no time.
#[test]
fn the_page_of_a_run_without_transfers_has_only_numbers() {
    let rare = "poisson]]\nload_percent = 50\nuntil_us = 200\nsizes = [[4_000_000, 100.0]]";
    let folder = with_file(&SCENARIO.replace("permutation]]\nbytes = 50_000", rare));
    let args = ["run", "s.toml", "--seed", "2", "--html", "p.html"];
    let output = netsim(folder.path(), &args);
    assert!(stdout(&output).contains("0/0"), "{}", stdout(&output));
    let page = page(folder.path());
    assert!(page.contains("No flow ended well."), "{page}");
    let shown = page.split("<script").next().unwrap_or_default();
    assert!(!shown.contains("NaN") && !shown.contains("inf "), "{shown}");
}

/// Rounds that were never reached once had begun at 0, and were active flows that got nothing.
#[test]
fn a_round_that_never_began_says_so() {
    let rounds = "rack_to_rack]]\nfrom_rack = 0\nto_rack = 1\nhosts = 1\nprocesses = 1\nrounds = 4";
    let text =
        SCENARIO.replace("permutation]]\nbytes = 50_000", &format!("{rounds}\nbytes = 5_000_000"));
    let folder = with_file(&text.replace("limit_ms = 10", "limit_ms = 1"));
    let args = ["run", "s.toml", "--seed", "1", "--json", "r.json", "--html", "p.html"];
    netsim(folder.path(), &args);
    let json = fs::read(folder.path().join("r.json")).expect("results are written");
    let results: serde_json::Value = serde_json::from_slice(&json).expect("they are JSON");
    let flows = results["points"][0]["runs"][0]["outcome"]["flows"].as_array().expect("flows");
    let not_begun: Vec<bool> = flows.iter().map(|flow| flow["not_begun"] == true).collect();
    assert_eq!(not_begun, [false, false, false, true], "{flows:?}");
    let page = page(folder.path());
    let slowest = page.split("slowest flow: ").nth(1).unwrap_or_default();
    let slowest = slowest.split("Gbit/s").next().unwrap_or_default();
    assert!(!slowest.is_empty() && !slowest.starts_with("0 to"), "{slowest}");
}
