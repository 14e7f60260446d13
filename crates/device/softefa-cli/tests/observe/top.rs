//! `softefa top`.

use std::io::{Read, Write};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustix::process::{Signal, kill_process};
use serde_json::Value;

use crate::harness::{LIMIT, Launcher, exclusive, has, softefa, wait_until};
use crate::{PORTS, STREAM};

/// Returns the devices of one refresh, as JSON.
fn look(launcher: &Launcher) -> Vec<Value> {
    look_at_all(launcher)["devices"].as_array().unwrap().clone()
}

/// Returns the result of one refresh.
fn look_at_all(launcher: &Launcher) -> Value {
    let args = ["top", "--once", "--json", "--interval", "0.2"];
    let output = launcher.command().args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(seen["interval_s"].as_f64().unwrap() >= 0.2, "{seen}");
    seen
}

#[test]
fn devices_come_with_their_programs_and_go_with_them() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let launcher = Launcher::new("--fault reorder=20%,seed=1");
    assert!(look(&launcher).is_empty());
    let (server, client) = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let devices = look(&launcher);
    assert_eq!(devices.len(), 2, "{devices:?}");
    for (running, rate) in [(&client, "sends_per_s"), (&server, "receives_per_s")] {
        let pid = running.program_pid().unwrap().as_raw_nonzero().get();
        let device = devices.iter().find(|device| device["pid"] == pid);
        let device = device.unwrap_or_else(|| panic!("{pid} is not in {devices:?}"));
        assert_eq!(
            (&device["program"], &device["address"]),
            (&"ib_send_bw".into(), &"127.0.0.1".into())
        );
        assert!(device[rate].as_f64().unwrap() > 100.0, "{device}");
        assert!(device["counters"]["tx_pkts"].as_u64().unwrap() > 0, "{device}");
        assert!(device["tx_gbit_per_s"].as_f64().unwrap() > 0.0, "{device}");
        assert!(device["tx_memory_percent"].as_f64().unwrap() > 0.0, "{device}");
    }
    let behind = |device: &Value| device["out_of_sequence_max"].as_f64().unwrap();
    assert!(devices.iter().any(|device| behind(device) > 0.0), "{devices:?}");
    let output = launcher.command().arg("info").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let of_sender =
        format!("pid {}: wire memory from", client.program_pid().unwrap().as_raw_nonzero());
    assert!(text.contains(&of_sender) && text.contains(" to 127.0.0.1:"), "{text}");
    let output = launcher.command().args(["top", "--once"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("ib_send_bw")).count(), 2, "{text}");
    assert!(!text.contains('\x1b'), "no terminal, no escapes: {text:?}");
    // The programs are killed, so that nothing tidies up after them.
    for running in [&client, &server] {
        kill_process(running.program_pid().unwrap(), Signal::KILL).unwrap();
    }
    wait_until("they vanish", || look(&launcher).is_empty());
    assert_eq!((client.wait(LIMIT).code, server.wait(LIMIT).code), (137, 137));
}

/// Returns the queue pair that sends, once it has had to repeat something.
fn sender(launcher: &Launcher) -> Value {
    let mut found = Value::Null;
    wait_until("a queue pair sends, and again", || {
        let seen = look_at_all(launcher);
        let all = seen["queue_pairs"].as_array().unwrap();
        let is_sender = |own: &&Value| {
            let above = |key: &str, least: f64| own[key].as_f64().unwrap() > least;
            above("sent_gbit_per_s", 0.001) && above("retransmits_per_s", 0.0)
        };
        found = all.iter().find(is_sender).cloned().unwrap_or_default();
        all.len() == 2 && !found.is_null()
    });
    found
}

#[test]
fn queue_pairs_are_told_with_their_paths() {
    let _one = exclusive();
    if !(has("ib_send_bw") && has("script")) {
        return;
    }
    for (options, line, kind, paths) in [
        ("--paths 4", STREAM, "SRD", 4),
        ("--roce", "ib_send_bw -c RC -d roce0 -x 0 -F -s 4096 -D 60 -f 0", "RC", 1),
    ] {
        let launcher = Launcher::new(&format!("{options} --wire udp --fault loss=2%,seed=1"));
        let pair = launcher.start_pair(line, PORTS);
        let seen = sender(&launcher);
        assert_eq!((&seen["kind"], &seen["peers"]), (&kind.into(), &1.into()), "{seen}");
        assert_eq!(seen["pid"], pair.1.program_pid().unwrap().as_raw_nonzero().get());
        let all = seen["paths"].as_array().unwrap();
        assert_eq!(all.len(), paths, "{seen}");
        let sum: f64 = all.iter().map(|path| path["share"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{seen}");
        assert!(all.iter().any(|path| path["rtt_ns"].as_u64().unwrap() > 1_000), "{seen}");
        shows_within(&launcher, 80, 24);
        shows_within(&launcher, 132, 40);
        for running in [&pair.1, &pair.0] {
            kill_process(running.program_pid().unwrap(), Signal::KILL).unwrap();
        }
        assert_eq!((pair.1.wait(LIMIT).code, pair.0.wait(LIMIT).code), (137, 137));
    }
}

/// Asserts that a terminal of this size shows queue pairs, paths and both pictures, within its
/// width and height.
fn shows_within(launcher: &Launcher, columns: usize, rows: usize) {
    let line =
        format!("stty cols {columns} rows {rows}; {} top --interval 0.2", softefa().display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_RUNTIME_DIR", launcher.runtime_dir());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let shown = Shown::of(child.stdout.take().unwrap());
    let has_all = |screen: &str| {
        ["QUEUE PAIR", "GOODPUT, 60 s", "path 0", "ib_send_bw", "\u{2588}"]
            .iter()
            .all(|what| screen.contains(what))
    };
    wait_until("the queue pairs are shown", || shown.text().split("\x1b[H").any(has_all));
    stdin.write_all(b"q").unwrap();
    wait_until("it leaves", || child.try_wait().unwrap().is_some());
    wait_until("all is read", || shown.reader.is_finished());
    let text = shown.text();
    for screen in text.split("\x1b[H").skip(1) {
        let screen = screen.split("\x1b[J").next().unwrap();
        let lines: Vec<&str> = screen.split("\r\n").collect();
        assert!(lines.len() <= rows, "{screen}");
        for line in lines {
            // The terminal adds a carriage return of its own.
            let line = line.trim_end_matches('\r').trim_end_matches("\x1b[K");
            let width = line.chars().count();
            assert!(width <= columns, "{width}: {line}");
        }
    }
}

/// The output of a program, read beside the test so that a silent program cannot delay it.
struct Shown {
    bytes: Arc<Mutex<Vec<u8>>>,
    reader: JoinHandle<()>,
}

impl Shown {
    fn of(mut stdout: ChildStdout) -> Self {
        let bytes = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&bytes);
        let reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(got @ 1..) = stdout.read(&mut chunk) {
                seen.lock().unwrap().extend_from_slice(&chunk[..got]);
            }
        });
        Self { bytes, reader }
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes.lock().unwrap()).into_owned()
    }
}

