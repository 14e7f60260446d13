//! Data-system workloads with real processes: every call is answered, with the value asked for.

mod common;

use common::{assert_fails, efa_bench, on_soft_efa, on_soft_efa_with, points, points_of};

const CALLS: u64 = 1_000;
/// A tenth more, for warming up.
const CALLS_MADE: u64 = 1_100;

fn number(point: &serde_json::Value, name: &str) -> f64 {
    point["work"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {point}"))
}

/// Calls of one kind.
fn calls(point: &serde_json::Value, action: &str) -> u64 {
    let actions = point["work"]["actions"].as_array().expect("actions");
    let own = actions.iter().filter(|own| own["name"] == action);
    own.filter_map(|own| own["calls"].as_u64()).sum()
}

#[test]
fn calls_are_answered_over_sockets_whatever_their_length_and_manner() {
    for manner in [
        &["rpc", "-d", "1,7"][..],
        &["rpc", "-d", "8", "--post-list", "4", "--request", "300"],
        &["rpc", "-d", "4", "--threads", "2", "--endpoints", "3", "--zipf", "0.99"],
        &["kv", "-d", "8", "--gets", "50"],
        &["kv", "-d", "4", "--gets", "0", "--post-list", "2"],
        &["kv", "-d", "16", "--gets", "95", "--zipf", "0.5", "--rate", "1000000"],
    ] {
        let mut all = manner.to_vec();
        // The last is read in place, not through the staging buffer.
        all.extend(["--fabric", "tcp", "-s", "8,32,1000,100000", "--keys", "500"]);
        all.extend(["-n", "1000", "--validate"]);
        let found = points_of(&all);
        assert!(found.len() >= 4, "{all:?}: {found:?}");
        for point in &found {
            assert!(point["validated"].as_u64() >= Some(CALLS_MADE), "{all:?}: {point}");
            assert!(number(point, "calls") > 0.0 && number(point, "bytes_per_call") > 0.0);
        }
    }
}

#[test]
fn gets_and_puts_have_their_shares_and_open_loops_say_how_late_they_are() {
    let kv = ["kv", "--fabric", "tcp", "-n", "10000", "-d", "8", "--keys", "100", "--seed", "5"];
    let point = &points_of(&[&kv[..], &["--gets", "80"]].concat())[0];
    let (gets, puts) = (calls(point, "get") as f64, calls(point, "put") as f64);
    // Far outside of what chance does: the deviation is 0.4 %.
    assert!((gets / (gets + puts) - 0.8).abs() < 0.04, "{gets} gets, {puts} puts");
    assert!(point["work"].get("behind_ms").is_none());
    // Nobody makes a thousand million calls a second: each is due before there is room for it.
    let point = &points_of(&[&kv[..], &["--rate", "1000000000"]].concat())[0];
    assert!(number(point, "behind_ms") > 0.0, "{point}");
    assert_eq!(point["work"]["arrivals"], "poisson");
    assert_eq!(point["rate_per_s"], 1_000_000_000);
}

#[test]
fn calls_go_over_soft_efa_as_packets() {
    for fabric in ["libfabric:efa", "verbs:srd"] {
        for benchmark in ["rpc", "kv"] {
            let (output, packets) = on_soft_efa(&[
                benchmark,
                "--fabric",
                fabric,
                "-n",
                "1000",
                "-s",
                "32,4000",
                "-d",
                "8",
                "--keys",
                "500",
                "--validate",
            ]);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{fabric} {benchmark}: {errors}");
            let points = points(&output);
            assert_eq!(points.len(), 2, "{fabric} {benchmark}");
            for point in &points {
                assert!(number(point, "calls") <= CALLS_MADE as f64 && calls(point, "get") > 0);
                assert!(number(point, "server_cpu_ns") > 0.0, "{point}");
            }
            // A call and a reply each; every one was checked.
            assert!(packets >= 4 * CALLS, "{fabric} {benchmark}: {packets} packets");
        }
    }
}

#[test]
fn values_that_the_fabric_damages_are_noticed() {
    for benchmark in ["rpc", "kv"] {
        let (output, _) = on_soft_efa_with(
            &["--fault", "corrupt=5%,seed=3"],
            &[
                benchmark,
                "--fabric",
                "verbs:srd",
                "-n",
                "5000",
                "-s",
                "1000",
                "-d",
                "8",
                "--keys",
                "100",
                "--validate",
                "-q",
            ],
        );
        assert_fails(&output, 9, &["damages data"]);
    }
}

#[test]
fn what_is_not_for_calls_is_refused_in_one_line() {
    for (arguments, words) in [
        (&["latency", "--keys", "9"][..], ["--keys", "not for this"]),
        (&["rpc", "--gets", "50"], ["--gets", "not for this"]),
        (&["kv", "--request", "64"], ["--request", "not for this"]),
        (&["rpc", "--request", "15"], ["--request 15", "16 bytes"]),
        (&["kv", "--gets", "101"], ["--gets 101", "0 to 100"]),
        (&["kv", "--zipf", "1.5"], ["--zipf 1.5", "0.99"]),
        (&["rpc", "--fabric", "udp"], ["rpc", "reliable"]),
        (&["rpc", "--op", "inject"], ["--op inject", "calls"]),
        (&["rpc", "-d", "8", "--window", "refill"], ["--window", "streams"]),
        (&["rpc", "-d", "8", "--rate", "9", "--post-list", "2"], ["--rate", "--post-list"]),
        (&["rpc", "--fabric", "tcp", "-s", "7"], ["7 B", "value"]),
        (&["kv", "--fabric", "tcp", "--keys", "5G"], ["--keys", "at most"]),
    ] {
        let mut all = vec!["local"];
        all.extend(arguments);
        all.extend(["-q", "-n", "20"]);
        assert_fails(&efa_bench(&all), 2, &words);
    }
}

#[test]
fn a_point_may_last_longer_than_the_silence_that_is_tolerated() {
    let manner = ["-t", "0.6", "-w", "0", "--blocks", "1", "--timeout", "0.5", "-d", "4"];
    let rpc = ["rpc", "--fabric", "tcp", "--keys", "100"];
    let points = points_of(&[&rpc[..], &manner].concat());
    assert!(number(&points[0], "seconds") >= 0.6, "{points:?}");
}
