//! Ctrl-C: what is finished is shown and written, by every command that runs several scenarios or
//! seeds.
#![allow(clippy::disallowed_methods, reason = "real processes have a deadline in real time")]

mod common;

use common::{PROGRAM, SCENARIO, with_file};
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Returns a scenario that takes minutes.
fn endless() -> String {
    SCENARIO
        .replace("limit_ms = 10", "limit_ms = 60_000")
        .replace("bytes = 50_000", "bytes = 4_000_000_000")
}

/// Waits until the command has printed `text` on standard error, or kills it and fails; the rest of
/// its output is dropped.
fn wait_for(child: &mut Child, text: &str) {
    let mut stderr = child.stderr.take().expect("a pipe");
    let (sender, said) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = stderr.read(&mut buffer) {
            let _ = sender.send(String::from_utf8_lossy(&buffer[..count]).into_owned());
        }
    });
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut all = String::new();
    while !all.contains(text) {
        match said.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(part) => all += &part,
            Err(_) => {
                let _ = child.kill();
                panic!("{text:?} did not come: {all}");
            }
        }
    }
}

/// Returns the processor time that a process has used, in ticks of 10 ms.
fn ticks(child: &Child) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    fields.get(11).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = Command::new(PROGRAM);
    command.args(args).current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("the command starts")
}

/// Interrupts a command and returns its output; it must end with the exit code of Ctrl-C.
fn interrupt(child: Child) -> String {
    let pid = child.id().to_string();
    let kill = Command::new("kill").args(["-INT", &pid]).status().expect("kill");
    assert!(kill.success());
    let Output { status, stdout, .. } = child.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&stdout).into_owned();
    assert_eq!(status.code(), Some(130), "{text}");
    text
}

/// An interruption once kept nothing.
#[test]
fn an_interrupted_check_shows_the_scenarios_that_were_finished() {
    let folder = with_file(&endless());
    let path = folder.path();
    fs::write(path.join("quick.toml"), SCENARIO).expect("a file");
    let args = ["check", "quick.toml", "s.toml", "--jobs", "1", "--markdown", "t.md"];
    let mut child = start(path, &args);
    wait_for(&mut child, "quick.toml seed 2");
    let table = interrupt(child);
    assert!(table.contains("quick.toml") && !table.contains("\ns.toml"), "{table}");
    let page = fs::read_to_string(path.join("t.md")).expect("the table is written");
    assert!(page.contains("interrupted with 2 of 4 runs"), "{page}");
}

/// An interruption once kept nothing.
#[test]
fn an_interrupted_run_writes_the_seeds_that_were_finished() {
    // Seed 2 draws no transfer and ends at once. Those of seed 7 take minutes.
    let rare = "poisson]]\nload_percent = 50\nuntil_us = 200_000\nsizes = [[4_000_000_000, 100.0]]";
    let text = endless().replace("permutation]]\nbytes = 4_000_000_000", rare);
    let folder = with_file(&text.replace("[1, 2]", "[2, 7]"));
    let child = start(folder.path(), &["run", "s.toml", "--json", "r.json"]);
    let deadline = Instant::now() + Duration::from_secs(60);
    while ticks(&child) < 50 && Instant::now() < deadline {
        std::thread::yield_now();
    }
    let table = interrupt(child);
    assert!(table.contains("0/0"), "{table}");
    let json = fs::read(folder.path().join("r.json")).expect("results are written");
    let results: serde_json::Value = serde_json::from_slice(&json).expect("they are JSON");
    let runs = results["points"][0]["runs"].as_array().expect("runs");
    assert!(runs.len() == 1 && runs[0]["seed"] == 2, "{runs:?}");
}

/// An interruption once kept nothing.
#[test]
fn an_interrupted_paper_judges_only_experiments_that_were_finished() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = start(folder.path(), &["paper", "--quick", "--jobs", "1", "--out", "d"]);
    wait_for(&mut child, "[1/");
    let text = interrupt(child);
    assert!(text.contains("NOT MEASURED"), "{text}");
    let page = fs::read_to_string(folder.path().join("d/index.html")).expect("the page is written");
    assert!(page.contains("interrupted with "), "{page}");
    assert!(folder.path().join("d/results.json").is_file());
}
