#![doc = include_str!("../README.md")]

use std::env;
use std::process::Command;

/// Variables that cargo sets for the package of the program that it runs.
const CALLER_VARIABLES: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "OUT_DIR"];

/// Returns the cargo that runs this program, or the first one in `PATH`, as a shell would call it.
#[must_use]
pub fn command() -> Command {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for name in env::vars_os().map(|(name, _)| name) {
        let is_callers = |prefix: &str| name.to_string_lossy().starts_with(prefix);
        if CALLER_VARIABLES.iter().any(|prefix| is_callers(prefix)) {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// Builds targets, such as `["--bin", "netsim"]` or `["--lib"]`, as `cargo build --workspace`
/// builds them. With some of the packages alone cargo would choose other features of what they
/// share, and compile half of it a second time.
///
/// # Errors
/// Returns one line with the targets when cargo does not start or they do not compile.
pub fn build(targets: &[&str], is_release: bool) -> Result<(), String> {
    let mut cargo = command();
    cargo.args(["build", "--quiet", "--workspace"]).args(targets);
    if is_release {
        cargo.arg("--release");
    }
    match cargo.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("{} does not build", targets.join(" "))),
        Err(error) => Err(format!("cargo does not start to build {}: {error}", targets.join(" "))),
    }
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
