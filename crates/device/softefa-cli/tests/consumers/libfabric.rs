//! libfabric's `efa` provider through the tests of `fabric` (`crates/ffi/fabric/tests/peers`): all
//! operations of an endpoint between two processes, with the data checked.

use std::path::PathBuf;
use std::sync::OnceLock;

use serde_json::Value;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, exclusive, is_long};

/// Returns the tests of `fabric` between two processes, built from the present sources.
fn peers() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let mut cargo = nested_cargo::command();
        cargo.args(["test", "--quiet", "--workspace", "--test", "peers", "--no-run"]);
        let output = cargo.arg("--message-format=json").output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "fabric's tests do not build\n{said}");
        let messages = String::from_utf8(output.stdout).unwrap();
        let messages = messages.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut built = messages.filter(|message| message["target"]["name"] == "peers");
        built.find_map(|message| message["executable"].as_str().map(PathBuf::from)).unwrap()
    })
}

/// Runs the tests whose name contains `filter`, on a device of `profile`, and returns the sum of
/// the counters of all processes. `rdma` says whether libfabric may use the device's RDMA.
fn run(case: &mut Case, filter: &str, profile: &str, rdma: bool) {
    let launcher = case.launcher(&format!("--profile {profile}"));
    let rdma = format!("FI_EFA_USE_DEVICE_RDMA={}", u8::from(rdma));
    let program = peers().to_str().unwrap();
    let words = ["env", "FABRIC_TEST_PROVIDER=efa", &rdma, program, filter, "--test-threads=1"];
    let outcome = launcher.start_words("peers", &words).wait(3 * LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains(" 0 failed; 0 ignored"), "{outcome}");
    assert!(!outcome.stdout.contains("running 0 tests"), "no test is called {filter}\n{outcome}");
    assert!(!outcome.stderr.contains("SKIPPED"), "{outcome}");
    outcome.assert_moved(Directions::Both);
}

fn case(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("libfabric1"), what, faults)
}

/// Returns the faults to run with: those named in CI, all of them in the long form.
fn faults(short: &'static [&'static str]) -> &'static [&'static str] {
    if is_long() { &["", FAULTS] } else { short }
}

#[test]
fn messages() {
    let _one = exclusive();
    for faults in ["", FAULTS] {
        let what = "messages of 0 B to 64 MiB, tagged, inject, data, delivery complete, sources, \
             multi-receive (device RDMA READ)";
        let mut case = case(what, faults);
        run(&mut case, "messages::", "efa2", true);
        assert!(case.counter("rdma_read_bytes") > 64 << 20, "long messages are pulled by READs");
        case.pass();
    }
    for faults in faults(&[]) {
        let mut case = case("the same without RDMA (efa0)", faults);
        run(&mut case, "messages::", "efa0", false);
        assert_eq!(case.counter("rdma_read_wrs"), 0);
        case.pass();
    }
}

#[test]
fn memory_of_peers() {
    let _one = exclusive();
    for faults in faults(&[FAULTS]) {
        let mut case = case("RMA read and write of 1 B to 16 MiB, on the device (efa1)", faults);
        run(&mut case, "rma::", "efa1", true);
        assert!(case.counter("rdma_read_bytes") > 16 << 20, "reads go through the device");
        case.pass();
    }
    for faults in faults(&[""]) {
        let mut case = case("RMA read and write of 1 B to 16 MiB, emulated (efa0)", faults);
        run(&mut case, "rma::", "efa0", false);
        assert_eq!(case.counter("rdma_read_wrs"), 0);
        case.pass();
    }
}

#[test]
fn atomics() {
    let _one = exclusive();
    for faults in faults(&[FAULTS]) {
        let mut case = case("atomics: every operation, every type, fetching, comparing", faults);
        run(&mut case, "atomics::", "efa2", true);
        case.pass();
    }
}
