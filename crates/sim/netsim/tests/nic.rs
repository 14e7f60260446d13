//! `netsim nic`: the command, and the model beside the published tables.
//!
//! After a change that is meant to change it: `NETSIM_BLESS=1 cargo test -p netsim --test nic`, and
//! read the difference.
#![allow(clippy::unwrap_used, reason = "tests")]

use netsim::nic::{Comparison, Line, Profile};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn netsim(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_netsim"));
    command.arg("nic").args(args).current_dir(folder).output().unwrap()
}

fn built_in(name: &str) -> (String, Profile) {
    (name.to_owned(), Profile::built_in(name).unwrap())
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../scenarios/golden/nic-c5n.txt")
}

#[test]
fn the_models_are_near_the_published_tables() {
    let all = Comparison::run(&["c5n", "rc", "tcp"].map(built_in), None, 1);
    let errors = all.errors(|_| true).unwrap();
    assert_eq!((errors.rows, all.lines.len()), (496, 555), "{}", all.text());
    assert!(errors.median_percent <= 3.0 && errors.max_percent <= 13.0, "{}", all.text());
    let is_c5n = |line: &&Line| line.series == "model:c5n";
    let comparison = Comparison { lines: all.lines.iter().filter(is_c5n).cloned().collect() };
    let text = comparison.text();
    if std::env::var_os("NETSIM_BLESS").is_some() {
        fs::write(golden(), &text).unwrap();
    }
    let errors = comparison.errors(|_| true).unwrap();
    assert_eq!((errors.rows, comparison.lines.len()), (343, 380), "{text}");
    assert!(errors.median_percent <= 3.0 && errors.max_percent <= 13.0, "{text}");
    let golden = fs::read_to_string(golden()).unwrap_or_default();
    let changed: Vec<_> = text.lines().filter(|line| !golden.lines().any(|l| l == *line)).collect();
    assert!(golden == text, "NETSIM_BLESS=1 accepts these lines:\n{}", changed.join("\n"));
}

#[test]
fn other_seeds_say_nearly_the_same() {
    // A profile that was fitted to one seed must not depend on it.
    let profile = built_in("c5n");
    let run = |seed| Comparison::run(std::slice::from_ref(&profile), Some("c5"), seed);
    let (one, again, other) = (run(1), run(1), run(2));
    assert_eq!(one, again, "the same seed is the same run");
    assert_ne!(one, other);
    for (line, other) in one.lines.iter().zip(&other.lines) {
        let ratio = line.modelled / other.modelled;
        assert!((0.93..1.07).contains(&ratio), "{line:?} {other:?}");
    }
}

#[test]
fn formulas_of_the_model_hold() {
    let comparison = Comparison::run(&[built_in("c5n")], Some("c3.3"), 1);
    let of = |depth: u32, size: u32| {
        let is_it = |line: &&Line| (line.depth, line.size_bytes) == (depth, size);
        comparison.lines.iter().find(is_it).map(|line| line.modelled).unwrap()
    };
    // Few messages under way: nothing waits, so twice as many carry twice as much.
    assert!((1.9..2.01).contains(&(of(2, 16) / of(1, 16))));
    // N / (T + kappa N (1 - exp(-N / n0))), with caps: the published closed form of this table.
    let trip_us = 16.0 / (of(1, 16) * 1.048_576);
    for depth in [4, 8, 16, 32, 64, 128, 256] {
        let n = f64::from(depth);
        let closed = n / (trip_us + 0.327 * n * (1.0 - (-n / 21.0).exp()));
        let modelled = of(depth, 16) * 1.048_576 / 16.0;
        let ratio = modelled / closed;
        assert!((0.88..1.12).contains(&ratio), "depth {depth}: {modelled} beside {closed}");
    }
}

#[test]
fn prints_writes_and_keeps_what_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--profile", "c5n", "--table", "c1", "--json", "out.json"];
    let output = netsim(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Table C1") && text.contains("model:c5n"), "{text}");
    let page: serde_json::Value =
        serde_json::from_slice(&fs::read(folder.path().join("out.json")).unwrap()).unwrap();
    assert_eq!(page["lines"].as_array().map(Vec::len), Some(10));
    assert_eq!(page["lines"][0]["series"], "model:c5n");
    let output = netsim(folder.path(), &args);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--force"));
}

#[test]
fn a_profile_of_ones_own_is_used_and_a_wrong_one_refused() {
    let folder = tempfile::tempdir().unwrap();
    let own = include_str!("../profiles/c5n.toml");
    let line = own.lines().find(|line| line.starts_with("one_way_ns")).unwrap();
    fs::write(folder.path().join("slow.toml"), own.replace(line, "one_way_ns = 99000")).unwrap();
    let args = ["--profile", "slow.toml", "--table", "c6.1", "--json", "-"];
    let output = netsim(folder.path(), &args);
    let page: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(page["lines"][0]["series"], "model:slow");
    assert!(page["lines"][0]["modelled"].as_f64().unwrap() > 99.0);

    let refusal = |args: &[&str], part: &str| {
        let output = netsim(folder.path(), args);
        assert_eq!(output.status.code(), Some(2));
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(stderr.lines().count() == 1 && stderr.contains(part), "{stderr}");
    };
    fs::write(folder.path().join("wrong.toml"), own.replace("jitter_ns", "giter_ns")).unwrap();
    refusal(&["--profile", "wrong.toml"], "line 1");
    refusal(&["--profile", "none"], "c5n, rc, tcp");
    refusal(&["--profile", "c5n", "--table", "c99"], "c1 to c10.2");
}
