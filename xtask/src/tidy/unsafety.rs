//! Which crates may hold `unsafe` at all.

use super::Finding;
use super::tree::Tree;

/// Roots of the crates without a single exception.
const FORBID: [&str; 14] = [
    "crates/cm/src/lib.rs",
    "crates/rc/src/lib.rs",
    "crates/srd/src/lib.rs",
    "crates/bench-engine/src/lib.rs",
    "crates/bench-record/src/lib.rs",
    "crates/bench-report/src/lib.rs",
    "crates/efa-bench/src/main.rs",
    "crates/efa-bench/src/lib.rs",
    "crates/fire/src/main.rs",
    "crates/report/src/lib.rs",
    "crates/netsim/src/lib.rs",
    "crates/netsim/src/main.rs",
    "crates/softefa-cli/src/main.rs",
    "xtask/src/main.rs",
];
/// Roots of the crates where single modules ask for it by name.
const DENY: [&str; 2] = ["crates/softefa/src/lib.rs", "bench/src/main.rs"];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let must = |path: &&'static str, level: &str| {
        let attribute = format!("#![{level}(unsafe_code)]");
        let text = tree.text(path)?;
        let present = text.lines().any(|line| line == attribute);
        (!present).then(|| Finding::new(*path, format!("{attribute} is missing")))
    };
    let forbid = FORBID.iter().filter_map(|path| must(path, "forbid"));
    let deny = DENY.iter().filter_map(|path| must(path, "deny"));
    forbid.chain(deny).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_attribute_is_found() {
        let root = "crates/srd/src/lib.rs";
        assert_eq!(check(&Tree::of(&[(root, "#![forbid(unsafe_code)]\n")])), []);
        assert_eq!(check(&Tree::of(&[(root, "// #![forbid(unsafe_code)]\n")])).len(), 1);
        assert_eq!(check(&Tree::of(&[(root, "#![deny(unsafe_code)]\n")])).len(), 1);
    }
}
