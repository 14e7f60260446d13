//! Words that the code has given up, because they puzzled readers, each with what to say instead.

use super::Finding;
use super::source;
use super::tree::{SourceFile, Tree};

/// A word of the code that is not used any more.
struct Retired {
    /// A whole name; what ends with a parenthesis is a call or a definition.
    word: &'static str,
    instead: &'static str,
}

const fn retired(word: &'static str, instead: &'static str) -> Retired {
    Retired { word, instead }
}

const WORDS: [Retired; 12] = [
    retired("Option<Option<", "an enum whose variants say what is missing"),
    retired("Wish", "Request, with what is asked for: QpRequest"),
    retired("Way", "what it leads through: Interface, Path, Route, Method"),
    retired("Place", "what it is the place of: Location, BitRange, Bucket, Layout"),
    retired("Board", "what is written on it: Roster, Rendezvous"),
    retired("Leash", "Lifeline, or the connection that it is"),
    retired("Keeper", "what it keeps: Owner, Supervisor"),
    retired("Beside", "what it is for: Reference, Counters"),
    retired("Driven", "QpInner"),
    retired("no_doubts", "no_host_checks"),
    retired("sound(", "a verb: check(), catch_panic()"),
    retired("cannot(", "what it answers: refusal(), obstacle()"),
];

/// What is clean of them; the others follow.
const CLEAN: [&str; 24] = [
    "bench/",
    "crates/bench-engine/",
    "crates/bench-record/",
    "crates/bench-report/",
    "crates/cm/",
    "crates/efa-bench/",
    "crates/fabric-sys/",
    "crates/fabric/",
    "crates/fire/",
    "crates/manual/",
    "crates/netsim/",
    "crates/pmix/",
    "crates/published/",
    "crates/rc/",
    "crates/report/",
    "crates/softefa-cli/",
    "crates/softefa-verbs/",
    "crates/softefa/src/",
    "crates/srd/",
    "crates/verbs-abi/",
    "crates/verbs/",
    "fuzz/",
    "loom/",
    "xtask/",
];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_checked = |file: &&SourceFile| {
        file.is_rust() && CLEAN.iter().any(|folder| file.path.starts_with(folder))
    };
    tree.files().filter(is_checked).flat_map(|file| check_file(&file.path, &file.text)).collect()
}

fn check_file(path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let (code, _) = source::split(line);
        for Retired { word, instead } in WORDS {
            if names(&code, word) {
                let what = format!("`{word}` is a word that was given up; say {instead}");
                findings.push(Finding::at(path, number, what));
            }
        }
    }
    findings
}

/// Whether `word` stands in `code` for itself, not as a part of a longer name.
fn names(code: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_open = !word.ends_with(is_part);
    code.match_indices(word).any(|(at, _)| {
        let follows = code[at + word.len()..].chars().next().is_some_and(is_part);
        !code[..at].ends_with(is_part) && (is_open || !follows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let findings = check_file("crates/cm/src/a.rs", text);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_retired_word_is_named_with_its_place_and_what_to_say_instead() {
        let one = found("fn a() {}\nenum Way {}\n");
        assert_eq!(one.len(), 1);
        let expected =
            "crates/cm/src/a.rs:2: `Way` is a word that was given up; say what it leads through";
        assert!(one[0].starts_with(expected), "{one:?}");
        assert_eq!(found("let a = self.cannot(b);\nfn sound(c: C) {}\n").len(), 2);
        assert_eq!(found("fn a() -> Option<Option<B>> {}\n").len(), 1);
    }

    #[test]
    fn longer_names_comments_and_strings_are_left_alone() {
        let fine = "struct Gateway(WayIn);\n// Place it here.\nlet a = \"Way, \\\" Place\"; // Wish\n\
                    fn is_sound(a: A) {}\nlet cannot = 1;\n/// Beside the program.\n";
        assert_eq!(found(fine), [""; 0]);
        assert_eq!(found("let a = \"x\"; let b: Way = c;\n").len(), 1);
        assert_eq!(found("if a == '\"' { Way::B }\n").len(), 1);
    }

    #[test]
    fn only_what_is_clean_is_checked() {
        let files =
            [("crates/another/src/a.rs", "enum Place {}"), ("crates/cm/src/a.rs", "enum Place {}")];
        let found = check(&Tree::of(&files));
        assert_eq!(found.len(), 1);
    }
}