/// `script` gives it a terminal.
#[test]
fn on_a_terminal_q_leaves_and_the_screen_is_given_back() {
    if !has("script") {
        return;
    }
    let launcher = Launcher::new("");
    let line = format!("{} top --interval 0.1", softefa().display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_RUNTIME_DIR", launcher.runtime_dir());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let shown = Shown::of(child.stdout.take().unwrap());
    wait_until("the screen is drawn", || shown.text().contains("no device is in use"));
    stdin.write_all(b"q").unwrap();
    wait_until("it leaves", || child.try_wait().unwrap().is_some());
    assert!(child.wait().unwrap().success());
    wait_until("all is read", || shown.reader.is_finished());
    let text = shown.text();
    assert!(text.contains("\x1b[?1049h") && text.contains("\x1b[?1049l"), "{text:?}");
}

/// Ctrl-\ must restore the previous screen and the echo of keys.
#[test]
fn on_a_terminal_ctrl_backslash_gives_the_screen_back() {
    if !has("script") {
        return;
    }
    let launcher = Launcher::new("");
    let line = format!(
        "ulimit -c 0; trap : QUIT; {} top --interval 0.1; echo ended with $?; stty -a",
        softefa().display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_RUNTIME_DIR", launcher.runtime_dir());
    let child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.expect("script starts");
    let mut stdin = child.stdin.take().expect("its input");
    let shown = Shown::of(child.stdout.take().expect("its output"));
    wait_until("the screen is drawn", || shown.text().contains("no device is in use"));
    stdin.write_all(b"\x1c").expect("a key");
    wait_until("it ends", || child.try_wait().expect("script").is_some());
    wait_until("all is read", || shown.reader.is_finished());
    let text = shown.text();
    let (screen, after) = text.split_once("ended with 131").expect("the signal ended it");
    assert!(screen.contains("\x1b[?1049l"), "{text:?}");
    assert!(after.contains(" icanon") && after.contains(" echo "), "{after}");
}

/// `f` asks for a fault, which the programs deal, and `c` clears it.
#[test]
fn on_a_terminal_a_fault_is_set_shown_and_cleared() {
    let _one = exclusive();
    if !(has("script") && has("ib_send_bw")) {
        return;
    }
    let launcher = Launcher::new("");
    let (server, client) = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let line = format!("stty cols 300 rows 50; {} top --interval 0.1", softefa().display());
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).env("XDG_RUNTIME_DIR", launcher.runtime_dir());
    let mut child = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let shown = Shown::of(child.stdout.take().unwrap());
    wait_until("the devices are shown", || shown.text().contains("FAULT"));
    stdin.write_all(b"flose=5%\n").unwrap();
    wait_until("the mistake is told", || shown.text().contains("unknown fault 'lose'"));
    assert!(look(&launcher).iter().all(|device| device["fault"] == ""));
    stdin.write_all(b"floss=5% --for 3000s\n").unwrap();
    let is_shown =
        |text: &str| text.lines().any(|l| l.contains("ib_send_bw") && l.contains("loss=5%"));
    wait_until("the fault is shown", || is_shown(&shown.text()));
    let devices = look(&launcher);
    assert!(devices.iter().all(|device| device["fault"].as_str().unwrap().contains("loss=5%")));
    let lost = |device: &Value| device["counters"]["fault_lost"].as_u64().unwrap();
    wait_until("packets are lost", || look(&launcher).iter().any(|device| lost(device) > 0));
    assert!(shown.text().contains('█'), "the picture of the traffic");
    stdin.write_all(b"c").unwrap();
    wait_until("it is cleared", || look(&launcher).iter().all(|device| device["fault"] == ""));
    stdin.write_all(b"q").unwrap();
    wait_until("it leaves", || child.try_wait().unwrap().is_some());
    for running in [&client, &server] {
        kill_process(running.program_pid().unwrap(), Signal::KILL).unwrap();
    }
    assert_eq!((client.wait(LIMIT).code, server.wait(LIMIT).code), (137, 137));
}

#[test]
fn a_bad_interval_is_one_line() {
    let output = Launcher::new("").command().args(["top", "--interval", "0"]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(text.contains("'0'") && text.contains("86400") && text.lines().count() == 1, "{text}");
}
