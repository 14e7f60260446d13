//! Doc comments are sentences: each begins with a capital and ends with a full stop, for itself
//! alone. In the folders of the stricter rule its first word names the thing or the action.

use super::Finding;
use super::tree::Tree;

/// Folders whose doc comments keep the stricter rule too, those of tests included.
const STRICT: [&str; 11] = [
    "crates/ffi/fabric",
    "crates/ffi/fabric-sys",
    "crates/ffi/pmix",
    "crates/ffi/verbs",
    "crates/ffi/verbs-abi",
    "crates/sim/netsim",
    "crates/support/manual",
    "crates/support/nested-cargo",
    "crates/support/published",
    "crates/support/report",
    "xtask",
];

/// First words of fragments that depend on the code below them, not of a sentence.
const FRAGMENTS: [&str; 10] =
    ["As", "Of", "Such", "That", "Those", "What", "Where", "Who", "Whoever", "Whom"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let rust = tree.files().filter(|file| file.is_rust());
    rust.flat_map(|file| check_file(&file.path, &file.text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let is_strict = STRICT.iter().any(|folder| is_below(path, folder));
    let findings = summaries(text).into_iter().filter_map(|(line, summary)| {
        let sentence = is_source(path).then(|| fault(&summary)).flatten();
        let what = sentence.or_else(|| is_strict.then(|| fragment(&summary)).flatten())?;
        Some(Finding::at(path, line, format!("a doc comment {what}: {summary}")))
    });
    findings.collect()
}

/// Returns whether a file belongs to the sources of a crate: `crates/*/*/src` or `xtask/src`.
fn is_source(path: &str) -> bool {
    let mut parts = path.split('/');
    match parts.next() {
        Some("crates") => parts.nth(2) == Some("src"),
        Some("xtask") => parts.next() == Some("src"),
        _ => false,
    }
}

/// Returns whether a file lies below a folder.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with('/'))
}

/// Returns the first paragraph of each doc comment, with its line.
fn summaries(text: &str) -> Vec<(usize, String)> {
    let mut summaries: Vec<(usize, String)> = Vec::new();
    let (mut inside, mut is_first) = ("", false);
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        let mark =
            ["///", "//!"].into_iter().find(|mark| line.starts_with(mark)).unwrap_or_default();
        let words = line[mark.len()..].trim();
        if mark != inside && !mark.is_empty() {
            summaries.push((number, words.to_owned()));
            is_first = true;
        } else if !mark.is_empty() {
            is_first &= !words.is_empty();
            if let Some((_, summary)) = summaries.last_mut().filter(|_| is_first) {
                *summary = format!("{summary} {words}");
            }
        }
        inside = mark;
    }
    summaries
}

/// Returns what is wrong with a paragraph.
fn fault(summary: &str) -> Option<&'static str> {
    if summary.starts_with(['*', '|', '#']) || summary.contains("```") {
        return None;
    }
    let begins_small = summary.trim_start_matches(['"', '(']).starts_with(char::is_lowercase);
    if begins_small {
        return Some("begins without a capital");
    }
    let ends = summary.trim_end_matches([')', '*', '_']).ends_with(['.', ':', '!', '?']);
    (!ends).then_some("ends without a full stop")
}

/// Returns what is wrong with the first word of a paragraph.
fn fragment(summary: &str) -> Option<&'static str> {
    let first = summary.split(|c: char| !c.is_alphanumeric()).next()?;
    FRAGMENTS.contains(&first).then_some("begins with a word that names neither thing nor action")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check_file("crates/device/srd/src/a.rs", text).len()
    }

    #[test]
    fn sources_are_checked_and_tests_are_not() {
        let checked = ["crates/device/srd/src/a.rs", "crates/bench/b/src/c/d.rs", "xtask/src/a.rs"];
        assert_eq!(checked.map(is_source), [true; 3]);
        let others = ["crates/device/srd/tests/a.rs", "xtask/tests/src/a.rs", "loom/src/lib.rs"];
        assert_eq!(others.map(is_source), [false; 3]);
    }

    #[test]
    fn an_item_is_a_sentence() {
        assert_eq!(faults("//! A crate.\n\n/// One (see [`B`]).\n/// Two.\nfn a() {}\n"), 0);
        assert_eq!(faults("/// `code` begins it.\n/// [`Link`] also.\n"), 0);
        assert_eq!(faults("/// Most of these,\nconst A: u8 = 1;\n/// and these.\n"), 2);
        assert_eq!(faults("/// No end\nfn a() {}\n"), 1);
    }

    #[test]
    fn only_the_first_paragraph_counts() {
        assert_eq!(faults("/// One.\n///\n/// * a list\n/// ```\n/// code\n"), 0);
        assert_eq!(faults("/// One\n///\n/// Two.\n"), 1);
        assert_eq!(faults("/// One\n/// and two.\n"), 0);
    }

    #[test]
    fn the_stricter_rule_refuses_fragments_in_its_folders_only() {
        let found = |path: &str, text: &str| check_file(path, text).len();
        assert_eq!(found("xtask/src/a.rs", "/// Of this machine.\n/// A part of it.\n"), 1);
        assert_eq!(found("xtask/src/a.rs", "/// A part.\n\n/// Offers a part.\n"), 0);
        assert_eq!(found("crates/ffi/verbs/tests/a.rs", "/// What it says.\n"), 1);
        assert_eq!(found("crates/ffi/verbs-b/tests/a.rs", "/// What it says.\n"), 0);
        assert_eq!(found("crates/device/srd/src/a.rs", "/// What it says.\n"), 0);
    }

    #[test]
    fn plain_comments_are_no_documentation() {
        assert_eq!(faults("// because\nlet a = 1; // so\n"), 0);
    }
}
