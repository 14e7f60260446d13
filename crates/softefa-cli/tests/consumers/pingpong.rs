//! `fi_pingpong` through libfabric's `efa` provider, with data check.

use crate::harness::{Directions, Outcome, Session, exclusive, has};

const PORTS: [&str; 2] = ["-B", "-P"];
const FAULTS: &str = "--fault loss=1%,reorder=20%,dup=1%,seed=1";

/// Runs all sizes and checks that each printed its row.
fn run(options: &str, endpoint: &str, extra: &str) -> (Outcome, Outcome) {
    let line = format!("fi_pingpong -p efa -e {endpoint} -c {extra}");
    let (server, client) = Session::new(options).run_pair(&line, PORTS);
    for side in [&server, &client] {
        side.assert_clean();
        side.assert_moved(Directions::Both);
        let rows = side.stdout.lines().skip_while(|line| !line.starts_with("bytes")).skip(1);
        assert!(rows.count() >= 4, "fewer sizes than expected\n{side}");
    }
    (server, client)
}

#[test]
fn reliable_endpoints_of_all_sizes() {
    let _one = exclusive();
    if has("fi_pingpong") {
        run("", "rdm", "-I 100");
        run("", "rdm", "-I 100 -m tagged");
    }
}

#[test]
fn datagram_endpoints_of_all_sizes() {
    let _one = exclusive();
    if has("fi_pingpong") {
        run("", "dgram", "-I 100");
    }
}

#[test]
fn between_two_devices() {
    let _one = exclusive();
    if has("fi_pingpong") {
        run("--device rdmap0s6=127.0.0.1 --device rdmap1s6=127.0.0.2", "rdm", "-I 10");
    }
}

#[test]
fn every_generation() {
    let _one = exclusive();
    if has("fi_pingpong") {
        for profile in ["efa0", "efa1", "efa2"] {
            run(&format!("--profile {profile}"), "rdm", "-I 10");
        }
    }
}

#[test]
fn loss_reordering_and_duplicates_do_not_show() {
    let _one = exclusive();
    if !has("fi_pingpong") {
        return;
    }
    let (server, client) = run(FAULTS, "rdm", "-I 100");
    for name in ["fault_lost", "fault_reordered", "fault_duplicated", "retrans_pkts"] {
        let count = server.counter(name) + client.counter(name);
        assert!(count > 0, "{name} stayed 0: nothing was provoked\n{client}");
    }
}
