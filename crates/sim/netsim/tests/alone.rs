//! Properties of every transport: no transfer is faster than the best possible time, and when it
//! begins makes no difference.
#![allow(clippy::unwrap_used, reason = "tests")]

mod common;

use common::with_file;
use netsim::{Outcome, Scenario};
use std::fmt::Write;
use std::fs;

const KINDS: [&str; 4] = ["srd", "tcp", "dctcp", "roce"];
/// Begin of a transfer of a trace, its hosts, and its bytes.
type Transfer = (u64, u32, u32, u64);

/// Runs a trace on two racks of eight hosts; some packets are marked.
fn run(transport: &str, transfers: &[Transfer]) -> Outcome {
    run_below(100, transport, transfers)
}

/// Runs a trace on the same racks below uplinks of so many Gbit/s.
fn run_below(uplink_gbps: u32, transport: &str, transfers: &[Transfer]) -> Outcome {
    let mut trace = "start_ns,src,dst,bytes\n".to_owned();
    for (start_ns, src, dst, bytes) in transfers {
        let _ = writeln!(trace, "{start_ns},{src},{dst},{bytes}");
    }
    let text = format!(
        "title = \"a trace\"\nseeds = [1]\nlimit_ms = 2_000\n\
         [topology.leaf_spine]\nracks = 2\nhosts_per_rack = 8\nspines = 4\n\
         [network]\ngbps = 100\nhop_ns = 1000\nbuffer_bytes = 539_500\npfc = {{}}\n\
         mark_above_bytes = 20_000\nrack_links = {{ gbps = {uplink_gbps} }}\n\
         [transport]\nkind = \"{transport}\"\nroce = {{ congestion = \"dcqcn\" }}\n\
         [[workload.trace]]\nfile = \"t.csv\"\n"
    );
    let folder = with_file(&text);
    fs::write(folder.path().join("t.csv"), trace).unwrap();
    Scenario::parse_in(&text, folder.path()).unwrap().run(1).unwrap()
}

/// Two hosts may have any number of transfers: 2^20 messages in all once were a panic.
#[test]
fn many_transfers_of_two_hosts_wait_for_each_other() {
    let transfers: Vec<Transfer> = (0..8_200).map(|_| (0, 0, 1, 600_000)).collect();
    let outcome = run("srd", &transfers);
    assert!(outcome.flows.iter().any(|flow| flow.completion_ps.is_some()));
}

fn completions_ps(outcome: &Outcome) -> Vec<u64> {
    outcome.flows.iter().map(|flow| flow.completion_ps.unwrap()).collect()
}

#[test]
fn nothing_is_faster_than_ideal_and_a_packet_alone_is_ideal() {
    for transport in KINDS {
        for bytes in [1, 2, 100, 4000, 4050, 4070, 4100, 5000, 8192, 50_000, 1_000_000] {
            for dst in [1, 9] {
                let flow = run(transport, &[(0, 0, dst, bytes)]).flows[0];
                let ratio = flow.completion_ps.unwrap() as f64 / flow.ideal_ps as f64;
                let case = format!("{bytes} bytes of {transport} to {dst}: {ratio}");
                assert!(ratio >= 1.0, "{case}");
                // SRD's clock counts nanoseconds.
                assert!(bytes > 4000 || ratio < 1.002, "{case}");
                // A pad is no delay.
                assert!(bytes > 4000 || transport != "roce" || ratio == 1.0, "{case}");
            }
        }
    }
}

/// Its best possible time once was that of all uplinks together: 4 times less.
#[test]
fn a_transport_of_one_path_is_at_best_as_fast_as_its_slowest_link() {
    for transport in KINDS {
        for bytes in [1, 2, 4000, 4050, 8192, 1_000_000, 20_000_000] {
            let flow = run_below(25, transport, &[(0, 0, 9, bytes)]).flows[0];
            let ps = flow.completion_ps.expect("it ends");
            let ratio = ps as f64 / flow.ideal_ps as f64;
            let case = format!("{bytes} bytes of {transport}: {ratio}");
            assert!(ratio >= 1.0, "{case}");
            assert!(bytes < 20_000_000 || !transport.ends_with("tcp") || ratio < 1.1, "{case}");
        }
    }
}

#[test]
fn a_trace_that_begins_later_takes_as_long() {
    for transport in KINDS {
        let incast = |start_ns: u64| -> Vec<Transfer> {
            (0..8).map(|host| (start_ns + u64::from(host) * 100, 8 + host, 0, 400_000)).collect()
        };
        let (first, later) = (run(transport, &incast(0)), run(transport, &incast(300_000_000)));
        assert_eq!(completions_ps(&first), completions_ps(&later), "{transport}");
    }
}
