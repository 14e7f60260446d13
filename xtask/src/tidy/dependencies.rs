//! The dependency rule of the workspace: the crates that each crate may use.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::Finding;

/// Crates, each with the crates of this workspace it may depend on; everything else is forbidden.
const MAY_DEPEND: [(&str, &[&str]); 22] = [
    ("softefa-verbs", &["cm", "nested-cargo", "rc", "softefa", "verbs-abi"]),
    ("softefa", &["cm", "rc", "srd"]),
    ("softefa-cli", &["manual", "nested-cargo", "report", "softefa"]),
    ("fire", &["nested-cargo", "report", "softefa"]),
    ("netsim", &["manual", "published", "rc", "report", "srd"]),
    (
        "efa-bench",
        &[
            "bench-engine",
            "bench-floor",
            "bench-record",
            "bench-report",
            "manual",
            "nested-cargo",
            "pmix",
            "report",
        ],
    ),
    ("bench-engine", &["bench-record", "fabric", "report", "verbs"]),
    ("bench-floor", &["bench-record"]),
    ("bench-report", &["bench-record", "published", "report"]),
    ("bench-record", &["report"]),
    ("fabric", &["fabric-sys"]),
    ("verbs", &["verbs-abi"]),
    ("verbs-abi", &[]),
    ("fabric-sys", &[]),
    ("pmix", &[]),
    ("published", &[]),
    ("report", &[]),
    ("rc", &[]),
    ("srd", &[]),
    ("cm", &[]),
    ("manual", &[]),
    ("nested-cargo", &[]),
];
/// Crates that may depend on anything; nothing depends on them.
const ANYTHING: [&str; 2] = ["xtask", "fuzz"];

pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let output = nested_cargo::command()
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(root)
        .output()
        .context("cargo metadata cannot be started")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {stderr}");
    Ok(check_metadata(&serde_json::from_slice(&output.stdout)?))
}

fn check_metadata(metadata: &Value) -> Vec<Finding> {
    let empty = Vec::new();
    let list = |value: &'_ Value| value.as_array().unwrap_or(&empty).clone();
    let mut findings = Vec::new();
    for package in list(&metadata["packages"]) {
        let name = package["name"].as_str().unwrap_or_default();
        let members = list(&package["dependencies"]);
        // A dependency with a path is a crate of this workspace.
        let members = members.iter().filter(|dependency| dependency["path"].is_string());
        let names = members.filter_map(|dependency| dependency["name"].as_str());
        findings.extend(names.filter_map(|to| check_edge(name, to)));
        if !ANYTHING.contains(&name) && !MAY_DEPEND.iter().any(|(known, _)| *known == name) {
            findings.push(Finding::new(name, "is not in the dependency rule: decide its place"));
        }
    }
    findings
}

fn check_edge(from: &str, to: &str) -> Option<Finding> {
    let allowed = ANYTHING.contains(&from)
        || MAY_DEPEND.iter().any(|(name, allowed)| *name == from && allowed.contains(&to));
    (!allowed).then(|| Finding::new(from, format!("must not depend on {to} (dependency rule)")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependency: &str) -> Value {
        let dependencies = serde_json::json!([
            { "name": dependency, "path": "/somewhere" },
            { "name": "libc" },
        ]);
        serde_json::json!({ "packages": [{ "name": name, "dependencies": dependencies }] })
    }

    #[test]
    fn only_listed_directions_are_allowed() {
        assert_eq!(check_metadata(&package("softefa", "srd")), []);
        assert_eq!(check_metadata(&package("xtask", "srd")), []);
        assert_eq!(check_metadata(&package("srd", "softefa")).len(), 1);
        assert_eq!(check_metadata(&package("softefa-verbs", "srd")).len(), 1);
    }

    #[test]
    fn reports_and_records_of_the_benchmark_know_no_fabric() {
        for from in ["bench-record", "bench-report"] {
            for to in ["bench-engine", "efa-bench", "fabric", "verbs"] {
                assert_eq!(check_metadata(&package(from, to)).len(), 1, "{from} -> {to}");
            }
        }
        assert_eq!(check_metadata(&package("bench-engine", "bench-report")).len(), 1);
    }

    #[test]
    fn unknown_crate_needs_a_place() {
        let metadata = serde_json::json!({ "packages": [{ "name": "new", "dependencies": [] }] });
        assert_eq!(check_metadata(&metadata).len(), 1);
    }
}
