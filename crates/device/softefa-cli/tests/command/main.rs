//! The command itself: bad input, exit codes, signals, counters, and the files that it leaves
//! behind.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod doctor;
mod gateway;
#[path = "../harness/mod.rs"]
mod harness;
mod key_file;
mod outputs;
mod paths;
mod program;
mod replace;
mod roce;
mod supervise;
mod wire;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use harness::{LIMIT, Launcher, has, is_root, softefa, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Returns exit code and standard error of `softefa` with `args`.
fn fail(args: &[&str]) -> (i32, String) {
    let output = Launcher::new("").command().args(args).output().unwrap();
    assert!(output.stdout.is_empty(), "a failure writes to standard error only");
    (output.status.code().unwrap(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn bad_input_is_one_line_that_names_the_value() {
    let cases: [(&[&str], i32, &[&str]); 16] = [
        (&["run"], 125, &["no program given", "usage"]),
        (&["run", "--stats"], 125, &["no program given"]),
        (&["run", "--fault", "los=1%", "--", "true"], 125, &["'los'", "loss", "reorder", "seed"]),
        (&["run", "--fault", "loss=two", "--", "true"], 125, &["loss", "two"]),
        (&["run", "--device", "a=192.0.2.1", "--", "true"], 125, &["192.0.2.1", "not local"]),
        (&["run", "--device", "rdmap0s6", "--", "true"], 125, &["rdmap0s6", "NAME=IP"]),
        (&["run", "--profile", "efa9", "--", "true"], 125, &["efa9", "efa0", "efa2"]),
        (&["run", "--wire", "ib", "--", "true"], 125, &["'ib'", "auto", "udp", "shm"]),
        (&["run", "--paths", "0", "--", "true"], 125, &["'0'", "256"]),
        (&["run", "--library", "/nonexistent.so", "--", "true"], 125, &["/nonexistent.so"]),
        (&["run", "--counters", "/nonexistent/c", "--", "true"], 125, &["/nonexistent/c"]),
        (&["run", "--counters", "-", "--", "true"], 125, &["--counters -", "--stats"]),
        (&["run", "--pcap", "-", "--", "true"], 125, &["--pcap -", "softefa pcap"]),
        (&["run", "--roce", "--profile", "efa1", "--", "true"], 125, &["efa1", "--device"]),
        (&["run", "--", "no-such-program"], 127, &["no-such-program", "not found"]),
        (&["run", "--", "/etc/passwd"], 126, &["/etc/passwd", "not executable"]),
    ];
    softefa();
    for (args, code, words) in cases {
        let (actual, text) = fail(args);
        assert_eq!(actual, code, "{args:?}: {text}");
        assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
        assert!(text.starts_with("softefa: "), "{args:?}: {text}");
        for word in words {
            assert!(text.contains(word), "{args:?} does not say {word}: {text}");
        }
    }
}

#[test]
fn twice_the_same_device_is_refused() {
    let same_name = ["run", "--device", "a=127.0.0.1", "--device", "a=127.0.0.2", "--", "true"];
    let same_addr = ["run", "--device", "a=127.0.0.1", "--device", "b=127.0.0.1", "--", "true"];
    assert!(fail(&same_name).1.contains("'a'"));
    assert!(fail(&same_addr).1.contains("'127.0.0.1'"));
}

/// The command must not wait for itself, even on a disk of 4 KiB.
#[test]
fn a_full_disk_is_one_line_and_an_exit_code() {
    const SCRIPT: &str = "mount -t tmpfs -o size=$1 none \"$2\"; XDG_RUNTIME_DIR=\"$2\" exec timeout -s KILL 20 \"$3\" run -- true";
    if !has("unshare") || !is_root("mount namespaces") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for size in ["4k", "8k", "16k", "64k"] {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-ec", SCRIPT, "sh", size]);
        let output = command.arg(dir.path()).arg(softefa()).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{size} of disk: {text}");
        assert_eq!(text.lines().count(), 1, "{size} of disk: {text}");
        assert!(text.contains("No space left"), "{size} of disk: {text}");
    }
}

#[test]
fn exit_code_is_the_program_s() {
    let launcher = Launcher::new("");
    let code = |script| launcher.start_words("sh", &["sh", "-c", script]).wait(LIMIT).code;
    assert_eq!(code("exit 0"), 0);
    assert_eq!(code("exit 7"), 7);
    assert_eq!(code("kill -KILL $$"), 137);
    let outcome = launcher.start_words("sh", &["sh", "-c", "kill -SEGV $$"]).wait(LIMIT);
    assert_eq!(outcome.code, 139);
    assert!(outcome.stderr.contains("SIGSEGV"), "{outcome}");
}

/// `softefa run ... 2>&1 | head` must not end with 101, a panic.
#[test]
fn exit_code_is_the_program_s_though_nobody_reads_the_messages() {
    let mut running = Command::new(softefa())
        .args(["run", "--", "sh", "-c", "read line; kill -SEGV $$"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(running.stderr.take());
    drop(running.stdin.take());
    assert_eq!(running.wait().unwrap().code(), Some(139));
}

#[test]
fn signals_reach_the_program() {
    let script =
        "trap 'exit 41' TERM; trap 'exit 42' INT; echo ready; while :; do sleep 0.01; done";
    for (signal, code) in [(Signal::TERM, 41), (Signal::INT, 42)] {
        let launcher = Launcher::new("");
        let running = launcher.start_words("sh", &["sh", "-c", script]);
        let out = launcher.runtime_dir().join("sh.out");
        wait_until("the script is ready", || fs::read_to_string(&out).unwrap().contains("ready"));
        kill_process(running.pid(), signal).unwrap();
        assert_eq!(running.wait(LIMIT).code, code);
    }
}

/// Returns the number of directories of runs, without the files that all runs share.
fn run_dirs(launcher: &Launcher) -> usize {
    let entries = fs::read_dir(launcher.runtime_dir().join("softefa")).unwrap();
    entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count()
}

#[test]
fn nothing_is_left_behind() {
    let launcher = Launcher::new("");
    launcher.run("true");
    assert_eq!(run_dirs(&launcher), 0);
}

#[test]
fn killed_run_is_tidied_up_by_the_next() {
    let launcher = Launcher::new("");
    let running = launcher.start("sleep", "sleep 60");
    // Before it becomes `sleep` it is a copy of `softefa`, with the lock of the run.
    let is_sleep = |pid: Pid| {
        let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| name == "sleep\n")
    };
    wait_until("the program runs", || running.program_pid().is_some_and(is_sleep));
    let program = running.program_pid().unwrap();
    kill_process(running.pid(), Signal::KILL).unwrap();
    kill_process(program, Signal::KILL).unwrap();
    drop(running);
    assert_eq!(run_dirs(&launcher), 1, "a killed run leaves its directory");
    launcher.run("true");
    assert_eq!(run_dirs(&launcher), 0);
}

#[test]
fn environment_puts_the_device_under_the_program() {
    let launcher =
        Launcher::new("--profile efa0 --fault loss=1%,seed=7 --device x=127.0.0.9 --strict");
    let outcome = launcher.run("env");
    let value = |name: &str| {
        let found = outcome.stdout.lines().find_map(|line| line.strip_prefix(&format!("{name}=")));
        found.unwrap_or_else(|| panic!("{name} is not set\n{outcome}")).to_owned()
    };
    assert!(value("LD_PRELOAD").contains("libsoftefa_verbs.so"));
    assert!(value("SYSFS_PATH").starts_with(launcher.runtime_dir().to_str().unwrap()));
    assert_eq!(value("FI_EFA_ENABLE_SHM_TRANSFER"), "0");
    assert_eq!(value("SOFTEFA_DEVICES"), "x=127.0.0.9");
    assert_eq!(value("SOFTEFA_PROFILE"), "efa0");
    assert_eq!(value("SOFTEFA_STRICT"), "1");
    assert!(value("SOFTEFA_FAULT").contains("loss=1%"));
}

/// The options of the outer run are not for the inner one, except the trace (docs/TRACE.md).
#[test]
fn a_run_in_a_run_is_its_own() {
    let outer = "--profile efa0 --fault loss=1%,seed=7 --strict --paths 3 --trace /dev/null";
    let launcher = Launcher::new(&format!("{outer} --pcap /dev/null"));
    let inner = format!("{} run --wire-only --replace-verbs=no -- env", softefa().display());
    let outcome = launcher.run(&inner);
    let values = |name: &str| {
        let prefix = format!("{name}=");
        let lines = outcome.stdout.lines();
        lines.filter_map(|line| line.strip_prefix(&prefix)).collect::<Vec<_>>()
    };
    for unset in ["PATHS", "STRICT", "LOCAL_KEY", "CAPTURE"] {
        assert_eq!(values(&format!("SOFTEFA_{unset}")), [""; 0], "{outcome}");
    }
    assert_eq!(
        (values("SOFTEFA_PROFILE"), values("SOFTEFA_FAULT")),
        (vec!["efa2"], vec!["seed=0"])
    );
    assert_eq!(values("SOFTEFA_TRACE"), ["/dev/null"]);
    let outcome = launcher.run(&format!("env SOFTEFA_FAULT=dup=2% {inner}"));
    assert!(outcome.stdout.contains("\nSOFTEFA_FAULT=dup=2%"), "set anew: {outcome}");
    assert!(outcome.stdout.contains("\nSOFTEFA_PROFILE=efa2\n"), "{outcome}");
    assert_eq!(values("LD_PRELOAD")[0].matches("libsoftefa_verbs").count(), 1, "{outcome}");
    assert!(values("LD_LIBRARY_PATH").iter().all(|list| !list.contains("replace-verbs")));
}

#[test]
fn counters_of_another_build_are_missed() {
    let launcher = Launcher::new("");
    let script =
        "mkdir $SOFTEFA_RUN_DIR/counters && echo other > $SOFTEFA_RUN_DIR/counters/rdmap0s6.$$";
    let mut command = launcher.command();
    let output = command.args(["run", "--stats", "--", "sh", "-c", script]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("another build") && text.lines().count() == 1, "{text}");
    let output = launcher.command().args(["run", "--stats", "--", "true"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("opened a device") && text.lines().count() == 1, "{text}");
}

#[test]
fn user_s_environment_is_respected() {
    let launcher = Launcher::new("");
    let mut command = launcher.command();
    command.env("FI_EFA_ENABLE_SHM_TRANSFER", "1").env("LD_PRELOAD", "libm.so.6");
    let output = command.args(["run", "--", "env"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("FI_EFA_ENABLE_SHM_TRANSFER=1"), "{text}");
    assert!(text.contains("libsoftefa_verbs.so:libm.so.6"), "{text}");
}

#[test]
fn counters_file_is_written_or_the_failure_is_told() {
    let launcher = Launcher::new("");
    let outcome = launcher.run("true");
    assert_eq!(outcome.counter("tx_pkts"), 0);
    assert!(outcome.counters["processes"].is_array(), "{outcome}");
    let (code, text) = fail(&["run", "--counters", "/dev/full", "--", "true"]);
    assert_eq!(code, 125);
    assert!(text.contains("/dev/full") && text.lines().count() == 1, "{text}");
}

#[test]
fn info_shows_devices_and_running_programs() {
    let launcher = Launcher::new("");
    let running = launcher.start("sleep", "sleep 60");
    wait_until("the program runs", || running.program_pid().is_some());
    let output = launcher.command().args(["info", "--profile", "efa1", "--json"]).output().unwrap();
    let info: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(info["devices"][0]["name"], "rdmap0s6");
    assert_eq!(info["devices"][0]["part_id"], 0xefa1);
    assert_eq!(info["devices"][0]["limits"]["max_qp"], 256);
    assert_eq!(info["running"][0]["program"], "sleep");
    let directory = info["running"][0]["directory"].as_str().unwrap();
    assert!(Path::new(directory).starts_with(launcher.runtime_dir()), "{directory}");
    let output = launcher.command().arg("info").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("max_msg_bytes") && text.contains("running sleep"), "{text}");
    kill_process(running.pid(), Signal::TERM).unwrap();
    assert_eq!(running.wait(LIMIT).code, 143);
}

#[test]
fn help_is_a_success_even_into_a_closed_pipe() {
    let help = |args: &[&str]| Command::new(softefa()).args(args).output().unwrap();
    let output = help(&["run", "--help"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["125", "126", "127", "--fault", "--device", "--counters"] {
        assert!(text.contains(word), "{word} is missing:\n{text}");
    }
    let mut child = Command::new(softefa()).arg("--help").stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}
