//! `cargo xtask licences` checks all dependencies: their licences let the programs be given away,
//! they come from the registry, and none is there twice. The rules are those of `deny.toml`, so
//! that cargo-deny agrees. `--texts FILE` writes what must come along with the programs: each crate
//! with its licence, and those of the code that it carries from elsewhere.

mod expression;
mod files;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// Crates that are distributed as programs; dependencies of their tests and chores only need not
/// come along.
const PROGRAMS: [&str; 4] = ["softefa-cli", "softefa-verbs", "efa-bench", "netsim"];
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Rules {
    licenses: Licences,
    bans: Bans,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// A version of a crate that may be there beside another one.
#[derive(Deserialize)]
struct Skip {
    /// Version in the form `NAME@VERSION`.
    #[serde(rename = "crate")]
    version_of: String,
}

#[derive(Deserialize)]
struct Licences {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    id: String,
    license: Option<String>,
    source: Option<String>,
    manifest_path: PathBuf,
    authors: Vec<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

impl Package {
    /// Returns whether it is of the workspace, with no source but this checkout.
    fn is_ours(&self) -> bool {
        self.source.is_none()
    }
}

/// Checks all dependencies for this machine; writes the texts of those of the programs if asked to.
///
/// # Errors
/// Returns an error if something is not permitted, or if cargo or a file refuses.
pub(crate) fn check(root: &Path, texts: Option<&Path>) -> Result<()> {
    let rules = root.join("deny.toml");
    let rules =
        fs::read_to_string(&rules).with_context(|| format!("cannot read {}", rules.display()))?;
    let rules: Rules = toml::from_str(&rules).context("deny.toml")?;
    let metadata = metadata(root)?;
    let findings = findings(&metadata, &rules);
    for finding in &findings {
        eprintln!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    let foreign = metadata.packages.iter().filter(|package| !package.is_ours()).count();
    println!("licences: {foreign} crates from the registry, no findings");
    texts.map_or(Ok(()), |path| {
        fs::write(path, all_texts(&metadata)?)
            .with_context(|| format!("cannot write {}", path.display()))
    })
}

fn metadata(root: &Path) -> Result<Metadata> {
    let host = Command::new("rustc").arg("-vV").output().context("rustc cannot be started")?;
    let host = String::from_utf8_lossy(&host.stdout).into_owned();
    let host = host
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .context("rustc -vV names no host")?;
    let output = nested_cargo::command()
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", host])
        .current_dir(root)
        .output()
        .context("cargo metadata cannot be started")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata failed: {stderr}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn findings(metadata: &Metadata, rules: &Rules) -> Vec<String> {
    let allowed = &rules.licenses.allow;
    let mut findings = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in metadata.packages.iter().filter(|package| !package.is_ours()) {
        let Package { name, version, .. } = package;
        let own = format!("{name}@{version}");
        if !rules.bans.skip.iter().any(|skip| skip.version_of == own) {
            versions.entry(name).or_default().push(version);
        }
        let licence = package.license.as_deref().unwrap_or_default();
        match expression::permits(licence, allowed) {
            Ok(true) => {}
            Ok(false) => findings.push(format!(
                "{name} {version}: {licence} is not in deny.toml; do without it, or allow it there with a reason"
            )),
            Err(error) => findings.push(format!("{name} {version}: licence '{licence}': {error}")),
        }
        if package.source.as_deref() != Some(REGISTRY) {
            findings.push(format!("{name} {version}: does not come from the registry of crates"));
        }
    }
    let twice = versions.iter().filter(|(_, versions)| versions.len() > 1);
    findings.extend(twice.map(|(name, versions)| {
        format!(
            "{name} is there more than once: {}; cargo tree --duplicates says why",
            versions.join(", ")
        )
    }));
    findings
}

/// Returns the ids of packages that are linked into the programs or build them.
fn linked(metadata: &Metadata) -> BTreeSet<&str> {
    let roots =
        metadata.packages.iter().filter(|package| PROGRAMS.contains(&package.name.as_str()));
    let mut waiting: Vec<&str> = roots.map(|package| package.id.as_str()).collect();
    let mut found = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !found.insert(id) {
            continue;
        }
        let edges =
            metadata.resolve.nodes.iter().filter(|node| node.id == id).flat_map(|node| &node.deps);
        let normal = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
        waiting.extend(edges.filter(normal).map(|edge| edge.pkg.as_str()));
    }
    found
}

/// Returns each crate that is linked into the programs, with the files of its licences.
fn all_texts(metadata: &Metadata) -> Result<String> {
    let linked = linked(metadata);
    let mut packages: Vec<&Package> = metadata.packages.iter().collect();
    packages.retain(|package| !package.is_ours() && linked.contains(package.id.as_str()));
    packages.sort_by_key(|package| (&package.name, &package.version));
    let mut text = String::from("Soft-EFA's programs are built of the following crates, too.\n");
    // Most have the same few texts: each is written once.
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in packages {
        let Package { name, version, .. } = package;
        let licence = package.license.as_deref().unwrap_or_default();
        writeln!(text, "\n{name} {version}: {licence}")?;
        if !package.authors.is_empty() {
            writeln!(text, "  {}", package.authors.join(", "))?;
        }
        let folder = package.manifest_path.parent().context("a manifest lies in a folder")?;
        for body in files::texts(folder)? {
            texts.entry(body).or_default().push(format!("{name} {version}"));
        }
    }
    for (body, owners) in texts {
        write!(text, "\n{}\n{}\n\n{body}\n", "-".repeat(72), owners.join(", "))?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a graph in which `softefa-cli` is linked with `a`, and only its tests with `b`.
    fn graph(licence: &str, source: &str, version_of_b: &str) -> Metadata {
        let package = |name: &str, version: &str, source: Option<&str>| {
            serde_json::json!({
                "name": name, "version": version, "id": format!("{name}-{version}"), "license": licence,
                "source": source, "manifest_path": "/Cargo.toml", "authors": [],
            })
        };
        let edge = |to: &str, kind: Option<&str>| serde_json::json!({ "pkg": to, "dep_kinds": [{ "kind": kind }] });
        serde_json::from_value(serde_json::json!({
            "packages": [
                package("softefa-cli", "1", None),
                package("a", "1", Some(source)),
                package("a", version_of_b, Some(REGISTRY)),
            ],
            "resolve": { "nodes": [{
                "id": "softefa-cli-1",
                "deps": [edge("a-1", None), edge(&format!("a-{version_of_b}"), Some("dev"))],
            }] },
        }))
        .unwrap()
    }

    fn rules(skipped: &[&str]) -> Rules {
        let skip = |own: &&str| Skip { version_of: (*own).to_owned() };
        Rules {
            licenses: Licences { allow: vec!["MIT".to_owned()] },
            bans: Bans { skip: skipped.iter().map(skip).collect() },
        }
    }

    fn found(licence: &str, source: &str) -> Vec<String> {
        let mut graph = graph(licence, source, "2");
        graph.packages.truncate(2);
        findings(&graph, &rules(&[]))
    }

    #[test]
    fn a_licence_that_is_not_allowed_is_found() {
        assert!(found("MIT OR GPL-3.0", REGISTRY).is_empty());
        assert!(found("GPL-3.0", REGISTRY)[0].starts_with("a 1: GPL-3.0"));
        assert!(found("", REGISTRY)[0].contains("licence ''"));
    }

    #[test]
    fn a_crate_from_elsewhere_is_found() {
        assert_eq!(found("MIT", "git+ssh://host/a").len(), 1);
    }

    #[test]
    fn two_versions_of_a_crate_are_found() {
        let graph = graph("MIT", REGISTRY, "2");
        let found = findings(&graph, &rules(&["a@3", "b@1"]));
        assert!(found[0].contains("a is there more than once: 1, 2"), "{found:?}");
        assert!(findings(&graph, &rules(&["a@1"])).is_empty(), "deny.toml says why");
    }

    #[test]
    fn what_only_tests_use_is_not_linked() {
        let graph = graph("MIT", REGISTRY, "2");
        assert_eq!(linked(&graph), BTreeSet::from(["softefa-cli-1", "a-1"]));
    }
}
