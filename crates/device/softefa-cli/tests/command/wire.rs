//! `--wire`: its values, and its message if memory cannot be shared.

use std::process::{Command, Output};

use crate::harness::{Launcher, softefa};

fn run(script: &str) -> (Output, String) {
    let mut command = Launcher::new("").command();
    let program = command.get_program().to_owned();
    let env: Vec<_> =
        command.get_envs().map(|(k, v)| (k.to_owned(), v.map(ToOwned::to_owned))).collect();
    command = Command::new("sh");
    for (name, value) in env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.args(["-c", script, "sh"]).arg(program).output().unwrap();
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    (output, text)
}

/// A file longer than `ulimit -f` permits must not end programs with SIGXFSZ.
#[test]
fn where_memory_cannot_be_shared_shm_is_one_line_and_auto_goes_on() {
    softefa();
    let (output, text) = run("ulimit -f 1000; exec \"$1\" run --wire shm -- echo started");
    assert_eq!((output.status.code(), text.lines().count()), (Some(125), 1), "{text}");
    assert!(output.stdout.is_empty(), "the program was started");
    assert!(text.contains("--wire shm") && text.contains("ulimit -f"), "{text}");
    let (output, text) = run("ulimit -f 1000; exec \"$1\" run -- echo started");
    assert_eq!((output.status.code(), text.as_str()), (Some(0), ""));
    let (output, text) = run("exec \"$1\" run --wire shm -- sh -c 'echo $SOFTEFA_WIRE'");
    assert_eq!((output.stdout.as_slice(), text.as_str()), (&b"shm\n"[..], ""));
}

/// A handler is not inherited, so that there must be none for a signal that `nohup` ignores.
#[test]
fn what_is_ignored_stays_ignored() {
    softefa();
    let script = "trap '' HUP; exec \"$1\" run -- grep SigIgn /proc/self/status";
    let (output, text) = run(script);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let mask = said.trim().strip_prefix("SigIgn:").map(str::trim).expect("a mask");
    assert_eq!(u64::from_str_radix(mask, 16).unwrap() & 1, 1, "{said}{text}");
}

#[test]
fn wire_only_is_another_name_for_udp() {
    softefa();
    for option in ["--wire-only", "--wire udp"] {
        let (output, _) = run(&format!("exec \"$1\" run {option} -- sh -c 'echo $SOFTEFA_WIRE'"));
        assert_eq!(output.stdout, b"udp\n", "{option}");
    }
    let (output, text) = run("exec \"$1\" run --wire-only --wire shm -- true");
    assert!(!output.status.success() && text.contains("--wire"), "{text}");
    let (output, text) = run("SOFTEFA_WIRE=udp exec \"$1\" info");
    assert!(String::from_utf8_lossy(&output.stdout).contains("wire    udp\n"), "{text}");
}
