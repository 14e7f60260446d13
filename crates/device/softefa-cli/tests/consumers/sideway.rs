//! The Rust crate sideway for verbs and the connection manager on a RoCE device: its examples and
//! its tests, unchanged. Only `make consumers` runs it, because it is downloaded and built.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{Directions, LIMIT, exclusive, has};
use crate::pypi;

/// The number of rounds of a ping-pong, in which each lost message waits for a timer.
const ROUNDS: u32 = 40;
const VERSION: &str = "0.4.3";
/// A device for its tests of connection addresses, which require an interface that is not loopback.
const DEVICE: &str = "--roce";
/// The test of compiler messages on wrong programs.
const ABOUT_THE_COMPILER: &str = "compiletest";

fn consumer() -> Consumer {
    Consumer::new("sideway", VERSION, "crates.io")
}

fn cargo(words: &[&str], manifest: &Path) -> Vec<Value> {
    let mut command = nested_cargo::command();
    // Four fifths of the output of the build are for debuggers.
    command.args(words).arg("--manifest-path").arg(manifest).env("CARGO_PROFILE_DEV_DEBUG", "0");
    let output = command.output();
    let output = output.unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {words:?} (.ci/setup consumers):\n{said}");
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns the sources of the crate, which are copied once from cargo's downloads.
fn sources() -> PathBuf {
    let sources = pypi::directory().join(format!("sideway-{VERSION}"));
    let manifest = sources.join("Cargo.toml");
    if manifest.is_file() {
        return manifest;
    }
    let probe = tempfile::tempdir().unwrap();
    let wanted = probe.path().join("Cargo.toml");
    let text = format!(
        "[package]\nname = \"wanted\"\nedition = \"2024\"\n[lib]\npath = \"lib.rs\"\n\
         [dependencies]\nsideway = \"={VERSION}\"\n"
    );
    std::fs::write(&wanted, text).unwrap();
    std::fs::write(probe.path().join("lib.rs"), "").unwrap();
    let metadata = cargo(&["metadata", "--format-version", "1"], &wanted);
    let packages = metadata[0]["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "sideway").unwrap();
    let from = Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
    let status = Command::new("cp").arg("-r").arg(from).arg(&sources).status().unwrap();
    assert!(status.success(), "{} is not copied", from.display());
    // The copy lies below another workspace.
    let mut file = OpenOptions::new().append(true).open(&manifest).unwrap();
    file.write_all(b"\n[workspace]\n").unwrap();
    manifest
}

/// Returns the programs that cargo builds of the crate with these words.
fn programs(words: &[&str]) -> Vec<String> {
    let messages = cargo(&[words, &["--message-format=json", "--locked"]].concat(), &sources());
    let programs = messages.iter().filter_map(|message| message["executable"].as_str());
    programs.map(str::to_owned).collect()
}

#[test]
fn examples_of_sideway_exchange_messages() {
    let _one = exclusive();
    if !pypi::is_wanted() || !has("cmake") {
        return;
    }
    let examples = programs(&["build", "--examples"]);
    for name in ["rc_pingpong", "rc_pingpong_split"] {
        let program = examples.iter().find(|path| path.ends_with(&format!("/{name}"))).unwrap();
        for faults in ["", EACH_FAULT[0], EACH_FAULT[1], EACH_FAULT[2]] {
            let what = format!("RoCE: {name}");
            let mut case = Case::new(&consumer(), &what, faults);
            let line = format!("{program} -s 4096 -n {ROUNDS}");
            let (server, client) = case.launcher(DEVICE).run_pair(&line, ["-p", "-p"]);
            for side in [server, client] {
                case.add(&side);
                side.assert_clean();
                side.assert_moved(Directions::Both);
                assert!(side.stdout.contains(&format!("{ROUNDS} iters in ")), "{side}");
            }
            case.pass();
        }
    }
}

#[test]
fn tests_of_sideway_pass() {
    let _one = exclusive();
    if !pypi::is_wanted() || !has("cmake") {
        return;
    }
    let mut case = Case::new(&consumer(), "RoCE: its own tests", "");
    let mut passed = 0;
    let tests = programs(&["test", "--no-run"]);
    let is_wanted = |path: &&String| path.contains("/deps/") && !path.contains(ABOUT_THE_COMPILER);
    for test in tests.iter().filter(is_wanted) {
        let outcome = case.launcher(DEVICE).start("tests", test).wait(LIMIT);
        assert_eq!(outcome.code, 0, "{outcome}");
        passed += outcome.stdout.lines().filter(|line| line.ends_with("... ok")).count();
        case.add(&outcome);
    }
    assert!(passed >= 68, "only {passed} ran");
    case.note(&format!("{passed}, without the one about the compiler's messages"));
    case.pass();
}
