//! Comments and prose are at most 100 columns wide.

use super::Finding;
use super::source;
use super::tree::{SourceFile, Tree};
use crate::markdown;

const COLUMNS: usize = 100;
/// File that is exempt: a description of past releases stays as it was written.
const HISTORY: &str = "CHANGELOG.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_checked =
        |file: &&SourceFile| file.is_rust() || (file.path.ends_with(".md") && file.path != HISTORY);
    tree.files().filter(is_checked).flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let mut is_code = Code::default();
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(file.text.lines()) {
        let words = if file.is_rust() { comment(line) } else { Some(line) };
        let Some(words) = words else {
            is_code = Code::default();
            continue;
        };
        let width = line.chars().count();
        if !is_code.next(words) && width > COLUMNS && !is_table(words) && can_break(words) {
            let what = format!("{width} columns, more than {COLUMNS}: break the line");
            findings.push(Finding::at(&file.path, number, what));
        }
    }
    findings
}

/// Returns the words of a line's comment, without its mark.
fn comment(line: &str) -> Option<&str> {
    let (code, comment) = source::split(line);
    // A comment behind code stands apart from it: a scheme in a string of several lines does not.
    let is_comment = code.trim().is_empty() || code.ends_with(' ');
    let words = comment.strip_prefix("//").filter(|_| is_comment)?;
    let words = words.strip_prefix(['/', '!']).unwrap_or(words);
    Some(words.strip_prefix(' ').unwrap_or(words))
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// A reader that tells code of Markdown from its prose, line by line.
struct Code {
    is_fenced: bool,
    /// Whether the line before was blank, or code because it was indented: code may go on.
    may_be_indented: bool,
}

impl Default for Code {
    fn default() -> Self {
        Self { is_fenced: false, may_be_indented: true }
    }
}

impl Code {
    /// Returns whether the next line is code.
    fn next(&mut self, line: &str) -> bool {
        let is_fence = markdown::is_fence(line);
        self.is_fenced ^= is_fence;
        let is_indented = self.may_be_indented && line.starts_with("    ");
        self.may_be_indented = is_indented || line.trim().is_empty();
        self.is_fenced || is_fence || is_indented
    }
}

/// Returns whether a line has a space outside links and code at which it can be broken.
fn can_break(line: &str) -> bool {
    let item = line.trim_start();
    let item = item.strip_prefix("* ").or_else(|| item.strip_prefix("- ")).unwrap_or(item);
    let mut rest = item.trim();
    while let Some(next) = rest.chars().next() {
        if next == ' ' {
            return true;
        }
        rest = &rest[whole(rest).unwrap_or_else(|| next.len_utf8())..];
    }
    false
}

/// Returns the length in bytes of the code or the link that `text` begins with.
fn whole(text: &str) -> Option<usize> {
    if let Some(code) = text.strip_prefix('`') {
        return Some(code.find('`')? + 2);
    }
    let target = text.starts_with('[').then(|| text.find("]("))??;
    Some(target + text[target..].find(')')? + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        check_file(&file).iter().map(ToString::to_string).collect()
    }

    /// Returns words of that many columns.
    fn wide(columns: usize) -> String {
        "word ".repeat(columns)[..columns - 1].to_owned() + "."
    }

    #[test]
    fn a_comment_fits_into_100_columns() {
        for mark in ["//", "///", "//!", "    //", "let a = 1; //"] {
            let wide = |columns: usize| {
                format!("fn a() {{}}\n{mark} {}\n", wide(columns - 1 - mark.len()))
            };
            assert_eq!(found("src/a.rs", &wide(100)), [""; 0], "{mark}");
            let expected = "src/a.rs:2: 101 columns, more than 100: break the line";
            assert_eq!(found("src/a.rs", &wide(101)), [expected], "{mark}");
        }
    }

    #[test]
    fn prose_fits_into_100_columns() {
        assert_eq!(found("docs/A.md", &wide(100)), [""; 0]);
        assert_eq!(found("docs/A.md", &wide(101)).len(), 1);
        assert_eq!(found("docs/A.md", &format!("* one\n* {}\n", wide(99))).len(), 1);
        let letters = format!("µ {}", wide(98));
        assert_eq!(found("docs/A.md", &letters), [""; 0], "columns are no bytes");
    }

    #[test]
    fn code_and_tables_may_be_wider() {
        let wide = wide(120);
        let code = format!("```text\n{wide}\n```\n\n    {wide}\n    {wide}\n| {wide} |\n");
        assert_eq!(found("docs/A.md", &code), [""; 0]);
        let comment: String = code.lines().map(|line| format!("/// {line}\n")).collect();
        assert_eq!(found("src/a.rs", &comment), [""; 0]);
        assert_eq!(found("src/a.rs", &format!("let a = \"{wide} // {wide}\";\n")), [""; 0]);
        assert_eq!(found("docs/A.md", &format!("```\n```\n{wide}\n")).len(), 1);
        assert_eq!(found("docs/A.md", &format!("1. a\n    {wide}\n")).len(), 1);
        let open = format!("/// ```text\nfn a() {{}}\n/// {wide}\n");
        assert_eq!(found("src/a.rs", &open).len(), 1, "a comment ends with its block");
    }

    #[test]
    fn what_cannot_be_broken_may_be_wider() {
        let long = "x".repeat(100);
        for alone in
            [format!("![a picture]({long})"), format!("* `a {long}`."), format!("https://{long}")]
        {
            assert_eq!(found("docs/A.md", &alone), [""; 0]);
            assert_eq!(found("docs/A.md", &format!("{alone} more")).len(), 1, "{alone}");
        }
        assert_eq!(found("docs/A.md", &format!("see [a page]({long})")).len(), 1);
        assert_eq!(found("docs/A.md", &format!("`no end {long}")).len(), 1);
    }
}
