//! `--key-file` is checked before anything starts, and handed on as a name, never as bytes.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

use serde_json::Value;

use crate::harness::{Launcher, softefa};

/// Makes a file of `len` bytes.
fn file(dir: &Path, name: &str, len: usize, mode: u32) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, vec![7; len]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn run(args: &[&str], dir: &Path) -> (Output, String) {
    let output = Launcher::new("").command().args(args).current_dir(dir).output().unwrap();
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    (output, text)
}

#[test]
fn a_bad_key_file_is_one_line_and_the_program_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "short", 31, 0o600);
    file(dir.path(), "long", 65, 0o600);
    fs::create_dir(dir.path().join("dir")).unwrap();
    for (name, why) in [
        ("missing", "does not exist"),
        ("short", "31 bytes"),
        ("long", "65 bytes"),
        ("dir", "not a regular file"),
        ("/dev/zero", "not a regular file"),
    ] {
        for args in [
            &["run", "--key-file", name, "--", "echo", "started"][..],
            &["info", "--key-file", name],
            &["pcap", "--key-file", name, "--write", "never"],
        ] {
            let (output, text) = run(args, dir.path());
            assert_eq!(output.status.code(), Some(125), "{args:?}: {text}");
            assert!(output.stdout.is_empty(), "{args:?} went on");
            assert!(text.contains(why) && text.contains(name), "{args:?}: {text}");
            assert!(text.contains("head -c 32 /dev/urandom"), "what to do is missing: {text}");
            assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
        }
    }
    let (output, text) = run(&["run", "--key-file", "", "--", "echo", "started"], dir.path());
    assert!(output.status.code() == Some(125) && output.stdout.is_empty(), "{text}");
    assert!(text.contains("--key-file") && text.lines().count() == 1, "{text}");
    assert!(!dir.path().join("never").exists(), "a capture was begun");
}

#[test]
fn the_program_is_told_the_file_by_its_absolute_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = file(dir.path(), "a key", 32, 0o600);
    // The adapter in the program and a run inside the run read the file from another directory.
    let inner = format!("cd / && {} run -- env", softefa().display());
    for program in [&["env"][..], &["sh", "-c", &inner]] {
        let args = [&["run", "--key-file", "a key", "--"], program].concat();
        let (output, text) = run(&args, dir.path());
        assert!(output.status.success() && text.is_empty(), "{text}");
        let env = String::from_utf8(output.stdout).unwrap();
        let line = format!("SOFTEFA_KEY_FILE={}", path.display());
        assert!(env.lines().any(|other| other == line), "{env}");
    }
    let open = format!("SOFTEFA_KEY_FILE= {} run -- env", softefa().display());
    let (output, _) = run(&["run", "--key-file", "a key", "--", "sh", "-c", &open], dir.path());
    let env = String::from_utf8(output.stdout).unwrap();
    assert!(!env.contains("SOFTEFA_KEY_FILE"), "in the clear on purpose:\n{env}");
}

/// Datagrams that are meant to be sealed are never sent in the clear.
#[test]
fn a_variable_that_cannot_be_used_is_as_bad_as_an_option() {
    for command in ["run", "info", "pcap"] {
        let launcher = Launcher::new("").with_env(&[("SOFTEFA_KEY_FILE", "/missing")]);
        let args = match command {
            "run" => &["run", "--", "true"][..],
            "info" => &["info"],
            _ => &["pcap", "--write", "/dev/null", "--duration", "0.1"],
        };
        let output = launcher.command().args(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{command}: {text}");
        assert!(text.contains("/missing") && text.lines().count() == 1, "{command}: {text}");
    }
}

#[test]
fn a_key_that_others_can_read_is_told_and_used() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "key", 32, 0o644);
    let (output, text) = run(&["run", "--key-file", "key", "--", "echo", "started"], dir.path());
    assert!(output.status.success() && output.stdout == b"started\n", "{text}");
    assert!(text.contains("0644") && text.contains("chmod 600"), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn info_says_whether_and_with_which_key() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "same"] {
        file(dir.path(), name, 32, 0o600);
    }
    fs::write(dir.path().join("other"), [8; 32]).unwrap();
    let id = |name: &str| {
        let (output, text) = run(&["info", "--json", "--key-file", name], dir.path());
        let info: Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{text}"));
        info["sealed"]["id"].as_str().unwrap().to_owned()
    };
    assert_eq!(id("one"), id("same"));
    assert_ne!(id("one"), id("other"));
    let (output, _) = run(&["info", "--key-file", "one"], dir.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("sealed  with key {}", id("one"))), "{text}");
    let (output, _) = run(&["info"], dir.path());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("sealed  no"), "{text}");
    let (output, _) = run(&["info", "--json"], dir.path());
    assert!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["sealed"].is_null());
}
