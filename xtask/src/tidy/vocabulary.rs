//! Words that the code has given up, because they puzzled readers, each with its replacement.

use super::Finding;
use super::source;
use super::tree::{SourceFile, Tree};
use crate::markdown;

/// A word of the code that is not used any more.
struct Retired {
    /// Word as a whole name; one that ends with a parenthesis is a call or a definition.
    word: &'static str,
    instead: &'static str,
}

const fn retired(word: &'static str, instead: &'static str) -> Retired {
    Retired { word, instead }
}

const WORDS: [Retired; 36] = [
    retired("Option<Option<", "an enum whose variants say what is missing"),
    retired("Wish", "Request, with what is asked for: QpRequest"),
    retired("Way", "what it leads through: Interface, Path, Route, Method"),
    retired("Place", "what it is the place of: Location, BitRange, Bucket, Layout"),
    retired("Board", "what is written on it: Roster, Rendezvous"),
    retired("Leash", "Lifeline, or the connection that it is"),
    retired("Keeper", "what it keeps: Owner, Supervisor"),
    retired("Beside", "what it is for: Reference, Counters"),
    retired("Driven", "QpInner"),
    retired("Session", "whose session it is: PostSession, BenchSession; or Launcher, Connection"),
    retired("Row", "what stands in it: Measurement, Comparison, DeviceRates"),
    retired("Said", "Reply, Message, Line"),
    retired("Came", "Incoming, Arrival"),
    retired("Asked", "Request"),
    retired("Wanted", "Bound, Request"),
    retired("no_doubts", "no_host_checks"),
    retired("sound(", "a verb: check(), catch_panic()"),
    retired("cannot(", "what it answers: refusal(), obstacle()"),
    retired("Door", "ProgramListener, RingListener"),
    retired("Doorstep", "RingConnection"),
    retired("Entrance", "Acceptor, Acceptance"),
    retired("Asker", "RequesterKey"),
    retired("SeatKind", "SocketKind"),
    retired("StandIn", "FallbackAgent"),
    retired("Farewell", "PendingDisconnect"),
    retired("Ward", "State"),
    retired("Station", "WaitPoint"),
    retired("Blame", "Cause"),
    retired("Unseen", "UnpolledWrites"),
    retired("Dozing", "LightlyAsleep"),
    retired("is_picky", "is_solicited_only"),
    retired("is_worth_a_moment", "decide_extra_poll"),
    retired("stays_awake", "keep_awake"),
    retired("look_everywhere", "poll_everything"),
    retired("say_of(", "write_trace_of()"),
    retired("say_farewell(", "close_device()"),
];

/// File that is exempt: a description of past releases stays as it was written.
const HISTORY: &str = "CHANGELOG.md";
/// File of the words themselves.
const THIS_FILE: &str = "xtask/src/tidy/vocabulary.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let is_checked = |file: &&SourceFile| ![HISTORY, THIS_FILE].contains(&file.path.as_str());
    tree.files().filter(is_checked).flat_map(check_file).collect()
}

fn check_file(file: &SourceFile) -> Vec<Finding> {
    let code = match file.path.rsplit_once('.') {
        Some((_, "rs")) => code_of_rust(&file.text),
        Some((_, "md")) => markdown::code(&file.text),
        _ => Vec::new(),
    };
    let mut findings = Vec::new();
    for (number, code) in code {
        for Retired { word, instead } in WORDS {
            if names(&code, word) {
                let what = format!("`{word}` is a word that was given up; say {instead}");
                findings.push(Finding::at(&file.path, number, what));
            }
        }
    }
    findings
}

/// Returns code and the code that comments quote.
fn code_of_rust(text: &str) -> Vec<(usize, String)> {
    let lines = (1..).zip(text.lines());
    let code = lines.map(|(number, line)| {
        let (mut code, comment) = source::split(line);
        for quoted in markdown::quoted(comment) {
            code.push(' ');
            code.push_str(quoted);
        }
        (number, code)
    });
    code.collect()
}

/// Returns whether `word` occurs in `code` for itself, not as a part of a longer name.
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

    fn found_in(path: &str, text: &str) -> Vec<String> {
        let found = check(&Tree::of(&[(path, text)]));
        found.iter().map(ToString::to_string).collect()
    }

    fn found(text: &str) -> Vec<String> {
        found_in("crates/device/cm/src/a.rs", text)
    }

    #[test]
    fn a_retired_word_is_named_with_its_place_and_what_to_say_instead() {
        let one = found("fn a() {}\nenum Way {}\n");
        assert_eq!(one.len(), 1);
        let expected = "crates/device/cm/src/a.rs:2: `Way` is a word that was given up; say what it leads through";
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
    fn what_a_comment_quotes_is_code() {
        assert_eq!(found("/// Like a [`Way`], or `other::Wish`.\n").len(), 2);
        assert_eq!(found("let a = 1; // of `b`, Way and `c`\n"), [""; 0]);
    }

    #[test]
    fn tests_and_documents_are_read_and_the_change_log_is_not() {
        assert_eq!(found_in("crates/device/cm/tests/a.rs", "enum Place {}\n").len(), 1);
        let page = "Place it here, Way.\n\nA `Place` is:\n\n```rust\nlet a: Place; // Way\n```\n";
        assert_eq!(found_in("docs/A.md", page).len(), 2);
        assert_eq!(found_in("docs/A.md", "```console\n$ ls\nPlace\n```\n"), [""; 0]);
        assert_eq!(found_in("CHANGELOG.md", page), [""; 0]);
        assert_eq!(found_in("a.txt", page), [""; 0]);
    }
}
