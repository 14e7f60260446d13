//! Rules of the protocol: each is written down once, and what code cites exists.

use std::collections::BTreeMap;

use super::Finding;
use super::tree::Tree;

const PROTOCOL: &str = "docs/PROTOCOL.md";
/// Marks of the chapters' rules, in halves, or this file would cite. A letter before one makes it
/// part of another word.
const MARKS: [&str; 3] = [concat!("SRD", "-"), concat!("CM", "-"), concat!("RC", "-")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let text = tree.text(PROTOCOL).unwrap_or_default();
    let mut findings = Vec::new();
    let mut defined: BTreeMap<&str, usize> = BTreeMap::new();
    for (line, rule) in (1..).zip(text.lines()).filter_map(|(n, l)| Some((n, definition(l)?))) {
        if let Some(first) = defined.insert(rule, line) {
            let what = format!("{rule} is already defined in line {first}");
            findings.push(Finding::at(PROTOCOL, line, what));
        }
    }
    for file in tree.files().filter(|file| file.path != PROTOCOL) {
        for (line, text) in (1..).zip(file.text.lines()) {
            for rule in citations(text).filter(|rule| !defined.contains_key(rule)) {
                let what = format!("cites {rule}, which {PROTOCOL} does not define");
                findings.push(Finding::at(&file.path, line, what));
            }
        }
    }
    findings
}

/// Returns every citation in the line.
fn citations(line: &str) -> impl Iterator<Item = &str> {
    let marks = MARKS.iter().flat_map(|mark| line.match_indices(*mark));
    let words = marks.filter(|(at, _)| !line[..*at].ends_with(|c: char| c.is_ascii_alphanumeric()));
    words.filter_map(|(at, mark)| rule(&line[at..], mark))
}

/// Returns the rule a line defines: it stands first, behind nothing but list and emphasis marks.
fn definition(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(|c: char| " #*-|`".contains(c));
    MARKS.iter().find_map(|mark| rule(line, mark))
}

/// Returns the mark and its `n.m` at the start of `text`; plain `n` (a chapter) is no rule.
fn rule<'a>(text: &'a str, mark: &str) -> Option<&'a str> {
    let number = text.strip_prefix(mark)?;
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let major = digits(number);
    let minor = digits(number[major..].strip_prefix('.')?);
    (major > 0 && minor > 0).then(|| &text[..mark.len() + major + 1 + minor])
}

#[cfg(test)]
mod tests {
    use super::*;

    const MARK: &str = MARKS[0];

    fn cite(number: &str) -> String {
        format!("// see {MARK}{number}.")
    }

    fn check_with(protocol: &str, code: &str) -> Vec<Finding> {
        check(&Tree::of(&[(PROTOCOL, protocol), ("crates/device/srd/src/a.rs", code)]))
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
    fn each_mark_has_rules_of_its_own() {
        let (other, protocol) = (MARKS[1], format!("{MARK}1.2 A rule.\n"));
        assert_eq!(check_with(&protocol, &format!("// {other}1.2")).len(), 1);
        assert_eq!(check_with(&protocol, &format!("// AES-256-G{other}1.2")), [], "another word");
        let both = format!("{protocol}{other}1.2 Another.\n");
        assert_eq!(check_with(&both, &format!("// {other}1.2")), []);
    }

    #[test]
    fn rule_is_defined_once() {
        let protocol = format!("{MARK}1.2 A.\n{MARK}1.2 B.\n");
        assert_eq!(check_with(&protocol, "").len(), 1);
    }
}
