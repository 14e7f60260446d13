//! The tests of rdma-core for verbs and its EFA provider, unchanged. Each has both ends in one
//! process.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{LIMIT, Outcome, exclusive, is_long};
use crate::pyverbs::{PYTHON, has_pyverbs};

/// The directory into which python3-pyverbs puts the tests.
const SUITE: &str = "/usr/share/doc/rdma-core/tests";
/// The least number of tests that are not about other devices or about features that EFA lacks.
/// Some choose the attributes of a queue pair at random, and skip themselves if no EFA has them.
const OURS: u32 = 50;

/// Unpacks the tests below `dir`; returns `None`, and reports a skip, if they are not installed.
pub(crate) fn unpack(dir: &Path) -> Option<()> {
    let Ok(entries) = fs::read_dir(SUITE) else {
        let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
        assert!(!ci, "{SUITE} is missing: python3-pyverbs without its documents");
        eprintln!("SKIPPED, NOT TESTED: {SUITE} is missing");
        return None;
    };
    let tests = dir.join("tests");
    fs::create_dir(&tests).unwrap();
    for entry in entries.flatten() {
        fs::copy(entry.path(), tests.join(entry.file_name())).unwrap();
    }
    let files = fs::read_dir(&tests).unwrap().flatten().map(|entry| entry.path());
    let packed = files.filter(|path| path.extension().is_some_and(|end| end == "gz"));
    let gunzip = Command::new("gunzip").args(packed).status();
    assert!(gunzip.is_ok_and(|status| status.success()), "gunzip failed");
    Some(())
}

/// Returns the number behind `words` in the summary.
fn number(outcome: &Outcome, words: &str) -> u32 {
    let end = outcome.stderr.rsplit_once(words).map_or("", |(_, end)| end);
    end.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
}

/// Runs the tests of `names` (empty: all), and returns how many ran and how many skipped
/// themselves.
fn run(what: &str, faults: &str, names: &str) -> Option<(Case, Outcome, [u32; 2])> {
    let dir = tempfile::tempdir().unwrap();
    if !has_pyverbs() || unpack(dir.path()).is_none() {
        return None;
    }
    let mut case = Case::new(&Consumer::debian("python3-pyverbs"), what, faults);
    let launcher = case.launcher("");
    let root = dir.path().to_str().unwrap();
    let script =
        format!("cd {root} && PYTHONPATH={root} {PYTHON} -B tests/run_tests.py -v {names}");
    let outcome = launcher.start_words("suite", &["sh", "-c", &script]).wait(2 * LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    let skipped = number(&outcome, "OK (skipped=");
    let ran = number(&outcome, "\nRan ") - skipped;
    Some((case, outcome, [ran, skipped]))
}

#[test]
fn every_test_passes_or_skips_itself() {
    let _one = exclusive();
    let Some((mut case, outcome, [ran, skipped])) = run("rdma-core's own tests", "", "") else {
        return;
    };
    assert!(ran >= OURS, "only {ran} ran\n{outcome}");
    for ours in ["QPSRDTestCase.test_qp_ex_srd_rdma_read", "EfaCqTest.test_dv_cq_ex_with_sgid"] {
        let passed = outcome.stderr.lines().any(|line| line.contains(ours) && line.ends_with("ok"));
        assert!(passed, "{ours} did not run\n{outcome}");
    }
    let note = "run; the others are about what other devices have, and skip themselves";
    case.note(&format!("{ran} of {} {note}", ran + skipped));
    case.pass();
}

/// The tests of UD are left out, because it may lose messages that they wait for.
#[test]
fn reliable_ones_pass_under_faults() {
    let _one = exclusive();
    if !is_long() {
        return;
    }
    let what = "rdma-core's own tests for SRD";
    let Some((case, outcome, [ran, _])) = run(what, FAULTS, "tests.test_efa_srd") else {
        return;
    };
    assert!(ran >= 11, "only {ran} ran\n{outcome}");
    case.pass();
}
