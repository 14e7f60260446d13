//! Mooncake's transfer engine from its wheel on PyPI, without CUDA, on a RoCE device.

use std::path::Path;

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{Directions, LIMIT, exclusive};
use crate::pypi;

const PACKAGE: &str = "mooncake-transfer-engine-non-cuda";
const VERSION: &str = "0.3.13.post1";
const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";

/// Runs the transfers; `longest` is the last of the sizes, each of which is written and read.
fn run(longest: u64, faults: &str) {
    let python = pypi::install(PACKAGE, VERSION, &["--no-deps"]).join("bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mooncake/transfers.py");
    let what = format!("RoCE: WRITE and READ of two engines, 1 B to {longest} B");
    let mut case = Case::new(&Consumer::new(PACKAGE, VERSION, "PyPI"), &what, faults);
    let line = format!("{} {} 127.0.0.1 roce0 {longest}", python.display(), script.display());
    let outcome = case.launcher(DEVICE).start("mooncake", &line).wait(LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    outcome.assert_moved(Directions::Both);
    let moved = outcome.stdout.lines().find_map(|line| line.strip_prefix("transfers ok "));
    let moved: u64 = moved.and_then(|bytes| bytes.parse().ok()).expect("says what it moved");
    for bytes in ["rdma_write_bytes", "rdma_read_bytes"] {
        assert_eq!(outcome.counter(bytes), moved, "{bytes}\n{outcome}");
    }
    case.pass();
}

#[test]
fn engines_write_and_read_each_other() {
    let _one = exclusive();
    if pypi::is_wanted() {
        run(4 << 20, "");
        EACH_FAULT.iter().for_each(|faults| run(1 << 20, faults));
    }
}
