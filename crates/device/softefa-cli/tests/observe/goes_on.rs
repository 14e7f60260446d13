//! Programs that outlive the one that `softefa run` started, or `softefa run` itself, and runs that
//! outlive their readers.

use std::fs;
use std::io::Read;
use std::process::{Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{Launcher, free_port, has, wait_until};

/// A program in the background, which is ended with the test.
struct InBackground(Pid);

impl InBackground {
    fn of(printed: &[u8]) -> Self {
        let pid = String::from_utf8_lossy(printed).trim().parse().ok().and_then(Pid::from_raw);
        Self(pid.expect("a process id"))
    }

    fn end(&self) {
        // The program may have ended already.
        let _ = kill_process(self.0, Signal::KILL);
        let stat = format!("/proc/{}/stat", self.0.as_raw_nonzero());
        let is_gone = || fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z "));
        wait_until("it is gone", is_gone);
    }
}

impl Drop for InBackground {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns a script that starts a server of perftest in the background, prints its process id once
/// it has opened a device, and then runs `end`.
fn server(end: &str) -> String {
    format!(
        "ib_send_lat -c SRD -x 0 -p {} > /dev/null 2>&1 & \
         until ls $SOFTEFA_RUN_DIR/counters/* > /dev/null 2>&1; do :; done; echo $!; {end}",
        free_port()
    )
}

fn run(launcher: &Launcher, script: &str) -> Output {
    let args = ["run", "--stats", "--", "sh", "-c", script];
    launcher.command().args(args).output().expect("softefa starts")
}

/// Returns the processes whose devices `softefa top` shows.
fn seen(launcher: &Launcher) -> Vec<i64> {
    let args = ["top", "--once", "--json", "--interval", "0.1"];
    let output = launcher.command().args(args).output().expect("softefa starts");
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let devices = seen["devices"].as_array().expect("devices");
    devices.iter().filter_map(|device| device["pid"].as_i64()).collect()
}

fn run_dirs(launcher: &Launcher) -> usize {
    let entries = fs::read_dir(launcher.runtime_dir().join("softefa")).expect("runs");
    entries.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_dir())).count()
}

/// The directory stays, so that others see the program, and the user is told of it.
#[test]
fn a_program_that_outlives_its_run_is_told_of_and_seen() {
    if !has("ib_send_lat") {
        return;
    }
    let launcher = Launcher::new("");
    let output = run(&launcher, &server("exit 3"));
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    let program = InBackground::of(&output.stdout);
    let pid = i64::from(program.0.as_raw_nonzero().get());
    assert!(text.contains(&format!("goes on (pid {pid})")), "{text}");
    assert_eq!(seen(&launcher), [pid]);
    run(&launcher, "true");
    assert_eq!((seen(&launcher), run_dirs(&launcher)), (vec![pid], 1), "the next run left it");
    program.end();
    run(&launcher, "true");
    assert_eq!(run_dirs(&launcher), 0, "the next run removes what nobody uses");
}

/// The next run must not remove the directory of a running program.
#[test]
fn a_program_that_outlives_a_killed_softefa_keeps_its_directory() {
    if !has("ib_send_lat") {
        return;
    }
    let launcher = Launcher::new("");
    let output = run(&launcher, &server("kill -KILL $PPID"));
    let program = InBackground::of(&output.stdout);
    let pid = i64::from(program.0.as_raw_nonzero().get());
    run(&launcher, "true");
    assert_eq!((seen(&launcher), run_dirs(&launcher)), (vec![pid], 1));
}

/// A message that no process opened a device must not hide that a program still runs.
#[test]
fn a_program_without_a_device_keeps_its_directory_too() {
    let launcher = Launcher::new("");
    let output = run(&launcher, "sleep 60 > /dev/null 2>&1 & echo $!");
    let text = String::from_utf8_lossy(&output.stderr);
    let program = InBackground::of(&output.stdout);
    assert!(text.contains("so far") && text.lines().count() == 1, "{text}");
    run(&launcher, "true");
    assert_eq!(run_dirs(&launcher), 1);
    program.end();
    run(&launcher, "true");
    assert_eq!(run_dirs(&launcher), 0);
}

/// The run must not end with 125: `softefa pcap` accepts a reader that has seen enough.
#[test]
fn a_run_outlives_the_reader_of_its_capture() {
    if !has("ib_send_lat") {
        return;
    }
    let launcher = Launcher::new("");
    let lat = format!("ib_send_lat -c SRD -x 0 -F -n 100 -p {}", free_port());
    let script = format!(
        "read go; {lat} & until {lat} 127.0.0.1 > /dev/null 2>&1; do :; done; wait $!; exit 0"
    );
    let mut command = launcher.command();
    command.args(["run", "--pcap", "/dev/stderr", "--", "sh", "-c", &script]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = command.spawn().expect("softefa starts");
    let mut capture = running.stderr.take().expect("a pipe");
    capture.read_exact(&mut [0]).expect("the capture begins");
    drop(capture);
    drop(running.stdin.take());
    assert_eq!(running.wait().expect("its end").code(), Some(0), "the program's own");
    let ended = launcher.command().args(["run", "--pcap", "/dev/full", "--", "true"]).output();
    assert_eq!(ended.expect("softefa starts").status.code(), Some(125), "other errors are told");
}
