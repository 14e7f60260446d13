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
