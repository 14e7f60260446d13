//! The files that can become the program, and those that cannot.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};

use crate::harness::{Launcher, has, is_root};

/// The words that run a command as a user without rights.
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

fn write(path: &Path, text: &str, mode: u32) {
    fs::write(path, text).expect("written");
    set_mode(path, mode);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("its mode is set");
}

/// Returns exit code, standard output and standard error of `softefa run -- WORDS`.
fn run(mut command: Command, words: &[&str]) -> (Option<i32>, String, String) {
    let output = command.args(["run", "--"]).args(words).output().expect("softefa starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The loader ignores the preload in both cases, so that the program would find no device.
#[test]
fn a_program_with_more_rights_than_its_user_is_refused() {
    if !has("setpriv") || !is_root("programs of other users") {
        return;
    }
    let launcher = Launcher::new("").within(NOBODY);
    let [capable, set_id] = ["capable", "set-id"].map(|name| launcher.runtime_dir().join(name));
    for path in [&capable, &set_id] {
        fs::copy("/bin/true", path).expect("copied");
    }
    set_mode(&set_id, 0o4755);
    let path = |path: &Path| path.to_str().expect("a name").to_owned();
    let root = || Launcher::new("").command();
    assert_eq!(run(root(), &[&path(&set_id)]), (Some(0), String::new(), String::new()));
    // Version 2, effective; CAP_NET_RAW permitted.
    let mut value = [0u8; 20];
    value[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    if let Err(error) = setxattr(&capable, "security.capability", &value, XattrFlags::empty()) {
        eprintln!("SKIPPED, NOT TESTED: no file capabilities here ({error})");
        return;
    }
    assert_eq!(run(root(), &[&path(&capable)]).0, Some(0), "root gains nothing by them");
    for (file, word) in [(&capable, "capabilities"), (&set_id, "set-user-ID")] {
        let (code, _, text) = run(launcher.command(), &[&path(file)]);
        assert_eq!((code, text.lines().count()), (Some(126), 1), "{text}");
        assert!(text.contains(word) && text.contains(&path(file)), "{text}");
    }
    chown(&set_id, Some(65534), None).expect("given away");
    set_mode(&set_id, 0o4755);
    assert_eq!(run(root(), &[&path(&set_id)]).0, Some(126), "of another user");
    assert_eq!(run(launcher.command(), &[&path(&set_id)]).0, Some(0), "of this user");
}

/// A file in PATH that this user may not execute is skipped, not refused.
#[test]
fn a_file_of_path_that_this_user_may_not_execute_is_passed_over() {
    if !has("setpriv") || !is_root("programs of other users") {
        return;
    }
    let launcher = Launcher::new("").within(NOBODY);
    let [closed, open] = ["closed", "open"].map(|name| launcher.runtime_dir().join(name));
    for (dir, mode) in [(&closed, 0o744), (&open, 0o755)] {
        fs::create_dir(dir).expect("made");
        set_mode(dir, 0o755);
        write(&dir.join("tool"), "#!/bin/sh\necho $0\n", mode);
    }
    let mut command = launcher.command();
    let path = format!("{}:{}:/usr/bin:/bin", closed.display(), open.display());
    let (code, said, text) = run(
        {
            command.env("PATH", path);
            command
        },
        &["tool"],
    );
    assert_eq!(
        (code, said.trim()),
        (Some(0), open.join("tool").to_str().expect("a name")),
        "{text}"
    );
}

/// `env` and shells run such a script by /bin/sh.
#[test]
fn a_script_without_a_first_line_is_one_of_the_shell() {
    let launcher = Launcher::new("");
    let script = launcher.runtime_dir().join("script");
    write(&script, "echo $SOFTEFA_DEVICES \"$@\"\nexit 5\n", 0o755);
    let script = script.to_str().expect("a name");
    let (code, said, text) = run(launcher.command(), &[script, "a b", "c"]);
    assert_eq!((code, said.as_str()), (Some(5), "rdmap0s6=127.0.0.1 a b c\n"), "{text}");
}

#[test]
fn a_program_that_may_not_be_executed_is_told_so() {
    let launcher = Launcher::new("");
    let [script, other] = ["script", "other"].map(|name| launcher.runtime_dir().join(name));
    write(&other, "", 0o644);
    write(&script, &format!("#!{}\n", other.display()), 0o755);
    let (code, _, text) = run(launcher.command(), &[script.to_str().expect("a name")]);
    assert_eq!((code, text.lines().count()), (Some(126), 1), "{text}");
    assert!(text.contains("ermission") && !text.contains("built for"), "{text}");
}
