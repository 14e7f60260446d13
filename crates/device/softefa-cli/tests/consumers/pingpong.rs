//! `fi_pingpong` through libfabric's `efa` provider, with data check.

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, Outcome, exclusive, has};

const PORTS: [&str; 2] = ["-B", "-P"];

fn case(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("libfabric-bin"), what, faults)
}

/// Runs all sizes and checks that each printed its row.
fn run(case: &mut Case, options: &str, endpoint: &str, extra: &str) {
    let line = format!("fi_pingpong -p efa -e {endpoint} -c {extra}");
    let (server, client) = case.launcher(options).run_pair(&line, PORTS);
    check(case, [&server, &client]);
}

/// Checks that both sides of a `fi_pingpong` of all sizes did their work on the device.
pub(crate) fn check(case: &mut Case, sides: [&Outcome; 2]) {
    for side in sides {
        case.add(side);
        side.assert_clean();
        side.assert_moved(Directions::Both);
        let rows = side.stdout.lines().skip_while(|line| !line.starts_with("bytes")).skip(1);
        assert!(rows.count() >= 4, "fewer sizes than expected\n{side}");
    }
}

#[test]
fn reliable_endpoints_of_all_sizes() {
    let _one = exclusive();
    if !has("fi_pingpong") {
        return;
    }
    for faults in ["", FAULTS] {
        let mut case = case("fi_pingpong -e rdm, messages and tagged, all sizes", faults);
        run(&mut case, "", "rdm", "-I 100");
        run(&mut case, "", "rdm", "-I 100 -m tagged");
        case.pass();
    }
}

#[test]
fn datagram_endpoints_of_all_sizes() {
    let _one = exclusive();
    if has("fi_pingpong") {
        let mut case = case("fi_pingpong -e dgram, all sizes", "");
        run(&mut case, "", "dgram", "-I 100");
        case.pass();
    }
}

#[test]
fn between_two_devices() {
    let _one = exclusive();
    if has("fi_pingpong") {
        let mut case = case("fi_pingpong between two devices", "");
        let devices = "--device rdmap0s6=127.0.0.1 --device rdmap1s6=127.0.0.2";
        run(&mut case, devices, "rdm", "-I 10");
        case.pass();
    }
}

#[test]
fn every_generation() {
    let _one = exclusive();
    if has("fi_pingpong") {
        let mut case = case("fi_pingpong on efa0, efa1 and efa2", "");
        for profile in ["efa0", "efa1", "efa2"] {
            run(&mut case, &format!("--profile {profile}"), "rdm", "-I 10");
        }
        case.pass();
    }
}
