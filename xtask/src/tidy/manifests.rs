//! Rules on manifests: versions in one place, lints inherited, every dependency justified.

use super::Finding;
use super::tree::Tree;

const ROOT_MANIFEST: &str = "Cargo.toml";
const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
/// Folders that are workspaces of their own, whose flags and dependencies stay out of the
/// product's.
const OWN_WORKSPACES: [&str; 2] = ["fuzz/", "loom/"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let is_own = OWN_WORKSPACES.iter().any(|folder| file.path.starts_with(folder));
        let member = file.path.ends_with("/Cargo.toml") && !is_own;
        if member {
            findings.extend(check_member(&file.path, &file.text));
        }
    }
    findings.extend(check_tests(tree));
    findings.extend(check_justified(tree));
    findings
}

/// Checks test files: if the tests of a crate are one binary, a file that it does not name would
/// never run.
fn check_tests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for all in tree.files().filter(|file| file.path.ends_with("/tests/all.rs")) {
        let folder = all.path.trim_end_matches("all.rs");
        for file in tree.files().filter(|file| file.path != all.path) {
            let name = file.path.strip_prefix(folder).and_then(|name| name.strip_suffix(".rs"));
            let Some(name) = name.filter(|name| !name.contains('/')) else { continue };
            if !all.text.contains(&format!("mod {name};\n")) {
                let what = format!("its tests do not run: write mod {name}; in {}", all.path);
                findings.push(Finding::new(&file.path, what));
            }
        }
    }
    findings
}

/// Returns `(line number, section, line)` of every line that is neither blank, comment nor header.
fn entries(text: &str) -> impl Iterator<Item = (usize, &str, &str)> {
    let mut section = "";
    (1..).zip(text.lines()).filter_map(move |(number, line)| {
        let line = line.trim();
        if let Some(header) = line.strip_prefix('[') {
            section = header.trim_end_matches(']');
            return None;
        }
        (!line.is_empty() && !line.starts_with('#')).then_some((number, section, line))
    })
}

fn check_member(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut inherits_lints = false;
    for (number, section, line) in entries(text) {
        let inherits = line.contains("workspace = true");
        if section.ends_with("dependencies") && !inherits {
            let what = "a version belongs in [workspace.dependencies]: write name.workspace = true";
            findings.push(Finding::at(path, number, what));
        }
        inherits_lints |= section == "lints" && inherits;
    }
    if !inherits_lints {
        findings.push(Finding::new(path, "lints are not inherited: [lints] workspace = true"));
    }
    findings
}

/// Checks that every outside dependency has its line in the documents, and that no line is without
/// a dependency.
fn check_justified(tree: &Tree) -> Vec<Finding> {
    let manifest = tree.text(ROOT_MANIFEST).unwrap_or_default();
    let outside: Vec<(usize, &str)> = entries(manifest)
        .filter(|(_, section, line)| {
            *section == "workspace.dependencies" && !line.contains("path =")
        })
        .filter_map(|(number, _, line)| line.split_once('=').map(|(name, _)| (number, name.trim())))
        .collect();
    let chapter = chapter(tree.text(ARCHITECTURE).unwrap_or_default(), "Dependencies");
    let listed: Vec<&str> = chapter
        .lines()
        .filter_map(|line| line.strip_prefix("* `").and_then(|line| line.split('`').next()))
        .collect();
    let missing = outside.iter().filter(|(_, name)| !listed.contains(name)).map(|(line, name)| {
        let what = format!("{name} is not in {ARCHITECTURE}, Dependencies: say what it is for");
        Finding::at(ROOT_MANIFEST, *line, what)
    });
    let gone = listed
        .iter()
        .filter(|name| !outside.iter().any(|(_, known)| known == *name))
        .map(|name| Finding::new(ARCHITECTURE, format!("{name} is no dependency any more")));
    missing.chain(gone).collect()
}

/// Returns the text below the second-level heading `title`, up to the next one.
fn chapter<'a>(text: &'a str, title: &str) -> &'a str {
    let heading = format!("## {title}\n");
    let Some(at) = text.find(&heading) else { return "" };
    let body = &text[at + heading.len()..];
    body.find("\n## ").map_or(body, |end| &body[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_in_a_member_is_found() {
        let good = "[dependencies]\nlibc.workspace = true\n[lints]\nworkspace = true\n";
        assert_eq!(check_member("crates/x/Cargo.toml", good), []);
        let bad = "[dev-dependencies]\nlibc = \"0.2\"\n[lints]\nworkspace = true\n";
        assert_eq!(check_member("crates/x/Cargo.toml", bad)[0].place, "crates/x/Cargo.toml:2");
    }

    #[test]
    fn lints_must_be_inherited() {
        assert_eq!(check_member("crates/x/Cargo.toml", "[package]\nname = \"x\"\n").len(), 1);
    }

    #[test]
    fn a_file_of_tests_that_nobody_names_is_found() {
        let check = |all: &str| {
            let files = [("crates/x/tests/all.rs", all), ("crates/x/tests/a.rs", "")];
            check_tests(&Tree::of(&[&files[..], &[("crates/x/tests/b/c.rs", "")]].concat()))
        };
        assert_eq!(check("mod a;\n"), []);
        assert_eq!(check("mod aa;\n")[0].place, "crates/x/tests/a.rs");
        assert_eq!(check_tests(&Tree::of(&[("crates/x/tests/a.rs", "")])), []);
    }

    #[test]
    fn dependencies_and_their_reasons_match_both_ways() {
        let manifest = "[workspace.dependencies]\nsrd = { path = \"x\" }\nlibc = \"0.2\"\n";
        let document = |list: &str| format!("# A\n## Dependencies\n{list}\n## Next\n* `x`: y\n");
        let check = |list: &str| {
            let document = document(list);
            check_justified(&Tree::of(&[(ROOT_MANIFEST, manifest), (ARCHITECTURE, &document)]))
        };
        assert_eq!(check("* `libc`: sockets\n"), []);
        assert_eq!(check("").len(), 1);
        assert_eq!(check("* `libc`: sockets\n* `rand`: dice\n").len(), 1);
    }
}
