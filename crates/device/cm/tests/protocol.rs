//! The numbered rules of `docs/PROTOCOL.md` and their citations belong together.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const MARK: &str = concat!("CM", "-");

/// Every `n.m` behind the mark.
fn rules_in(text: &str) -> impl Iterator<Item = String> {
    text.split(MARK).skip(1).filter_map(|behind| {
        let is_number = |c: &char| c.is_ascii_digit() || *c == '.';
        let number: String = behind.chars().take_while(is_number).collect();
        let number = number.trim_end_matches('.');
        number.contains('.').then(|| number.to_owned())
    })
}

fn cited_in(folder: &Path) -> BTreeSet<String> {
    let mut cited = BTreeSet::new();
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable entry").path();
        if path.is_dir() {
            cited.extend(cited_in(&path));
        } else {
            cited.extend(rules_in(&fs::read_to_string(&path).expect("source text")));
        }
    }
    cited
}

#[test]
fn every_rule_is_cited_and_every_citation_is_a_rule() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("../../../docs/PROTOCOL.md")).expect("the rules");
    let definitions = text.lines().filter_map(|line| line.strip_prefix("**")?.split("**").next());
    let rules: BTreeSet<String> = definitions.flat_map(rules_in).collect();
    let mut cited = cited_in(&root.join("src"));
    cited.extend(cited_in(&root.join("tests")));
    let unknown: Vec<_> = cited.difference(&rules).collect();
    assert!(unknown.is_empty(), "cited, but no such rule: {unknown:?}");
    let forgotten: Vec<_> = rules.difference(&cited).collect();
    assert!(forgotten.is_empty(), "rules that no code or test cites: {forgotten:?}");
}
