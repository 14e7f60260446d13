//! The crates that may hold `unsafe` at all.

use super::Finding;
use super::tree::Tree;

/// Roots of the crates without a single exception.
const FORBID: [&str; 14] = [
    "crates/device/cm/src/lib.rs",
    "crates/device/rc/src/lib.rs",
    "crates/device/srd/src/lib.rs",
    "crates/bench/bench-engine/src/lib.rs",
    "crates/bench/bench-record/src/lib.rs",
    "crates/bench/bench-report/src/lib.rs",
    "crates/bench/efa-bench/src/main.rs",
    "crates/bench/efa-bench/src/lib.rs",
    "crates/device/fire/src/main.rs",
    "crates/support/report/src/lib.rs",
    "crates/sim/netsim/src/lib.rs",
    "crates/sim/netsim/src/main.rs",
    "crates/device/softefa-cli/src/main.rs",
    "xtask/src/main.rs",
];
/// Roots of the crates where single modules ask for it by name.
const DENY: [&str; 2] = ["crates/device/softefa/src/lib.rs", "crates/bench/bench-floor/src/lib.rs"];

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
        let root = "crates/device/srd/src/lib.rs";
        assert_eq!(check(&Tree::of(&[(root, "#![forbid(unsafe_code)]\n")])), []);
        assert_eq!(check(&Tree::of(&[(root, "// #![forbid(unsafe_code)]\n")])).len(), 1);
        assert_eq!(check(&Tree::of(&[(root, "#![deny(unsafe_code)]\n")])).len(), 1);
    }
}
