//! The parent of the program: how it waits, which signals it passes on, and how it ends.

use std::process::{Command, Output};

use crate::harness::softefa;

/// What a script of the shell does within 20 s, in a session of its own; `$1` is the command.
fn shell(script: &str) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20", "setsid", "sh", "-c", script, "sh"]).arg(softefa());
    command.current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path());
    command.output().expect("timeout starts")
}

/// The kernel reaps the children of who ignores SIGCHLD, and tells it nothing: the command waited
/// for ever.
#[test]
fn a_parent_that_ignores_sigchld_changes_nothing() {
    let output = shell("exec env --ignore-signal=CHLD \"$1\" run -- sh -c 'exit 7'");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let output = shell("exec env --ignore-signal=CHLD \"$1\" doctor --json");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
