//! NIXL from its wheel on PyPI, without a GPU, on the UCX 1.23 that it brings; that one's libibverbs
//! has another name than the system's, and there is no libefa in it.

use std::path::{Path, PathBuf};

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, exclusive};
use crate::pypi;

const VERSION: &str = "1.5.1";
const AGENT: &str =
    "from nixl_cu12._api import *; nixl_agent('x', nixl_agent_config(backends=['UCX']))";

fn python() -> PathBuf {
    // It would bring all of torch along, which it needs for memory of GPUs only.
    pypi::install("nixl-cu12", VERSION, &["--no-deps", "numpy"]).join("bin/python")
}

fn consumer() -> Consumer {
    Consumer::new("nixl-cu12", VERSION, "PyPI")
}

#[test]
fn memory_is_written_read_and_told_of() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nixl/transfers.py");
    let words = [python(), script].map(|path| path.to_str().unwrap().to_owned());
    for faults in ["", FAULTS] {
        let what = "WRITE, READ and notifications of two agents, UCX 1.23 srd";
        let mut case = Case::new(&consumer(), what, faults);
        let session = case.session("--wire-only").with_env(&[("UCX_TLS", "srd,self")]);
        let outcome =
            session.start_words("nixl", &words.each_ref().map(String::as_str)).wait(LIMIT);
        case.add(&outcome);
        outcome.assert_clean();
        outcome.assert_moved(Directions::Both);
        for bytes in ["rdma_write_bytes", "rdma_read_bytes"] {
            assert_eq!(outcome.counter(bytes), 8 * (4 << 20), "{bytes}\n{outcome}");
        }
        case.pass();
    }
}

/// What `ucx_info -d` would show: no package has one that is new enough to know srd.
#[test]
fn ucx_lists_both_transports_of_the_device() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let mut case = Case::new(&consumer(), "UCX 1.23 lists srd and ud on the device", "");
    let env = [("UCX_TLS", "srd,ud_v,self"), ("UCX_LOG_LEVEL", "debug")];
    let session = case.session("").with_env(&env);
    let python = python();
    let outcome = session.start_words("ucx", &[python.to_str().unwrap(), "-c", AGENT]).wait(LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    for transport in ["srd", "ud_verbs"] {
        let row = format!("| + {transport:<8} | + rdmap0s6:1");
        assert!(outcome.stdout.contains(&row), "no {transport}\n{outcome}");
    }
    assert!(!outcome.stdout.contains("rc_verbs/rdmap0s6"), "an EFA has no RC\n{outcome}");
    case.pass();
}
