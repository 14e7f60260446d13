//! `netsim paper --quick`: every experiment runs, every statement is judged, the page is whole.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::netsim;
use std::fs;
use std::path::Path;
use std::process::Output;

fn paper(folder: &Path) -> Output {
    netsim(folder, &["paper", "--quick", "-q", "--out", "d"])
}

#[test]
fn every_statement_is_judged_and_existing_pages_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let output = paper(folder.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(matches!(output.status.code(), Some(0 | 1)), "{text}");
    assert!(output.stderr.is_empty(), "nothing broke");
    assert_eq!(text.matches("NOT MEASURED").count(), 1, "{text}");
    for (verdict, statement) in [
        ("holds", "SRD: largest time at most 15 % above the ideal"),
        ("holds", "48 flows share 100 Gbit/s"),
        ("holds", "after a link fails"),
        ("holds", "TCP RACK: flows over a link that fails wait until routing has converged"),
    ] {
        let line = text.lines().find(|line| line.contains(statement)).unwrap_or_default();
        assert!(line.starts_with(verdict), "{line}");
    }
    for tcp in ["TCP CUBIC", "TCP NewReno", "TCP RACK"] {
        assert_eq!(text.matches(&format!("  {tcp}")).count(), 6, "{tcp}: {text}");
    }
    let html = fs::read_to_string(folder.path().join("d/index.html")).unwrap();
    for figure in ["figure 2", "figure 3", "figure 4", "figure 6"] {
        assert!(html.contains(&format!("({figure})")), "{figure}");
    }
    let json = fs::read(folder.path().join("d/results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(results["points"].as_array().map(Vec::len), Some(20));

    says_what_it_ran(&text, &html);

    let again = paper(folder.path());
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8(again.stderr).unwrap().contains("--force"));
}

/// Asserts that the page describes the quick run. It once spoke of ten seeds, seconds and samples
/// each 100 ms, which a quick one has not, and one seed had no jitter.
fn says_what_it_ran(text: &str, html: &str) {
    let jitter = text.lines().find(|line| line.contains("very low jitter")).unwrap_or_default();
    assert!(jitter.starts_with("NOT MEASURED"), "{jitter}");
    assert!(text.contains("two seeds are needed"), "{text}");
    assert!(text.contains("(0.01-s samples"), "{text}");
    for (told, other) in [
        ("All flows of one seed.", "ten seeds"),
        ("sampled each 1 ms", "100 ms"),
        ("fewer and shorter runs", "NEVER"),
    ] {
        assert!(html.contains(told) && !html.contains(other), "{told} {other}");
    }
}
