//! Rules on single files: length, leftovers, paths of one machine.

use super::Finding;
use super::tree::SourceFile;

/// Maximum number of lines of a file outside `#[cfg(test)]` items.
const MAX_PRODUCTION_LINES: usize = 600;

/// Words that must not stay in code. Spelt in halves, or this file would break its own rule.
const LEFTOVERS: [&str; 6] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("unimple", "mented!("),
    concat!("#[ig", "nore"),
    concat!("dbg", "!("),
];

/// Paths that exist on one machine or outside the repository only.
const FOREIGN_PATHS: [&str; 2] = [concat!("../sha", "red"), concat!("/work", "/")];

pub(super) fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    if file.is_rust() && !file.is_test() {
        findings.extend(check_length(file));
    }
    for (line, text) in (1..).zip(file.text.lines()) {
        for path in FOREIGN_PATHS {
            if text.contains(path) {
                findings.push(Finding::at(&file.path, line, format!("names {path}, outside here")));
            }
        }
        for word in LEFTOVERS {
            if is_code(file) && contains_word(text, word) {
                let what = format!("{word}: finish it, or open an issue and leave it out");
                findings.push(Finding::at(&file.path, line, what));
            }
        }
    }
    findings
}

/// Returns whether a file is code; prose (change log, documents) may speak of such words.
fn is_code(file: &SourceFile) -> bool {
    let code = [".rs", ".c", ".h", ".toml", ".sh", ".lua"];
    code.iter().any(|end| file.path.ends_with(end))
        || ["Makefile", ".ci/run"].contains(&file.path.as_str())
}

/// Returns whether `word` occurs without a letter before it: neither a longer name nor a part of
/// one.
fn contains_word(text: &str, word: &str) -> bool {
    text.match_indices(word)
        .any(|(at, _)| !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_'))
}

fn check_length(file: &SourceFile) -> Option<Finding> {
    let lines = production_lines(&file.text);
    (lines > MAX_PRODUCTION_LINES).then(|| {
        let what = format!(
            "{lines} production lines, more than {MAX_PRODUCTION_LINES}: one noun per file, split it"
        );
        Finding::new(&file.path, what)
    })
}

/// Counts lines outside `#[cfg(test)]` items. Relies on rustfmt: an item ends at a closing brace
/// that is indented like its attribute.
fn production_lines(text: &str) -> usize {
    let mut count = 0;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.trim() != "#[cfg(test)]" {
            count += 1;
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indent));
        let item = lines.by_ref().find(|line| !line.trim_start().starts_with("#["));
        let one_line = item.is_some_and(|item| item.ends_with(';') || item.ends_with('}'));
        if !one_line {
            lines.by_ref().find(|line| *line == close);
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), text: text.into() }
    }

    #[test]
    fn test_items_do_not_count() {
        let text = "fn a() {\n}\n#[cfg(test)]\nmod tests {\n    fn b() {\n    }\n}\nfn c() {}\n";
        assert_eq!(production_lines(text), 3);
        assert_eq!(production_lines("#[cfg(test)]\nmod tests;\nfn c() {}\n"), 1);
        assert_eq!(production_lines("    #[cfg(test)]\n    fn x() {\n    }\nfn c() {}\n"), 1);
    }

    #[test]
    fn long_file_is_found_and_long_tests_are_not() {
        let long = "fn a() {}\n".repeat(601);
        assert_eq!(check(&file("crates/x/src/a.rs", &long)).len(), 1);
        assert_eq!(check(&file("crates/x/tests/a.rs", &long)).len(), 0);
        assert_eq!(check(&file("crates/x/src/a.rs", &long[10..])).len(), 0);
    }

    #[test]
    fn leftovers_are_found_in_code_only() {
        for word in LEFTOVERS {
            assert_eq!(check(&file("crates/x/src/a.rs", word)).len(), 1, "{word}");
            assert_eq!(check(&file("CHANGELOG.md", word)).len(), 0, "{word}");
            assert_eq!(check(&file("crates/x/src/a.rs", &format!("my_{word}"))).len(), 0, "{word}");
        }
    }

    #[test]
    fn foreign_paths_are_found_everywhere() {
        for path in FOREIGN_PATHS {
            assert_eq!(check(&file("docs/A.md", &format!("see {path}"))).len(), 1, "{path}");
        }
    }
}
