//! Completions that are slept for, between real processes.

use crate::common::{assert_fails, efa_bench, on_soft_efa_with, points_of};
use serde_json::Value;

/// Every benchmark that can sleep, with the options that make it short; each checks what it moved.
const BENCHMARKS: [&str; 8] = [
    "latency -s 1,4096 -n 100 --validate",
    "bandwidth -s 64,8192 -d 16 -t 0.05 -w 0.02 --validate",
    "rpc -s 64 -d 4 -t 0.05 -w 0.02 --validate",
    "rpc -s 64 -d 4 -t 0.1 -w 0.02 --rate 2000",
    "kv -s 64 -d 4 -t 0.05 -w 0.02 --keys 100 --validate",
    "index -s 1000 -d 4 -t 0.05 -w 0.02 --way rpc",
    "log -s 64 -d 4 -t 0.05 -w 0.02 --validate",
    "2pc -s 64 -d 4 -t 0.05 -w 0.02 --keys 1000",
];

fn asleep(benchmark: &str, fabric: &str) -> String {
    format!("{benchmark} --fabric {fabric} --events --blocks 1 -q")
}

fn check(points: &[Value], what: &str) {
    assert!(!points.is_empty(), "{what}");
    for point in points {
        assert_eq!(point["lost"].as_u64().unwrap_or(0), 0, "{what}: {point}");
        if what.contains("--validate") {
            assert!(point["validated"].as_u64() > Some(0), "{what}: {point}");
        }
    }
}

#[test]
fn who_sleeps_is_woken_on_sockets_and_libfabric() {
    // The benchmarks over a library differ in what wakes them, not in what sleeps.
    for (fabric, benchmarks) in
        [("sockets:tcp", &BENCHMARKS[..]), ("libfabric:tcp", &BENCHMARKS[..1])]
    {
        for benchmark in benchmarks {
            let all = asleep(benchmark, fabric);
            check(&points_of(&all), &all);
        }
    }
    check(&points_of(asleep("latency -s 64 -n 100", "sockets:udp")), "udp");
}

#[test]
fn who_sleeps_is_woken_on_soft_efa() {
    let one_sided: [&str; 3] = [
        "index --way read -s 1000 -d 4 -t 0.05 -w 0.02",
        "rma -s 8,8192 -d 1 -t 0.05 -w 0.02",
        "rma --op read -s 8,8192 -d 8 -t 0.05 -w 0.02",
    ];
    // The workloads wait as those over sockets do.
    for (fabric, options, benchmarks) in
        [("verbs:srd", "", &BENCHMARKS[..3]), ("verbs:rc", "--roce", &BENCHMARKS[..1])]
    {
        for benchmark in benchmarks.iter().chain(&one_sided) {
            let what = asleep(benchmark, fabric);
            let (output, packets) = on_soft_efa_with(options, &what);
            check(&output.points(), &what);
            assert!(packets > 0, "{what}: the device sent nothing");
        }
    }
}

#[test]
fn a_record_says_who_slept_and_what_a_round_trip_cost() {
    let record = |more: &str| {
        let all = "local latency --fabric sockets:tcp -s 64 -n 200";
        efa_bench(format!("{all} {more} --no-host-checks -q --json -")).json()["runs"][0].clone()
    };
    let (polled, slept) = (record(""), record("--events"));
    assert_eq!(slept["method"]["flow"]["events"], true);
    assert!(polled["method"]["flow"]["events"].is_null());
    for run in [&polled, &slept] {
        assert!(run["points"][0]["client_cpu_us"].as_f64() > Some(0.0), "{run}");
    }
}

#[test]
fn what_cannot_sleep_says_so() {
    let refused = |all: &str, words: &[&str]| assert_fails(&efa_bench(all), 2, words);
    refused(
        "local sat_latency --fabric sockets:tcp --events",
        &["--events", "not for this benchmark"],
    );
    let (output, _) = on_soft_efa_with([], asleep("latency -n 1", "libfabric:efa"));
    assert_fails(&output, 2, &["efa", "only be polled", "verbs:srd"]);
}
