//! Doc comments are sentences: each begins with a capital and ends with a full stop, for itself
//! alone.

use super::Finding;
use super::tree::{SourceFile, Tree};

/// Crates whose doc comments keep the rule.
const CLEAN: [&str; 23] = [
    "crates/bench/bench-engine",
    "crates/bench/bench-floor",
    "crates/bench/bench-record",
    "crates/bench/bench-report",
    "crates/device/cm",
    "crates/bench/efa-bench",
    "crates/ffi/fabric",
    "crates/ffi/fabric-sys",
    "crates/device/fire",
    "crates/support/manual",
    "crates/support/nested-cargo",
    "crates/sim/netsim",
    "crates/ffi/pmix",
    "crates/support/published",
    "crates/device/rc",
    "crates/support/report",
    "crates/device/softefa",
    "crates/device/softefa-cli",
    "crates/device/softefa-verbs",
    "crates/device/srd",
    "crates/ffi/verbs",
    "crates/ffi/verbs-abi",
    "xtask",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_checked = |file: &&SourceFile| {
        file.is_rust()
            && CLEAN.iter().any(|folder| file.path.starts_with(&format!("{folder}/src/")))
    };
    tree.files().filter(is_checked).flat_map(|file| check_file(&file.path, &file.text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let findings = summaries(text).into_iter().filter_map(|(line, summary)| {
        let what = fault(&summary)?;
        Some(Finding::at(path, line, format!("a doc comment {what}: {summary}")))
    });
    findings.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check_file("crates/device/srd/src/a.rs", text).len()
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
    fn plain_comments_are_no_documentation() {
        assert_eq!(faults("// because\nlet a = 1; // so\n"), 0);
    }
}
