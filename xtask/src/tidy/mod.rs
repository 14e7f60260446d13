//! Rules no compiler checks. Each rule is a pure function from text to findings.

mod columns;
mod dependencies;
mod links;
mod manifests;
mod protocol;
mod rooms;
mod sentences;
pub(crate) mod source;
mod text;
mod tree;
mod unsafety;
mod vocabulary;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use tree::Tree;

/// A broken rule: where and what to do about it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Path relative to the root, with a line number where that makes sense.
    place: String,
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self { place: place.into(), what: what.into() }
    }

    fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Checks all rules on the checkout at `root`.
///
/// # Errors
/// Returns an error if a file cannot be read, or cargo cannot describe the workspace.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let tree = Tree::read(root)?;
    let mut findings = Vec::new();
    for file in tree.files() {
        findings.extend(text::check(file));
    }
    findings.extend(manifests::check(&tree));
    findings.extend(unsafety::check(&tree));
    findings.extend(protocol::check(&tree));
    findings.extend(rooms::check(&tree));
    findings.extend(links::check(&tree));
    findings.extend(columns::check(&tree));
    findings.extend(sentences::check(&tree));
    findings.extend(vocabulary::check(&tree));
    findings.extend(dependencies::check(root)?);
    Ok(findings)
}
