//! `--pcap`, `--counters`, `--trace` and `--fault`: the values that are refused, and the messages.

use std::process::{Command, Output};

use crate::fail;
use crate::harness::{Launcher, softefa};

fn in_dir(launcher: &Launcher, args: &[&str]) -> Output {
    let mut command = launcher.command();
    command.current_dir(launcher.runtime_dir()).arg("run").args(args).args(["--", "true"]);
    command.output().expect("softefa starts")
}

/// Neither a second option nor an empty value is accepted; `none` is accepted, as by `fault set`.
#[test]
fn faults_are_given_once_and_by_name() {
    let twice = fail(&["run", "--fault", "loss=1%,dup=1%,loss=2%", "--", "true"]);
    assert!(twice.0 == 125 && twice.1.contains("2%") && twice.1.contains("twice"), "{twice:?}");
    for nothing in ["", ",", " , "] {
        let empty = fail(&["run", "--fault", nothing, "--", "true"]);
        assert!(empty.0 == 125 && empty.1.contains("none"), "{nothing:?}: {empty:?}");
    }
    let launcher = Launcher::new("").with_env(&[("SOFTEFA_FAULT", "loss=1%")]);
    let args = ["run", "--fault", "none", "--", "sh", "-c", "echo $SOFTEFA_FAULT"];
    let output = launcher.command().args(args).output().expect("softefa starts");
    assert_eq!(output.stdout, b"seed=0\n", "{output:?}");
    let holes = ["--fault", "blackhole=path:0@1s,blackhole=path:1@2s"];
    assert!(in_dir(&launcher, &holes).status.success(), "several of them make sense");
}

/// Two options with one file would overwrite or mix their output.
#[test]
fn a_file_is_written_by_one_option() {
    let launcher = Launcher::new("");
    let all = [
        ["--pcap", "a", "--counters", "./a"],
        ["--trace", "b", "--pcap", "b"],
        ["--counters", "c", "--trace", "c"],
    ];
    for args in all {
        let output = in_dir(&launcher, &args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), text.lines().count()), (Some(125), 1), "{text}");
        assert!(text.contains(args[0]) && text.contains(args[2]), "{text}");
    }
    let null = in_dir(&launcher, &["--pcap", "/dev/null", "--trace", "/dev/null"]);
    assert!(null.status.success(), "{null:?}");
}

/// The time line of two runs looks like that of one run with a pause.
#[test]
fn a_trace_that_goes_on_is_told() {
    let launcher = Launcher::new("");
    let empty = in_dir(&launcher, &["--trace", ""]);
    assert_eq!(empty.status.code(), Some(125), "{empty:?}");
    std::fs::write(launcher.runtime_dir().join("old"), "a line\n").expect("written");
    let output = in_dir(&launcher, &["--trace", "old"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.lines().count() == 1, "{text}");
    assert!(text.contains("old") && text.contains("adds to it"), "{text}");
    let output = in_dir(&launcher, &["--trace", "new"]);
    assert_eq!(output.stderr, b"");
}

/// A device of endless zeros is refused.
#[test]
fn a_file_without_lines_is_no_trace() {
    let mut command = Command::new("timeout");
    let output = command.args(["20"]).arg(softefa()).args(["trace", "/dev/zero"]).output();
    let output = output.expect("timeout starts");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(125), "{text}");
    assert!(text.contains("neither a trace nor a capture"), "{text}");
}
