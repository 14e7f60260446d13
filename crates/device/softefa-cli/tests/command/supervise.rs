//! The parent of the program: how it waits, which signals it passes on, and how it ends.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use crate::harness::{has, is_root, softefa};

/// Returns the output of a script that the shell runs within 20 s, in a session of its own; `$1` is
/// the command.
fn shell(script: &str) -> Output {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20", "setsid", "sh", "-c", script, "sh"]).arg(softefa());
    command.current_dir(dir.path()).env("XDG_RUNTIME_DIR", dir.path());
    command.output().expect("timeout starts")
}

/// The kernel reaps the children of a process that ignores SIGCHLD, and reports nothing, so that
/// the command would wait for ever.
#[test]
fn a_parent_that_ignores_sigchld_changes_nothing() {
    let output = shell("exec env --ignore-signal=CHLD \"$1\" run -- sh -c 'exit 7'");
    assert_eq!(output.status.code(), Some(7), "{output:?}");
    let output = shell("exec env --ignore-signal=CHLD \"$1\" doctor --json");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

/// A shell continues its loop after a program that exits with 130, because that program has handled
/// Ctrl-C itself.
#[test]
fn what_ctrl_c_ended_dies_of_it_for_the_shell_to_see() {
    for (name, signal) in [("INT", 2), ("QUIT", 3)] {
        let dir = tempfile::tempdir().expect("a directory");
        let mut command = Command::new("sh");
        let program = format!("ulimit -c 0; kill -{name} $$");
        command.args(["-c", "ulimit -c unlimited; exec \"$0\" run -- sh -c \"$1\""]);
        command.arg(softefa()).arg(&program).current_dir(dir.path());
        let output = command.env("XDG_RUNTIME_DIR", dir.path()).output().expect("sh starts");
        let status = output.status;
        assert_eq!((status.signal(), status.core_dumped()), (Some(signal), false), "{output:?}");
        let left = dir.path().join("softefa").read_dir().expect("the runs of this user");
        let left: Vec<_> = left.flatten().filter(|entry| entry.path().is_dir()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
    // The whole group gets the signal, as from a terminal. bash checks how the command of the loop
    // ended.
    let program = "sh -c 'echo begun; kill -INT 0; sleep 20'";
    let output = shell(&format!(
        "exec bash -c 'for i in 1 2 3; do \"$0\" run -- \"$@\"; done' \"$1\" {program}"
    ));
    assert_eq!(output.stdout, b"begun\n", "{output:?}");
}

/// A program that writes a byte for each SIGUSR1, until SIGTERM comes.
const COUNT: &str = "import os, signal, sys, time\n\
    signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b'.'))\n\
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())\n\
    os.write(1, b'.')\n\
    while True: time.sleep(1)\n";

/// `timeout` signals the command first and then the whole group, but the program must get the
/// signal once. A signal that the sender's shell sends to the command alone is still passed on.
#[test]
fn a_signal_to_the_group_reaches_the_program_once() {
    if !has("python3") {
        return;
    }
    let output = shell(&format!(
        "PROGRAM=\"{COUNT}\"\n\
         \"$1\" run -- python3 -c \"$PROGRAM\" > out &\n\
         seen() {{ until test \"$(wc -c < out)\" -ge $1; do :; done; }}\n\
         for round in $(seq 30); do seen $round; \
         trap : USR1; kill -USR1 $!; trap '' USR1; kill -USR1 0; done\n\
         seen 31; kill -TERM $!; wait; wc -c < out"
    ));
    assert_eq!(output.stdout, b"31\n", "{output:?}");
}

/// The first process of a container is the parent of all orphans, which must not remain as zombies.
#[test]
fn orphans_of_a_container_are_reaped() {
    if !has("unshare") || !is_root("process namespaces") {
        return;
    }
    let orphans = "for i in 1 2 3 4 5; do sh -c 'true & exec true'; done; \
        for try in $(seq 200); do \
        zombies=$(cat /proc/[0-9]*/stat 2>/dev/null | grep -c ') Z 1 '); \
        test $zombies = 0 && exit 0; sleep 0.01; done; echo $zombies; exit 1";
    let output = shell(&format!(
        "exec unshare -pf --mount-proc \"$1\" run -- sh -c \"{}\"",
        orphans.replace('$', "\\$")
    ));
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}
