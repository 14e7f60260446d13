#![doc = include_str!("../README.md")]

use std::env;
use std::process::Command;

/// What cargo sets for the package of the program that it runs.
const OF_THE_CALLER: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// The cargo that runs this program, or the first one in `PATH`, as a shell would call it.
#[must_use]
pub fn command() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in env::vars_os().map(|(name, _)| name) {
        let is_callers = |prefix: &str| name.to_string_lossy().starts_with(prefix);
        if OF_THE_CALLER.iter().any(|prefix| is_callers(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_describes_the_caller_is_taken_away() {
        assert!(env::var_os("CARGO_PKG_NAME").is_some(), "cargo runs this test");
        let command = command();
        let removed: Vec<_> =
            command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name).collect();
        for name in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION_PATCH"] {
            assert!(removed.contains(&name.as_ref()), "{name}");
        }
        assert!(!removed.contains(&"CARGO".as_ref()));
    }
}
