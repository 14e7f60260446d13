//! Incast between real processes: every byte comes once, times and shares belong together.

use crate::common::{assert_fails, kill_a_server_of, on_soft_efa, on_soft_efa_with, points_of};
use serde_json::Value;

fn number(value: &Value, path: &str) -> f64 {
    let found = path.split('.').fold(value, |value, name| &value[name]);
    found.as_f64().unwrap_or_else(|| panic!("no {path} in {value}"))
}

/// Checks bursts of this many flows, whatever the fabric.
fn check_bursts(point: &Value, flows: u64) {
    assert_eq!(point["incast"]["flows"], flows, "{point}");
    let bursts = |name: &str| number(point, &format!("incast.bursts.{name}"));
    let least = bursts("min_to_ideal");
    let (mean, most) = (bursts("mean_to_ideal"), bursts("max_to_ideal"));
    assert!(bursts("bursts") >= 1.0 && bursts("ideal_us") > 0.0, "{point}");
    assert!(0.0 < least && least <= mean && mean <= most, "{point}");
    assert!(most <= bursts("worst_to_ideal"), "{point}");
    // One of n has everything, or all are equal.
    let jain = bursts("jain");
    assert!(jain > 0.999 / flows as f64 && jain < 1.001, "{point}");
    assert!(number(point, "bandwidth.gbit_per_s") > 0.0, "{point}");
    let transfers = number(point, "work.calls");
    assert!(transfers >= bursts("bursts") * flows as f64, "{point}");
}

#[test]
fn bursts_are_whole_whatever_their_shape() {
    for (nodes, endpoints, manner) in [
        (2, 1, "-s 1,65536 -d 1"),
        // Shorter than a chunk: what one flow moves alone is longer.
        (2, 3, "-s 100 -d 4"),
        (3, 4, "-s 7,100000 -d 16 --chunk 1000,8K"),
        (5, 2, "-s 100000 -d 8 --chunk 64K"),
    ] {
        let all = format!("incast --nodes {nodes} --endpoints {endpoints} {manner}");
        for point in &points_of(format!("{all} --fabric tcp -n 40 --validate -q")) {
            let flows = (nodes - 1) * endpoints;
            check_bursts(point, flows);
            assert!(point["validated"].as_u64() >= Some(40), "{point}");
            // TCP keeps the order.
            assert_eq!(point["disorder"]["overtaken"], 0, "{point}");
            assert_eq!(point["incast"]["ideal_from"], "single_flow", "{point}");
        }
    }
}

#[test]
fn the_ideal_time_is_that_of_the_link_where_it_is_known() {
    let few = "incast --fabric tcp -s 125000 -n 24 --endpoints 5 -q";
    let point = &points_of(format!("{few} --link-gbit 2.5"))[0];
    check_bursts(point, 10);
    assert_eq!(point["incast"]["ideal_from"], "link", "{point}");
    // 10 Mbit at 2.5 Gbit/s.
    assert!((number(point, "incast.bursts.ideal_us") - 4_000.0).abs() < 1e-6, "{point}");
}

/// Checks the shares of this many flows that send all the time.
fn check_shares(point: &Value, flows: usize) {
    let shares = &point["incast"]["shares"];
    let rates = shares["flows_gbps"].as_array().expect("flows");
    assert_eq!(rates.len(), flows, "{point}");
    let intervals = rates[0].as_array().expect("intervals").len();
    assert!(intervals >= 2, "{point}");
    let of = |flow: &Value| -> Vec<f64> {
        flow.as_array().expect("intervals").iter().filter_map(Value::as_f64).collect()
    };
    let all: Vec<f64> = rates.iter().flat_map(of).collect();
    assert_eq!(all.len(), flows * intervals, "{point}");
    let fair = all.iter().sum::<f64>() / all.len() as f64;
    assert!(fair > 0.0 && (number(shares, "fair_gbps") / fair - 1.0).abs() < 1e-9, "{point}");
    let (worst, jain) = (number(shares, "jain_worst"), number(shares, "jain"));
    assert!(jain > 0.0 && jain < 1.001 && worst < 1.001, "{point}");
    assert!(number(shares, "min_to_fair") <= number(shares, "flow_min_to_fair"), "{point}");
    assert!(number(shares, "max_to_fair") >= 0.999, "{point}");
    assert!(point["incast"]["bursts"].is_null(), "{point}");
}

#[test]
fn flows_that_send_all_the_time_share_the_receiver() {
    let shares = "incast --persistent --fabric tcp -s 64K --interval-ms 20";
    check_shares(&points_of(format!("{shares} -t 0.1 -w 0.02 --blocks 1 --validate -q"))[0], 8);
}

#[test]
fn incast_runs_over_shared_memory_and_soft_efa() {
    let few = "incast -s 1000,50000 -d 8 -n 60 --validate -q";
    let shm = points_of(format!("{few} -p shm --chunk 4K"));
    shm.iter().for_each(|point| check_bursts(point, 8));
    for (fabric, endpoints, flows) in [("verbs:srd", "4", 8), ("libfabric:efa", "1", 2)] {
        let manner = format!("--fabric {fabric} --endpoints {endpoints}");
        let (output, packets) = on_soft_efa(format!("{few} {manner}"));
        let found = output.points();
        assert_eq!(found.len(), 2, "{fabric}");
        found.iter().for_each(|point| check_bursts(point, flows));
        // 7 messages of a transfer, 60 transfers.
        assert!(packets >= 7 * 60, "{fabric}: {packets} packets");
    }
    let shares = "incast --persistent --fabric verbs:srd -s 64K -q";
    let few = "-t 0.1 -w 0.02 --blocks 1 --interval-ms 20 --validate";
    let (output, _) = on_soft_efa(format!("{shares} {few}"));
    check_shares(&output.points()[0], 8);
}

#[test]
fn what_the_fabric_damages_or_reorders_is_noticed() {
    let few = "incast --fabric verbs:srd -s 200000 -d 8 -n 100 -q";
    let (output, _) = on_soft_efa_with("--fault corrupt=5%,seed=3", format!("{few} --validate"));
    assert_fails(&output, 9, &["damages data"]);
    let (output, _) = on_soft_efa_with("--fault reorder=10%,seed=7", few);
    let disorder = &output.points()[0]["disorder"];
    assert!(disorder["overtaken"].as_u64() > Some(0), "{disorder}");
}

#[test]
fn a_sender_that_dies_is_named() {
    kill_a_server_of("incast -s 8K,64K");
}
