//! Rules of the protocol: each is written down once, and what code cites exists.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

const PROTOCOL: &str = "docs/PROTOCOL.md";
const MARK: &str = concat!("SRD", "-");

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(PROTOCOL).unwrap_or_default();
    let mut findings = Vec::new();
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, number) in (1..).zip(text.lines()).filter_map(|(n, l)| Some((n, definition(l)?))) {
        if let Some(first) = defined.insert(number, line) {
            let what = format!("{MARK}{number} is already defined in line {first}");
            findings.push(Finding::at(PROTOCOL, line, what));
        }
    }
    for file in tree.files().filter(|file| file.path != PROTOCOL) {
        for (line, text) in (1..).zip(file.text.lines()) {
            for number in citations(text).filter(|number| !defined.contains_key(number)) {
                let what = format!("cites {MARK}{number}, which {PROTOCOL} does not define");
                findings.push(Finding::at(&file.path, line, what));
            }
        }
    }
    findings
}

/// `n.m` of every citation in the line.
fn citations(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(MARK).filter_map(|(at, _)| rule_number(&line[at + MARK.len()..]))
}

/// The rule a line defines: it stands first, behind nothing but list and emphasis marks.
fn definition(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| " #*-|`".contains(c));
    line.strip_prefix(MARK).and_then(rule_number)
}

/// `n.m` at the start of `text`; plain `n` (a chapter) is no rule.
fn rule_number(text: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let major = digits(text);
    let minor = digits(text[major..].strip_prefix('.')?);
    (major > 0 && minor > 0).then(|| &text[..major + 1 + minor])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cite(number: &str) -> String {
        format!("// see {MARK}{number}.")
    }

    fn check_with(protocol: &str, code: &str) -> Vec<Finding> {
        check(&Tree::of(&[(PROTOCOL, protocol), ("crates/srd/src/a.rs", code)]))
    }

    #[test]
    fn citation_must_be_defined() {
        let protocol = format!("# P\n* **{MARK}1.2** A rule, see {MARK}9.9.\n");
        assert_eq!(check_with(&protocol, &cite("1.2")), []);
        assert_eq!(check_with(&protocol, &cite("1.20")).len(), 1);
        assert_eq!(check_with(&protocol, &cite("9.9")).len(), 1, "mentioned is not defined");
        assert_eq!(check_with(&protocol, &cite("3")), [], "a chapter is no rule");
    }

    #[test]
    fn rule_is_defined_once() {
        let protocol = format!("{MARK}1.2 A.\n{MARK}1.2 B.\n");
        assert_eq!(check_with(&protocol, "").len(), 1);
    }
}
