//! Measurements of every node with each other one, between real processes.

use std::collections::BTreeSet;

use crate::common::{assert_fails, efa_bench, kill_a_server_of, on_soft_efa_with, points_of};
use serde_json::Value;

const BRIEF: &str = "-n 200 --blocks 1 -d 16";

/// Checks that every two nodes have both directions, each with this number of round trips and
/// messages.
#[track_caller]
fn check(point: &Value, nodes: u64, count: u64) {
    let matrix = &point["matrix"];
    assert_eq!(matrix["nodes"].as_array().map(Vec::len), Some(nodes as usize), "{point}");
    let pairs = matrix["pairs"].as_array().expect("pairs");
    let of = |pair: &Value| (pair["from"].as_u64(), pair["to"].as_u64());
    let found: BTreeSet<_> = pairs.iter().map(of).collect();
    let each =
        |from| (0..nodes).filter(move |to| *to != from).map(move |to| (Some(from), Some(to)));
    assert_eq!(found, (0..nodes).flat_map(each).collect());
    assert_eq!(pairs.len(), found.len());
    for pair in pairs {
        assert_eq!(pair["latency"]["round_trips"], count, "{pair}");
        assert_eq!(pair["bandwidth"]["messages"], count, "{pair}");
        let times = &pair["latency"]["distribution"];
        let us = |name: &str| times[name].as_f64().expect("a time");
        assert!(0.0 < us("min_us") && us("min_us") <= us("p50_us"), "{pair}");
        assert!(us("p50_us") <= us("p99_us") && us("p99_us") <= us("max_us"), "{pair}");
        assert!(pair["bandwidth"]["gbit_per_s"].as_f64() > Some(0.0), "{pair}");
    }
    // The whole is as fast as its slowest pair.
    let all = |of: fn(&Value) -> f64| pairs.iter().map(of);
    let slowest = all(|pair| pair["latency"]["distribution"]["p50_us"].as_f64().expect("a time"));
    let narrowest = all(|pair| pair["bandwidth"]["gbit_per_s"].as_f64().expect("a rate"));
    assert_eq!(point["latency"]["distribution"]["p50_us"], slowest.fold(0.0, f64::max), "{point}");
    let least = narrowest.fold(f64::INFINITY, f64::min);
    assert_eq!(point["bandwidth"]["gbit_per_s"], least, "{point}");
}

#[test]
fn every_pair_is_measured_in_both_directions() {
    for (nodes, fabric) in [(2, "sockets:tcp"), (4, "sockets:tcp"), (3, "libfabric:shm")] {
        let count = nodes.to_string();
        let all = format!("matrix --nodes {count} --fabric {fabric} -s 24,8192 -q");
        let found = points_of(format!("{all} {BRIEF}"));
        assert_eq!(found.len(), 2, "{fabric}");
        found.iter().for_each(|point| check(point, nodes, 200));
    }
}

#[test]
fn pairs_are_measured_on_soft_efa_though_messages_are_lost_and_overtake() {
    for (fabric, options) in
        [("verbs:srd", "--fault loss=2%,reorder=20%"), ("verbs:rc", "--roce --fault loss=1%")]
    {
        let all = format!("matrix --nodes 3 --fabric {fabric} -s 64 -q");
        let (output, packets) = on_soft_efa_with(options, format!("{all} {BRIEF}"));
        check(&output.points()[0], 3, 200);
        // Of each pair 200 round trips and 200 messages.
        assert!(packets > 6 * (400 + 200), "{fabric}: {packets} packets");
    }
}

#[test]
fn a_server_that_dies_in_a_turn_is_named() {
    kill_a_server_of("matrix -s 64,128");
}

#[test]
fn the_table_says_which_pair_is_the_worst() {
    let all = "local matrix --fabric sockets:tcp -s 64 --no-host-checks";
    let output = efa_bench(format!("{all} {BRIEF}"));
    let out = output.text();
    output.assert_done();
    let words = ["to node 0", "to node 2", "half round trip p50 µs", "▼ 64 B: slowest node "];
    assert!(words.iter().all(|word| out.contains(word)), "{out}");
    assert_fails(&efa_bench("local matrix --fabric tcp -s 8"), 2, &["24 B"]);
    let datagrams = "local matrix --fabric sockets:udp -s 64";
    assert_fails(&efa_bench(datagrams), 2, &["reliable"]);
}
