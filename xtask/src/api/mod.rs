//! The public items of a published crate, compared with those on record: `cargo xtask api`.
//!
//! This stands in for cargo-semver-checks, which compares with a version that was published before.
//! It reads the sources, so it needs neither another compiler nor a network. It does not see
//! properties that no item states: whether a type is `Send`, and how large it is.

mod names;
mod public_items;
mod signature;
mod sources;

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use sources::Sources;

/// Sources of the crate that is published.
const SOURCES: &str = "crates/device/srd/src";
const RECORD: &str = "crates/device/srd/api.txt";
const NAME: &str = "srd";
/// Environment variable that is set to record what there is.
const BLESS: &str = "SRD_BLESS";

/// Compares the public items of `srd` with the recorded ones, or records them.
pub(crate) fn check(root: &Path) -> Result<()> {
    let now = public_items::of(NAME, &Sources::read(&root.join(SOURCES))?)?;
    let file = root.join(RECORD);
    if env::var_os(BLESS).is_some() {
        let text: String = now.iter().map(|line| format!("{line}\n")).collect();
        return fs::write(file, text).with_context(|| format!("writing {RECORD}"));
    }
    let text = fs::read_to_string(file).with_context(|| format!("reading {RECORD}"))?;
    let recorded: Vec<&str> = text.lines().collect();
    let changes = difference(&recorded, &now);
    ensure!(
        changes.is_empty(),
        "the public API of {NAME} is not the recorded one:\n{changes}\
         to record it, if that is meant: {BLESS}=1 cargo xtask api"
    );
    println!("api: {} public items of {NAME}, as recorded", now.len());
    Ok(())
}

/// Returns lines that are gone, and lines that are new.
fn difference(recorded: &[&str], now: &[String]) -> String {
    let gone = recorded.iter().filter(|line| !now.iter().any(|own| own == *line));
    let new = now.iter().filter(|line| !recorded.contains(&line.as_str()));
    let gone = gone.map(|line| format!("- {line}\n"));
    gone.chain(new.map(|line| format!("+ {line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test does the same as `cargo xtask api`.
    #[test]
    fn the_public_api_of_srd_is_the_recorded_one() {
        if let Err(error) = check(&crate::root()) {
            panic!("{error:#}");
        }
    }

    #[test]
    fn a_difference_names_what_is_gone_and_what_is_new() {
        let now = ["a", "c"].map(str::to_owned);
        assert_eq!(difference(&["a", "b"], &now), "- b\n+ c\n");
        assert_eq!(difference(&["a", "c"], &now), "");
    }
}
