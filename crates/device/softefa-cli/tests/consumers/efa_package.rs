//! The `efa` package of PyPI: Python bindings that open libibverbs and libefa by name.

use std::path::Path;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, rdma_on_the_wire};
use crate::pypi;

const VERSION: &str = "2026.10.22";

fn run(launcher: &Launcher) -> Outcome {
    let python = pypi::install("efa", VERSION, &[]).join("bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/efa/transfers.py");
    let words = [python, script].map(|path| path.to_str().unwrap().to_owned());
    launcher.start_words("efa", &words.each_ref().map(String::as_str)).wait(LIMIT)
}

#[test]
fn transfers_between_processes() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let consumer = Consumer::new("efa", VERSION, "PyPI");
    for faults in ["", FAULTS] {
        let mut case = Case::new(&consumer, "SEND, RDMA READ and WRITE of two processes", faults);
        let outcome = run(&case.launcher(rdma_on_the_wire()));
        case.add(&outcome);
        outcome.assert_clean();
        outcome.assert_moved(Directions::Both);
        assert_eq!(outcome.counter("send_wrs"), 600, "{outcome}");
        assert_eq!(outcome.counter("rdma_write_recv_bytes"), 512 << 10, "{outcome}");
        case.pass();
    }
}

/// A library that is only preloaded is not found by name, which is why there are versioned
/// libraries.
#[test]
fn preloading_alone_does_not_reach_it() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let outcome = run(&Launcher::new("--replace-verbs=no"));
    assert_ne!(outcome.code, 0, "{outcome}");
    assert!(outcome.counters["processes"].as_array().unwrap().is_empty(), "{outcome}");
}
