//! The scenarios of the repository: each runs twice to the same digest, and gives the table that
//! is kept beside it.
//!
//! After a change that is meant to change them:
//! `NETSIM_BLESS=1 cargo test -p netsim --test golden`, and read the difference.
#![allow(clippy::unwrap_used, reason = "tests")]

use netsim::{Outcome, Scenario, shares_table, slowdown_table, table};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum bytes of a scenario; larger ones are run by hand: `netsim run`.
const BYTES_MAX: u64 = 700_000_000;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios")
}

/// Returns the scenarios of the repository that lie in the folder `below`.
fn names(below: &str) -> Vec<String> {
    let entries = fs::read_dir(folder().join(below)).unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<String> = entries
        .filter_map(|name| Some(format!("{below}{}", name.to_str()?.strip_suffix(".toml")?)))
        .collect();
    names.sort();
    assert!(names.len() >= 15, "scenarios are missing: {names:?}");
    names
}

fn scenario(name: &str) -> Scenario {
    let file = folder().join(format!("{name}.toml"));
    let text = fs::read_to_string(&file).unwrap();
    Scenario::parse_in(&text, file.parent().unwrap())
        .unwrap_or_else(|error| panic!("{name}.toml: {error}"))
}

fn run(name: &str, scenario: &Scenario, seed: u64) -> Outcome {
    let command = format!("netsim run scenarios/{name}.toml --seed {seed}");
    scenario.run(seed).unwrap_or_else(|broken| panic!("{command}: {broken}"))
}

#[test]
fn scenarios_repeat_and_give_their_tables() {
    repeat_and_compare(&names(""));
}

/// The scenarios that no parameter of the transport was chosen on.
#[test]
fn heldout_scenarios_repeat_and_give_their_tables() {
    repeat_and_compare(&names("heldout/"));
}

/// RoCEv2 beside SRD under loss, incast and a cut cable.
#[test]
fn what_go_back_n_costs_repeats_and_gives_its_tables() {
    repeat_and_compare(&names("go-back-n/"));
}

fn repeat_and_compare(names: &[String]) {
    let mut changed = Vec::new();
    for name in names {
        let scenario = scenario(name);
        if scenario.bytes() > BYTES_MAX {
            println!("skipped: {name} moves {} bytes, more than {BYTES_MAX}", scenario.bytes());
            continue;
        }
        let outcomes: Vec<Outcome> =
            scenario.seeds().iter().map(|&seed| run(name, &scenario, seed)).collect();
        assert_eq!(run(name, &scenario, outcomes[0].seed), outcomes[0], "{name} does not repeat");
        for outcome in &outcomes {
            let command = format!("netsim run scenarios/{name}.toml --seed {}", outcome.seed);
            assert!(outcome.is_complete(), "{command}: not all flows ended well");
        }
        let missed = scenario.missed(&outcomes);
        assert_eq!(missed, [""; 0], "netsim run scenarios/{name}.toml misses what it expects");
        let title = scenario.title();
        let shares = shares_table(title, &outcomes).map(|table| table.text()).unwrap_or_default();
        let slowdown =
            slowdown_table(title, &outcomes).map(|table| table.text()).unwrap_or_default();
        let text = format!(
            "{title}
{}{shares}{slowdown}",
            table(title, &outcomes).text()
        );
        let file = folder().join("golden").join(format!("{name}.txt"));
        if std::env::var_os("NETSIM_BLESS").is_some() {
            fs::write(&file, &text).unwrap();
        }
        let golden = fs::read_to_string(&file).unwrap_or_default();
        if golden != text {
            changed.push(format!("--- golden/{name}.txt\n{golden}+++ now\n{text}"));
        }
    }
    assert!(changed.is_empty(), "NETSIM_BLESS=1 accepts this:\n{}", changed.join("\n"));
}

#[test]
fn different_seeds_are_different_runs() {
    let scenario = scenario("incast32");
    let digests = [1, 2].map(|seed| run("incast32", &scenario, seed).digest);
    assert_ne!(digests[0], digests[1]);
}
