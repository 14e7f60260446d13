//! Operations of all ranks between real processes: every rank gets what it should.

use crate::common::{assert_fails, kill_a_server_of, on_soft_efa, on_soft_efa_with, points_of};
use serde_json::Value;

/// Every operation by every algorithm, and the factor of its bus bandwidth between 5 ranks.
const OPERATIONS: [(&str, &str, f64); 8] = [
    ("allgather", "", 4.0),
    ("allreduce", "", 1.6),
    ("allreduce", "--algorithm doubling", 1.6),
    ("alltoall", "", 4.0),
    ("barrier", "", 0.0),
    ("bcast", "", 1.0),
    ("gather", "", 4.0),
    ("reduce_scatter", "", 4.0),
];

/// Checks that this number of ranks did this number of operations, all of them checked.
fn check(point: &Value, operations: u64, ranks: u64) {
    let found = &point["collective"];
    assert_eq!((&found["ranks"], &found["operations"]), (&ranks.into(), &operations.into()));
    let (mean, least) = (&found["mean_us"], &point["operation_time"]["min_us"]);
    assert!(mean.as_f64() >= least.as_f64() && least.as_f64() > Some(0.0), "{point}");
    if point["size_bytes"] != 0 {
        assert!(point["validated"].as_u64() >= Some(operations * ranks), "{point}");
    }
}

#[test]
fn every_number_of_ranks_gets_the_right_results() {
    for ranks in [2, 4, 5, 7] {
        for (operation, manner, factor) in OPERATIONS {
            // Fewer integers than ranks, several parts, parts that are not whole.
            let sizes = if operation == "barrier" { "" } else { "-s 4,20004 --chunk 1000" };
            let all = format!("{operation} --nodes {ranks} {manner} {sizes} --fabric tcp");
            for point in &points_of(format!("{all} -n 30 --validate -q")) {
                check(point, 30, ranks);
                let bus = point["collective"]["bus_gbit_per_s"].as_f64();
                assert_eq!(bus.is_some(), operation != "barrier", "{all:?}: {point}");
                let Some(bus) = bus.filter(|_| ranks == 5) else { continue };
                let bits = point["size_bytes"].as_f64().expect("bytes") * 8.0;
                let mean_us = point["collective"]["mean_us"].as_f64().expect("a mean");
                assert!((bus / (bits / mean_us / 1e3 * factor) - 1.0).abs() < 1e-9, "{all:?}");
            }
        }
    }
}

/// Two ranks that both send more parts than the other has receives for do not wait for each other.
#[test]
fn transfers_of_more_parts_than_receives_end() {
    let all = "allreduce --algorithm doubling --nodes 2 --fabric tcp -s 18000000 --chunk 8000";
    let manner = "-t 0.05 --warmup 0 --blocks 1 --validate --timeout 20 -q";
    for point in &points_of(format!("{all} {manner}")) {
        let operations = point["collective"]["operations"].as_u64().expect("a count");
        check(point, operations, 2);
    }
}

#[test]
fn operations_run_over_shared_memory_and_soft_efa() {
    for (operation, manner, _) in OPERATIONS {
        let sizes = if operation == "barrier" { "" } else { "-s 4,40000" };
        let all = format!("{operation} --nodes 3 -n 20 --validate -q {manner} {sizes}");
        for point in &points_of(format!("{all} -p shm")) {
            check(point, 20, 3);
        }
        for fabric in ["verbs:srd", "libfabric:efa"] {
            let (output, packets) = on_soft_efa(format!("{all} --fabric {fabric}"));
            output.points().iter().for_each(|point| check(point, 20, 3));
            // Two messages of each operation at least, and those of the barrier before it.
            assert!(packets >= 20 * (2 + 6), "{all:?} {fabric}: {packets} packets");
        }
    }
}

#[test]
fn what_the_fabric_damages_or_reorders_is_noticed_or_harmless() {
    let few = "allreduce --fabric verbs:srd -s 100000 -n 50 -q";
    let (output, _) = on_soft_efa_with("--fault corrupt=5%,seed=3", format!("{few} --validate"));
    assert_fails(&output, 9, &["damages data"]);
    for algorithm in ["ring", "doubling"] {
        let (output, _) = on_soft_efa_with(
            "--fault reorder=10%,dup=2%,seed=7",
            format!("{few} --validate --algorithm {algorithm}"),
        );
        check(&output.points()[0], 50, 3);
    }
}

#[test]
fn a_rank_that_dies_is_named() {
    kill_a_server_of("allreduce -s 8,4096");
}
