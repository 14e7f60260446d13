//! `softefa doctor`, and the failures that point to it.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{fire, has, softefa};

fn doctor(args: &[&str], dir: &Path) -> Output {
    let mut command = Command::new(softefa());
    command.arg("doctor").args(args).env("XDG_RUNTIME_DIR", dir);
    command.output().unwrap()
}

fn findings(output: &Output) -> (bool, Vec<Value>) {
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    (seen["works"].as_bool().unwrap(), seen["findings"].as_array().unwrap().clone())
}

fn state<'a>(all: &'a [Value], name: &str) -> &'a Value {
    let found = all.iter().find(|finding| finding["name"] == name);
    &found.unwrap_or_else(|| panic!("no {name} in {all:?}"))["state"]
}

#[test]
fn devices_are_opened_and_used() {
    let dir = tempfile::tempdir().unwrap();
    let output = doctor(&["--json"], dir.path());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (works, all) = findings(&output);
    assert!(works);
    for name in ["efa over udp", "efa over memory", "roce", "adapter library", "run directory"] {
        assert_eq!(state(&all, name), "ok", "{all:?}");
    }
    let help_is_there =
        |finding: &Value| finding["help"].is_string() || finding["state"] != "limited";
    assert!(all.iter().all(help_is_there), "{all:?}");
    let text = String::from_utf8(doctor(&[], dir.path()).stdout).unwrap();
    assert!(text.contains("ptrace_scope") && text.contains("Devices work here"), "{text}");
}

/// The child has too few descriptors for a device, which is reported with its reason and in the
/// exit code.
#[test]
fn what_is_broken_is_told_and_ends_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    let line = format!("ulimit -n 12; exec {} doctor --json", softefa().display());
    command.args(["-c", &line]).env("XDG_RUNTIME_DIR", dir.path());
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let (works, all) = findings(&output);
    assert!(!works);
    let device = all.iter().find(|finding| finding["name"] == "efa over udp").unwrap();
    assert_eq!((&device["state"], &device["help"]), (&"broken".into(), &"ulimit -n 1024".into()));
    assert_eq!(state(&all, "nofile"), "limited", "{all:?}");
    let missing = doctor(&["--json", "--library", "/nonexistent/lib.so"], dir.path());
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    assert_eq!(state(&findings(&missing).1, "adapter library"), "broken");
}

#[test]
fn a_run_that_the_machine_refuses_points_to_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("softefa");
    std::fs::write(&file, "").unwrap();
    let mut command = Command::new(softefa());
    let output = command.args(["run", "--", "true"]).env("XDG_RUNTIME_DIR", dir.path()).output();
    let output = output.unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.lines().count() == 1 && text.contains("softefa doctor"), "{text}");
}

/// The trials show what a filter of system calls or a namespace forbids although /proc/sys permits
/// it.
#[test]
fn what_a_sandbox_forbids_is_tried() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut command = Command::new(fire());
    command.args(["confine", "--seccomp", "--"]).arg(softefa()).args(["doctor", "--json"]);
    let output = command.env("XDG_RUNTIME_DIR", dir.path()).output().expect("fire starts");
    let (_, all) = findings(&output);
    assert_eq!(state(&all, "ptrace_scope"), "limited", "{all:?}");
    assert_eq!(state(&all, "user namespaces"), "note", "{all:?}");
    if !has("unshare") {
        return;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user"]).arg(softefa()).args(["doctor", "--json"]);
    let output = command.env("XDG_RUNTIME_DIR", dir.path()).output().expect("unshare starts");
    if output.stdout.is_empty() {
        eprintln!("SKIPPED, NOT TESTED: no user namespaces here: {output:?}");
        return;
    }
    let (_, all) = findings(&output);
    let buffers = all.iter().find(|finding| finding["name"] == "socket buffers");
    let found = buffers.and_then(|finding| finding["found"].as_str()).expect("what was found");
    assert!(!found.contains("CAP_NET_ADMIN"), "it has that of the namespace only: {found}");
}

/// `softefa run` loads such a library through a link, and so does the trial.
#[test]
fn a_library_in_an_awkward_place_is_loaded_as_a_run_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let place = dir.path().join("sp ace");
    std::fs::create_dir(&place).expect("made");
    let library = place.join("libsoftefa_verbs.so");
    std::fs::copy(softefa().with_file_name("libsoftefa_verbs.so"), &library).expect("copied");
    let library = library.to_str().expect("a name");
    let output = doctor(&["--json", "--library", library], dir.path());
    let (_, all) = findings(&output);
    assert_eq!(state(&all, "adapter library"), "limited", "{all:?}");
}
