//! Which file becomes the program, and which cannot.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;
use std::process::Command;

use rustix::fs::{XattrFlags, setxattr};

use crate::harness::{Launcher, has, is_root};

/// A user without rights.
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("its mode is set");
}

/// Exit code, standard output and standard error of `softefa run -- WORDS`.
fn run(mut command: Command, words: &[&str]) -> (Option<i32>, String, String) {
    let output = command.args(["run", "--"]).args(words).output().expect("softefa starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// The loader ignores the preload in both, and the program found no device.
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
