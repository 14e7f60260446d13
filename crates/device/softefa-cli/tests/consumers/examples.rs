//! The programs of `examples/`, built as their README says, between two processes. They compare
//! every answer with the request.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, exclusive, free_port};

const PORTS: [&str; 2] = ["-p", "-p"];
const ROCE: &str = "--device roce0=127.0.0.1,profile=roce";

/// Builds the examples; returns the folder with the programs.
fn build() -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("examples");
    std::fs::create_dir_all(&out).unwrap();
    let output = Command::new("make")
        .arg("-C")
        .arg(source)
        .arg(format!("OUT={}", out.display()))
        .args(["CFLAGS=-O2 -Wall -Wextra -Werror", "CXXFLAGS=-O2 -Wall -Wextra -Werror"])
        .output()
        .expect("make runs (.ci/setup run)");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the examples do not build (.ci/setup run):\n{said}");
    out
}

/// Runs an example with messages of each size, with and without faults.
fn run(program: &str, language: &str, sizes: &[usize], rounds: u64) {
    let _one = exclusive();
    let program = build().join(program);
    let name = program.file_name().unwrap().to_string_lossy();
    for faults in ["", FAULTS] {
        let consumer = Consumer::new("examples", env!("CARGO_PKG_VERSION"), "this repository");
        let mut case = Case::new(&consumer, &format!("{name} ({language})"), faults);
        for bytes in sizes {
            let line = format!("{} -s {bytes} -n {rounds}", program.display());
            let (server, client) = case.launcher("").run_pair(&line, PORTS);
            for side in [&server, &client] {
                case.add(side);
                side.assert_clean();
                side.assert_moved(Directions::Both);
                let row = format!("{rounds} rounds of {bytes} bytes, ");
                assert!(side.stdout.starts_with(&row), "{side}");
                assert!(side.counter("recv_wrs") >= rounds, "fewer messages than rounds\n{side}");
            }
        }
        case.pass();
    }
}

#[test]
fn verbs_in_c() {
    run("srd_pingpong", "C, verbs", &[1, 64, 8928], 500);
}

#[test]
fn libfabric_in_cpp() {
    run("rdm_pingpong", "C++, libfabric", &[1, 8928, 1 << 20], 50);
}

#[test]
fn a_write_over_a_connection_in_c() {
    let _one = exclusive();
    let program = build().join("rdma_write");
    let consumer = Consumer::new("examples", env!("CARGO_PKG_VERSION"), "this repository");
    for faults in ["", FAULTS] {
        let mut case = Case::new(&consumer, "rdma_write (C, verbs and librdmacm)", faults);
        for bytes in [1, 1 << 20] {
            let (launcher, port) = (case.launcher(ROCE), free_port());
            let line = format!("{} -s {bytes} -p {port}", program.display());
            let mut target = launcher.start("target", &line);
            target.wait_until_bound(port);
            let writer = launcher.start("writer", &format!("{line} 127.0.0.1")).wait(LIMIT);
            let target = target.wait(LIMIT);
            for (side, row) in [(&writer, "bytes written"), (&target, "bytes came")] {
                case.add(side);
                side.assert_clean();
                side.assert_moved(Directions::Both);
                assert_eq!(side.stdout, format!("{bytes} {row}\n"), "{side}");
            }
            assert_eq!(writer.counter("rdma_write_bytes"), bytes, "{writer}");
        }
        case.pass();
    }
}
