//! Shuffle between real processes: every tuple comes to its partition, once and as it was.

use crate::common::{
    assert_fails, efa_bench, kill_a_server_of, on_soft_efa, on_soft_efa_with, points_of,
};
use serde_json::Value;

/// The tuples that each thread makes, of `--iterations`.
const MADE: u64 = 5000;

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Checks a point with all tuples of this number of nodes, whatever the fabric.
fn check(point: &Value, nodes: u64, threads: u64) {
    let found = &point["shuffle"];
    assert_eq!(found["partitions"], nodes, "{point}");
    assert_eq!(found["tuples"], MADE * nodes * threads, "{point}");
    let (least, mean) = (number(found, "gb_per_s_min"), number(found, "gb_per_s"));
    assert!(0.0 < least && least <= mean && mean <= number(found, "gb_per_s_max"), "{point}");
    assert!((number(&point["bandwidth"], "gbit_per_s") / mean / 8.0 - 1.0).abs() < 1e-9, "{point}");
    for name in ["load_max_to_mean", "time_max_to_mean"] {
        assert!((1.0..=nodes as f64).contains(&number(found, name)), "{name}: {point}");
    }
    assert!(number(found, "cpu_ns_per_tuple") > 0.0, "{point}");
    let fill = number(found, "fill");
    assert!(fill > 0.0 && fill <= 1.0, "{point}");
}

/// Returns the load of the largest partition over the mean.
fn load(point: &Value) -> f64 {
    number(&point["shuffle"], "load_max_to_mean")
}

#[test]
fn every_tuple_comes_to_its_partition() {
    for (nodes, threads, manner) in [
        (2, 1, "-s 8,1024 --buffer 1K -d 1"),
        // Tuples that do not divide the buffer.
        (3, 1, "-s 100,1000 --buffer 1K,8K -d 1,5,64"),
        (3, 2, "-s 16 --buffer 32K -d 8"),
        (5, 1, "-s 65 --zipf 0.99 --keys 100 -d 4"),
    ] {
        let all = format!("shuffle --nodes {nodes} --threads {threads} {manner}");
        for point in &points_of(format!("{all} --fabric tcp -n {MADE} --validate -q")) {
            check(point, nodes, threads);
            assert_eq!(point["validated"], MADE * nodes * threads, "{point}");
            // TCP keeps the order.
            assert_eq!(point["disorder"]["overtaken"], 0, "{point}");
        }
    }
}

#[test]
fn buffers_are_as_full_as_tuples_let_them() {
    let few = "shuffle --fabric tcp -s 1000 --buffer 1900,10000 -q";
    let found = points_of(format!("{few} -n 20000 --link-gbit 8"));
    let fill = |point: &Value| number(&point["shuffle"], "fill");
    // One tuple to a buffer, always; ten, but for the last buffer of each partition.
    assert!((fill(&found[0]) - 1000.0 / 1900.0).abs() < 1e-9, "{}", found[0]);
    assert!((0.98..=1.0).contains(&fill(&found[1])), "{}", found[1]);
    for point in &found {
        let found = &point["shuffle"];
        let percent = number(found, "gb_per_s_max") * 100.0;
        assert!((number(found, "link_percent") - percent).abs() < 1e-9, "{point}");
    }
}

#[test]
fn popular_keys_make_large_partitions() {
    // Few keys, so that the most popular one decides.
    let few = format!("shuffle --fabric tcp -s 16 --keys 1000 -n {MADE} -q");
    let even = load(&points_of(&few)[0]);
    let skewed = load(&points_of(format!("{few} --zipf 0.99"))[0]);
    assert!(even < 1.1 && skewed > even + 0.1, "{even} {skewed}");
}

#[test]
fn a_window_of_time_counts_what_comes_within_it() {
    let few = "shuffle --fabric tcp -s 64 -t 0.1 -w 0.02 -q";
    let point = &points_of(format!("{few} --blocks 2 --validate"))[0];
    let found = &point["shuffle"];
    assert!(number(found, "gb_per_s") > 0.0 && number(found, "mtuples_per_s") > 0.0, "{point}");
    // Warm-up and end are checked, too.
    assert!(number(point, "validated") > number(found, "tuples"), "{point}");
    assert!(number(&point["bandwidth"], "seconds") >= 0.1, "{point}");
}

#[test]
fn shuffles_run_over_shared_memory_and_soft_efa() {
    let few = format!("shuffle -s 16,300 -d 8 -n {MADE} --validate -q");
    points_of(format!("{few} -p shm")).iter().for_each(|point| check(point, 3, 1));
    for (fabric, manner) in [
        ("verbs:srd", ""),
        ("verbs:srd", "--zipf 0.99 --keys 1000 --buffer 1000"),
        ("libfabric:efa", "--buffer 4K"),
    ] {
        let all = format!("{few} --fabric {fabric} {manner}");
        let (output, packets) = on_soft_efa(&all);
        let found = output.points();
        assert_eq!(found.len(), 2, "{all:?}");
        found.iter().for_each(|point| check(point, 3, 1));
        // Two thirds of 15000 tuples of 316 bytes travel, 8 KiB at most to a packet.
        assert!(packets > 350, "{all:?}: {packets} packets");
    }
}

#[test]
fn what_the_fabric_damages_is_noticed_and_what_it_reorders_is_counted() {
    let few = "shuffle --fabric verbs:srd -s 16 -d 8 --buffer 1K -q";
    let few = format!("{few} -n 200000");
    // Keys and words alone, and all bytes. Few of many messages: the first ones, which only wake
    // the endpoints up, have no check.
    for validate in ["", "--validate"] {
        let fault = "--fault corrupt=0.2%,seed=3";
        let (output, _) = on_soft_efa_with(fault, format!("{few} {validate}"));
        assert_fails(&output, 9, &["damages data"]);
    }
    let (output, _) = on_soft_efa_with("--fault reorder=10%,dup=2%,seed=7", &few);
    let disorder = &output.points()[0]["disorder"];
    assert!(disorder["overtaken"].as_u64() > Some(0), "{disorder}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (arguments, words) in [
        ("--endpoints 2", "--endpoints is not for this benchmark"),
        ("--chunk 8K", "--chunk is not for this benchmark"),
        ("--zipf 1.5", "--zipf 1.5"),
        ("--buffer 0", "--buffer"),
        ("-s 4", "4 B is less than the 8 B"),
        ("-s 2000 --buffer 1K", "a tuple of 2000 B is more than a buffer of 1024 B"),
    ] {
        let all = "local shuffle --fabric tcp -q --no-host-checks";
        assert_fails(&efa_bench(format!("{all} {arguments}")), 2, &[words]);
    }
}

#[test]
fn a_node_that_dies_is_named() {
    kill_a_server_of("shuffle -s 64,1024");
}
