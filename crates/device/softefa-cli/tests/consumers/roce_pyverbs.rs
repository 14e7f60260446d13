//! Scripts on pyverbs (`tests/pyverbs_roce`), one per object of verbs, on a RoCE device. Each
//! checks the data that arrive and the calls that are refused; all but `cmid` have both ends in one
//! process.

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{LIMIT, exclusive, free_port, is_long};
use crate::pyverbs::{PYTHON, has_pyverbs};
use crate::rdma_core::unpack;

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyverbs_roce");
/// A device with a port for the largest packets.
const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
/// The number of rdma-core's tests of memory windows.
const WINDOWS: usize = 8;
/// The scripts that lose nothing for good, whatever the network does. Others provoke refusals,
/// which are sent once: an end that loses one ends with status 12.
const RELIABLE: [&str; 4] = ["cq", "channel", "srq", "cmid"];

fn run(object: &str, case: &mut Case) {
    let line = format!("{PYTHON} -B {SCRIPTS}/{object}.py 127.0.0.1 {}", free_port());
    let outcome = case.launcher(DEVICE).start(object, &line).wait(LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(outcome.stdout, format!("{object}: passed\n"), "{outcome}");
}

#[test]
fn each_object_of_pyverbs_does_its_work() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    let objects = ["context", "pd", "mr", "mw", "cq", "channel", "ah", "qp", "srq", "cmid"];
    for object in objects {
        let what = format!("RoCE: {object}");
        let mut case = Case::new(&Consumer::debian("python3-pyverbs"), &what, "");
        run(object, &mut case);
        if object == "context" { case.pass_without_traffic() } else { case.pass() }
    }
}

/// Windows of both kinds are bound, used, taken away by either side, and then refused.
#[test]
fn tests_of_rdma_core_bind_windows() {
    let _one = exclusive();
    let dir = tempfile::tempdir().unwrap();
    if !has_pyverbs() || unpack(dir.path()).is_none() {
        return;
    }
    let what = "RoCE: rdma-core's own tests of memory windows";
    let mut case = Case::new(&Consumer::debian("python3-pyverbs"), what, "");
    let root = dir.path().to_str().unwrap();
    let names = "tests.test_mr.MWTest tests.test_qpex.QpExTestCase.test_qp_ex_rc_bind_mw";
    let script = format!(
        "cd {root} && PYTHONPATH={root} {PYTHON} -B tests/run_tests.py -v {names} --dev roce0 --port 1 --gid 0"
    );
    let outcome = case.launcher(DEVICE).start_words("suite", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    let passed = outcome.stderr.lines().filter(|line| line.ends_with("ok")).count();
    assert_eq!(passed, WINDOWS, "{outcome}");
    case.add(&outcome);
    case.pass();
}

/// A script sends few packets, so that the faults of all scripts are summed.
#[test]
fn objects_of_reliable_connections_under_faults() {
    let _one = exclusive();
    if !has_pyverbs() || !is_long() {
        return;
    }
    for faults in EACH_FAULT {
        let what = format!("RoCE: {}", RELIABLE.join(", "));
        let mut case = Case::new(&Consumer::debian("python3-pyverbs"), &what, faults);
        RELIABLE.iter().for_each(|object| run(object, &mut case));
        case.pass();
    }
}
