//! `netsim check`: scenarios as tests.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::{SCENARIO, netsim, with_file};
use std::fs;

#[test]
fn bounds_that_hold_and_bounds_that_do_not() {
    let expect = "[expect]\nmax_to_ideal = 50.0\nmin_to_ideal = 40.0\n";
    let folder = with_file(&format!("{SCENARIO}{expect}"));
    fs::write(folder.path().join("free.toml"), SCENARIO).unwrap();
    let args = ["check", "s.toml", "free.toml", "--beside", "7", "--markdown", "t.md"];
    let output = netsim(folder.path(), &args);
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let row = |file: &str, figure: &str| {
        let is_it = |line: &&str| line.starts_with(file) && line.contains(figure);
        table.lines().find(is_it).unwrap_or_else(|| panic!("{file} {figure}: {table}")).to_owned()
    };
    assert!(row("s.toml", "max/ideal").ends_with("at most 50     held"), "{table}");
    assert!(row("s.toml", "min/ideal").ends_with("at least 40   MISSED"), "{table}");
    let free = row("free.toml", "max/ideal");
    assert!(!free.contains("held") && free.contains(" to "), "{table}");
    assert!(table.ends_with("expectations: 0 held, 1 MISSED, 1 expect nothing\n"), "{table}");
    assert!(table.lines().next().unwrap().contains("seeds 7"), "{table}");
    assert!(said.contains("min/ideal is") && said.contains("netsim run s.toml"), "{said}");
    let page = fs::read_to_string(folder.path().join("t.md")).unwrap();
    assert!(page.contains("* bounds held: 1\n* bounds missed: 1\n"), "{page}");

    let again = netsim(folder.path(), &["check", "free.toml", "--markdown", "t.md"]);
    assert_eq!(again.status.code(), Some(2), "nothing is written over a result");
}

#[test]
fn a_run_that_does_not_end_is_named() {
    let cut = "[[fault]]\ntarget = \"leaf0\"\nat_us = 0\ncut = true\n";
    let folder = with_file(&format!("{SCENARIO}{cut}"));
    let output = netsim(folder.path(), &["check", "s.toml", "-q"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("flows ended well; repeat it with: netsim run s.toml --seed 1"),
        "{said}"
    );
}

/// The flows that had ended were once judged alone: the bound was held.
#[test]
fn a_bound_on_flows_that_do_not_end_is_missed() {
    let cut = "[[fault]]\ntarget = \"host0\"\nat_us = 0\ncut = true\n";
    let folder = with_file(&format!("{SCENARIO}{cut}[expect]\nmax_to_ideal = 50\n"));
    let output = netsim(folder.path(), &["check", "s.toml", "-q", "--markdown", "t.md"]);
    let (table, said) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let row = table.lines().find(|line| line.starts_with("s.toml")).unwrap();
    assert!(row.contains("max/ideal") && row.contains("at most 50"), "{table}");
    assert!(row.ends_with("MISSED"), "{table}");
    let unknown = "max/ideal is unknown: flows did not end; repeat it with: netsim run s.toml";
    assert!(said.contains(unknown), "{said}");
    let page = fs::read_to_string(folder.path().join("t.md")).unwrap();
    assert!(page.contains("* bounds held: 0\n* bounds missed: 1\n"), "{page}");
    assert!(page.contains("\n> 2 of 4 flows ended well; repeat it with: "), "{page}");
    assert!(page.contains(&format!("\n> {unknown}")), "{page}");

    let output = netsim(folder.path(), &["run", "s.toml", "--json", "-"]);
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = &results["points"][0]["expected"][0];
    assert!(expected["value"].is_null(), "{expected}");
    assert_eq!(expected["missed"], "max/ideal is unknown: flows did not end");
}

/// A seed that is shown and not judged once made the check fail.
#[test]
fn seeds_beside_are_shown_and_not_judged() {
    // A seed that draws no transfer counts as one whose flows did not end well.
    let rare = "poisson]]\nload_percent = 50\nuntil_us = 200\nsizes = [[4_000_000, 100.0]]";
    let text = SCENARIO.replace("permutation]]\nbytes = 50_000", rare);
    let folder = with_file(&text.replace("[1, 2]", "[1]"));
    let args = ["check", "s.toml", "-q", "--beside", "2", "--markdown", "t.md"];
    let output = netsim(folder.path(), &args);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let note =
        "beside, not judged: no transfer was drawn; repeat it with: netsim run s.toml --seed 2";
    assert!(said.contains(note), "{said}");
    let page = fs::read_to_string(folder.path().join("t.md")).unwrap();
    assert!(page.contains(note), "{page}");
}

/// A run with no transfer at all once passed for a good one.
#[test]
fn a_run_without_transfers_is_named() {
    let rare = "poisson]]\nload_percent = 1\nuntil_us = 2_200\nsizes = [[1_000_000, 100.0]]";
    let text = SCENARIO.replace("permutation]]\nbytes = 50_000", rare);
    // One transfer is expected in a run, so that about every third seed draws none.
    let seeds: Vec<String> = (1..=30).map(|seed| seed.to_string()).collect();
    let text = text.replace("[1, 2]", &format!("[{}]", seeds.join(", ")));
    let folder = with_file(&text);
    let output = netsim(folder.path(), &["check", "s.toml", "-q"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no transfer was drawn; repeat it with: netsim run s.toml"), "{said}");
}
