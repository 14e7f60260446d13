//! Links of the documents: each leads to a file of the checkout and to a heading of it, and every
//! page is in the book's list.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::tree::{SourceFile, Tree};
use crate::markdown::{self, Link};

const SUMMARY: &str = "docs/SUMMARY.md";
/// File that is exempt: a description of past releases stays as it was written.
const HISTORY: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let documents: Vec<&SourceFile> =
        tree.files().filter(|file| file.path.ends_with(".md") && file.path != HISTORY).collect();
    let anchors: BTreeMap<&str, BTreeSet<String>> =
        documents.iter().map(|file| (file.path.as_str(), markdown::anchors(&file.text))).collect();
    let mut findings = Vec::new();
    let mut listed = BTreeSet::from([SUMMARY.to_owned()]);
    for file in &documents {
        for link in markdown::links(&file.text) {
            let target = markdown::resolve(&file.path, link.path);
            if let Some(what) = check_link(tree, &anchors, &link, target.as_deref()) {
                findings.push(Finding::at(&file.path, link.line, what));
            }
            if file.path == SUMMARY {
                listed.extend(target);
            }
        }
    }
    let pages = documents.iter().filter(|file| file.path.starts_with("docs/"));
    let lost = pages.filter(|file| !listed.contains(&file.path));
    findings.extend(lost.map(|file| Finding::new(&file.path, format!("is not in {SUMMARY}"))));
    findings.extend(tree.files().flat_map(|file| check_mentions(tree, file)));
    findings
}

fn check_link(
    tree: &Tree,
    anchors: &BTreeMap<&str, BTreeSet<String>>,
    link: &Link<'_>,
    target: Option<&str>,
) -> Option<String> {
    let Some(target) = target.filter(|target| tree.has(target)) else {
        return Some(format!("links to {}, which is not there", link.path));
    };
    let known = anchors.get(target);
    let is_lost =
        !link.anchor.is_empty() && !known.is_some_and(|known| known.contains(link.anchor));
    is_lost.then(|| format!("links to #{} of {target}, which has no such heading", link.anchor))
}

/// Checks the pages that comments, messages and help texts name by their path.
fn check_mentions(tree: &Tree, file: &SourceFile) -> Vec<Finding> {
    // The tests of this very rule name pages that are not there.
    if file.path == HISTORY || file.path.starts_with("xtask/") {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        for (at, _) in line.match_indices("docs/") {
            let is_path = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '.' | '_');
            let begins = !line[..at].ends_with(is_path);
            let path = line[at..].split(|c| !is_path(c)).next().unwrap_or_default();
            if begins && path.ends_with(".md") && !tree.has(path) {
                findings.push(Finding::at(
                    &file.path,
                    number,
                    format!("names {path}, which is not there"),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: (&str, &str) = ("docs/SUMMARY.md", "- [A](A.md)\n- [B](start/B.md)\n");

    fn check_with(a: &str, b: &str) -> Vec<String> {
        let files = [LIST, ("docs/A.md", a), ("docs/start/B.md", b), ("src/x.rs", "")];
        check(&Tree::of(&files)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_lead_somewhere() {
        assert_eq!(
            check_with("# A\n[b](start/B.md#two)\n", "# B\n## Two\n[x](../../src/x.rs)\n"),
            [""; 0]
        );
        let lost = check_with("[b](start/C.md)\n", "[a](../A.md#a)\n");
        assert!(lost[0].starts_with("docs/A.md:1: links to start/C.md"), "{lost:?}");
        assert!(lost[1].starts_with("docs/start/B.md:1: links to #a of docs/A.md"), "{lost:?}");
        assert_eq!(check_with("[up](../../elsewhere.md)\n", "").len(), 1);
        assert_eq!(check_with("[here](#nowhere)\n", "").len(), 1);
    }

    #[test]
    fn outside_and_code_are_not_looked_at() {
        assert_eq!(
            check_with("[x](https://example.com/y) `[x](y)`\n```\n[x](y)\n```\n", ""),
            [""; 0]
        );
    }

    #[test]
    fn every_page_is_listed() {
        let lost = check(&Tree::of(&[("docs/SUMMARY.md", "# Summary\n"), ("docs/A.md", "")]));
        assert_eq!(lost[0].to_string(), "docs/A.md: is not in docs/SUMMARY.md");
    }

    #[test]
    fn pages_named_in_code_exist() {
        let named = |name: &str| check_with("", &format!("see docs/{name}.md")).len();
        assert_eq!((named("A"), named("start/B"), named("C")), (0, 0, 1));
    }
}
