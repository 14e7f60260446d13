//! docs/SIMULATOR.md names every field of scenario files with the range that the code allows.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Returns the range of "Bounded<1, 60_000>" in words: "1 to 60000".
fn range_of(kind: &str, aliases: &BTreeMap<String, String>) -> Option<String> {
    let name = kind.rsplit(['<', ' ']).find_map(|word| aliases.get(word.trim_end_matches('>')));
    let bounds = match kind.split_once("Bounded<") {
        Some((_, bounds)) => bounds,
        None => name?.strip_prefix("Bounded<")?,
    };
    let (least, most) = bounds.split_once('>')?.0.split_once(", ")?;
    Some(format!("{least} to {most}").replace('_', ""))
}

/// Returns the fields of the structs that are read from scenario files, with their types.
fn fields(source: &str) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut reading = false;
    let mut skipped = false;
    for line in source.lines() {
        let skip = std::mem::replace(&mut skipped, line.trim() == "#[serde(skip)]");
        if line.starts_with("#[derive(") {
            reading = line.contains("Deserialize");
        } else if line == "}" {
            reading = false;
        }
        let field = line.strip_prefix("    ").filter(|_| reading && !skip && !line.contains("//"));
        let field = field.map(|field| field.trim_start_matches("pub(crate) "));
        let field = field.map(|field| field.trim_start_matches("pub(super) "));
        let named = field.and_then(|field| field.strip_suffix(',')?.split_once(": "));
        let plain = |name: &str| name.chars().all(|c| c.is_ascii_lowercase() || "_23".contains(c));
        fields.extend(
            named.filter(|(name, _)| plain(name)).map(|(n, k)| (n.to_owned(), k.to_owned())),
        );
    }
    fields
}

#[test]
fn every_field_is_described_with_its_range() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/scenario");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let source: String = files.map(|path| fs::read_to_string(path).unwrap()).collect();
    let alias = |line: &str| {
        let (name, kind) = line.split_once("type ")?.1.strip_suffix(';')?.split_once(" = ")?;
        Some((name.to_owned(), kind.to_owned()))
    };
    let aliases: BTreeMap<String, String> = source.lines().filter_map(alias).collect();
    assert!(aliases.contains_key("TransferBytes"), "{aliases:?}");
    // An item of a list goes on in lines that are indented.
    let manual = read("../../../docs/SIMULATOR.md").replace(',', "").replace("\n  ", " ");
    let fields = fields(&source);
    assert!(fields.len() > 50, "{fields:?}");
    let mut missing = Vec::new();
    for (name, kind) in fields {
        let names = [format!("* `{name}`:"), format!("[{name}"), format!(".{name}]")];
        let rows: Vec<&str> =
            manual.lines().filter(|line| names.iter().any(|name| line.contains(name))).collect();
        let range = range_of(&kind, &aliases);
        let described = match &range {
            Some(range) => rows.iter().any(|row| row.contains(range.as_str())),
            None => !rows.is_empty(),
        };
        if !described {
            missing.push(format!("{name}: {}", range.unwrap_or(kind)));
        }
    }
    assert!(missing.is_empty(), "docs/SIMULATOR.md does not describe {missing:#?}");
}
