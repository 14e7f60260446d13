//! Running the real program.
#![allow(dead_code, reason = "each test program uses its part")]

use std::process::{Command, Output};

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_efa-bench");

pub(crate) fn efa_bench(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().expect("efa-bench starts")
}

/// Checks that it failed with `code` and one line that contains all of `words`.
pub(crate) fn assert_fails(output: &Output, code: i32, words: &[&str]) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{text}");
    let errors: Vec<&str> = text.lines().filter(|l| !l.starts_with("server process")).collect();
    assert_eq!(errors.len(), 1, "one line, not: {text}");
    for word in words {
        assert!(errors[0].contains(word), "no {word:?} in: {text}");
    }
}

/// Runs it and answers the points of its first run.
pub(crate) fn points_of(arguments: &[&str]) -> Vec<serde_json::Value> {
    let mut all = vec!["local"];
    all.extend(arguments);
    all.extend(["--json", "-", "--no-doubts"]);
    let output = efa_bench(&all);
    assert!(output.status.success(), "{all:?}: {}", String::from_utf8_lossy(&output.stderr));
    points(&output)
}

/// The points of the first run that it printed as JSON.
pub(crate) fn points(output: &Output) -> Vec<serde_json::Value> {
    let results: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    results["runs"][0]["points"].as_array().expect("points").clone()
}
