//! Python programs on pyverbs (`tests/pyverbs`), two processes each: every operation of the
//! extended calls with the data checked, and every status and errno that can be provoked.

use std::process::{Command, Stdio};

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{
    Directions, LIMIT, Launcher, Outcome, damage_counter, exclusive, free_port, has, is_sealed,
};

/// The distribution's own interpreter, the only one that pyverbs is built for.
pub(crate) const PYTHON: &str = "/usr/bin/python3";
const MAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyverbs/main.py");

const TRANSFERS: &str = "Messages Stream Reads Writes";
/// The cases that fail on one side and change nothing on the other.
const STATUSES: &str = "LocalKeys LocalPermission OtherDomain TooLong RemoteKeys \
     RemotePermission WrongQueueKey Destroyed NotReady ReadyLate ShortReceive Flushed \
     HandleDestroyed";
const REFUSALS: &str = "Refusals Full";

pub(crate) fn has_pyverbs() -> bool {
    let import = Command::new(PYTHON).args(["-c", "import pyverbs"]).stderr(Stdio::null()).status();
    // `has` reports what is missing, and fails in CI.
    import.is_ok_and(|status| status.success()) || has("python3-pyverbs")
}

fn case(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("python3-pyverbs"), what, faults)
}

/// Runs cases of `tests/pyverbs` between two processes, and returns responder and initiator.
fn pair(launcher: &Launcher, names: &str) -> [Outcome; 2] {
    let port = free_port();
    let start = |role| launcher.start(role, &format!("{PYTHON} -B {MAIN} {role} {port} {names}"));
    let mut responder = start("listen");
    responder.wait_until_listening(port);
    let initiator = start("connect").wait(LIMIT);
    [responder.wait(LIMIT), initiator]
}

/// Runs cases that both processes must survive.
fn passes(case: &mut Case, launcher: &Launcher, names: &str) {
    for side in pair(launcher, names) {
        case.add(&side);
        assert_passed(&side, names);
        side.assert_moved(Directions::Both);
    }
}

#[track_caller]
fn assert_passed(side: &Outcome, names: &str) {
    assert_eq!(side.code, 0, "{side}");
    for name in names.split_whitespace() {
        assert!(side.stdout.contains(&format!("{name}: passed")), "{name} did not run\n{side}");
    }
}

#[test]
fn every_operation_moves_the_data() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    for faults in ["", FAULTS] {
        let what = "extended calls: SEND, inline, with immediate data; READ, WRITE, \
             WRITE_WITH_IMM of 0 B to 4 MiB";
        let mut case = case(what, faults);
        let launcher = case.launcher("");
        passes(&mut case, &launcher, TRANSFERS);
        case.pass();
    }
}

#[test]
fn every_failure_has_its_status() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    // There are few packets, so that more of them must be lost for a fault to be seen.
    for faults in ["", "loss=10%,reorder=20%,dup=10%,seed=1"] {
        let mut case =
            case("status 1, 4, 5, 6, 7, 9, 10, 11 on purpose; nothing is written", faults);
        let launcher = case.launcher("");
        passes(&mut case, &launcher, STATUSES);
        assert!(case.counter("rx_rnr") > 0, "nobody was not ready");
        assert_eq!(case.counter("fault_lost") > 0, !faults.is_empty(), "loss");
        case.pass();
    }
}

#[test]
fn strict_targets_turn_strangers_away() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    let mut case = case("status 14 on purpose (--strict)", "");
    let launcher = case.launcher("--strict");
    passes(&mut case, &launcher, "UnknownPeer");
    case.pass();
}

#[test]
fn silence_and_death_have_their_statuses() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    let mut case = case("status 9, 13, 15: peers that were killed, stopped or never there", "");
    let launcher = case.launcher("");
    passes(&mut case, &launcher, "Silent");
    let [killed, initiator] = pair(&launcher, "Killed");
    case.add(&initiator);
    assert_eq!((killed.code, initiator.code), (137, 0), "{killed}\n{initiator}");
    case.pass();
}

#[test]
fn mistakes_are_refused_with_the_device_s_errno() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    let mut case = case("errno of wrong work requests, states, objects and full queues", "");
    let launcher = case.launcher("");
    passes(&mut case, &launcher, REFUSALS);
    let first_generation = case.launcher("--profile efa0");
    passes(&mut case, &first_generation, "NoRdma");
    case.pass();
}

/// The faults, the cases that show them, and the counters that they must raise.
const PROVOKED: [(&str, &str, &str); 8] = [
    ("--fault internal=100%", "Internal", "fault_internal"),
    ("--fault rnr=100%", "NeverReady", "fault_rnr"),
    ("--fault qpn-reuse", "Successor", "tx_pkts"),
    ("--fault blackhole=all", "Swallowed", "fault_blackholed"),
    ("--fault corrupt=100%", "Corrupted", "fault_corrupted"),
    ("--fault corrupt=2%,seed=1 --integrity crc32c", TRANSFERS, "rx_crc_errors"),
    ("--fault mangle=2%,seed=1", TRANSFERS, "rx_crc_errors"),
    ("--fault rnr=20%,seed=1", TRANSFERS, "fault_rnr"),
];

#[test]
fn faults_end_calls_that_are_all_right_or_do_not_show() {
    let _one = exclusive();
    if !has_pyverbs() {
        return;
    }
    let what =
        "internal, rnr, qpn-reuse, blackhole, corrupt, mangle with --fault, --integrity crc32c";
    let mut case = case(what, "");
    for (options, names, counter) in PROVOKED {
        if is_sealed() && names == "Corrupted" {
            continue; // No altered byte is delivered.
        }
        let counter = if counter == "rx_crc_errors" { damage_counter() } else { counter };
        let launcher = case.launcher(options);
        let before = case.counter(counter);
        for side in pair(&launcher, names) {
            case.add(&side);
            assert_passed(&side, names);
        }
        assert!(case.counter(counter) > before, "{options}: {counter} stayed 0");
    }
    case.pass();
}
