//! The numbered rules of `docs/PROTOCOL.md` and their citations belong together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Every `SRD-n.m` in `text`.
fn citations(text: &str, found: &mut BTreeSet<String>) {
    for (at, _) in text.match_indices("SRD-") {
        let number: String =
            text[at + 4..].chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let number = number.trim_end_matches('.');
        if number.contains('.') {
            found.insert(number.to_owned());
        }
    }
}

fn cited_below(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            cited_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            citations(&fs::read_to_string(&path).expect("source text"), found);
        }
    }
}

#[test]
fn rules_and_citations_match() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../../docs/PROTOCOL.md")).expect("the rules");
    let mut rules = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with("**SRD-")) {
        citations(line.split("** ").next().unwrap_or(""), &mut rules);
    }
    let mut cited = BTreeSet::new();
    cited_below(&root.join("src"), &mut cited);
    cited_below(&root.join("tests"), &mut cited);
    // The adapter above keeps the rules of section 10.
    cited_below(&root.join("../softefa/src"), &mut cited);
    let unknown: Vec<_> = cited.difference(&rules).collect();
    assert!(unknown.is_empty(), "cited, but no such rule: {unknown:?}");
    let forgotten: Vec<_> = rules.difference(&cited).collect();
    assert!(forgotten.is_empty(), "rules that no code or test cites: {forgotten:?}");
}
