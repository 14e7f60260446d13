//! Atomics on the peer's memory, between real processes. The benchmark itself checks that each was
//! done once, or it ends with code 9.

use crate::common::{Server, assert_fails, efa_bench, on_soft_efa_with, points_of, read_json};
use serde_json::Value;

const SHORT: &str = "-d 1,7 -t 0.05 -w 0.02 -q";

fn checked(point: &Value) -> u64 {
    point["atomics"]["checked"].as_u64().expect("a count")
}

/// Checks one atomic at a time with its times, and several at a time with a rate.
fn check(points: &[Value], what: &str) {
    let [one, many] = points else { panic!("{what}: {points:?}") };
    for point in [one, many] {
        let within = point["bandwidth"]["messages"].as_u64().expect("a count");
        assert!(within > 0 && checked(point) >= within, "{what}: {point}");
        assert_eq!((&point["size_bytes"], &point["lost"]), (&8.into(), &0.into()), "{what}");
    }
    let time = |quantile: &str| one["operation_time"][quantile].as_f64().expect("a time");
    assert!(time("min_us") > 0.0 && time("min_us") <= time("p50_us"), "{what}: {one}");
    assert!(!one["times"].is_null(), "{what}: no histogram");
    assert!(many["operation_time"].is_null(), "{what}: {many}");
}

#[test]
fn every_operation_is_done_once_over_libfabric() {
    for fabric in ["libfabric:tcp", "libfabric:shm"] {
        for op in ["fetch_add", "compare_swap", "add"] {
            let all = format!("atomics --fabric {fabric} --op {op} {SHORT}");
            check(&points_of(&all), &format!("{fabric} {op}"));
        }
    }
}

#[test]
fn every_operation_is_done_once_on_soft_efa() {
    for (fabric, options, ops) in [
        ("verbs:rc", "--roce", &["fetch_add", "compare_swap"][..]),
        ("libfabric:efa", "", &["fetch_add", "compare_swap", "add"]),
    ] {
        for op in ops {
            let all = format!("atomics --fabric {fabric} --op {op} {SHORT}");
            let (output, packets) = on_soft_efa_with(options, &all);
            let what = format!("{fabric} {op}");
            let points = output.points();
            check(&points, &what);
            // Both sides' packets. Adds that fetch nothing share theirs, as answers to several do.
            let done = points.iter().map(checked).sum::<u64>();
            let floor = if *op == "add" { done / 100 } else { done };
            assert!(packets >= floor, "{what}: {packets} packets, {done} operations");
        }
    }
}

/// A device that repeats and loses packets must answer a repeated atomic by what it has kept.
#[test]
fn faults_repeat_no_atomic() {
    for op in ["fetch_add", "compare_swap"] {
        let all = format!("atomics --fabric verbs:rc --op {op} -d 16 -n 20000 -q");
        let options = "--roce --fault loss=2%,dup=2%,reorder=2%,seed=5";
        let (output, packets) = on_soft_efa_with(options, &all);
        let points = output.points();
        assert_eq!(checked(&points[0]), 22_000, "{op}: a tenth is the warm-up");
        assert!(packets > 22_000, "{op}: {packets} packets");
    }
}

#[test]
fn threads_and_endpoints_have_words_of_their_own() {
    for op in ["fetch_add", "compare_swap"] {
        let all = format!("atomics -p shm --op {op} --threads 2 --endpoints 2");
        let points = points_of(format!("{all} -d 4 -n 500 --blocks 2"));
        // Each thread has a warm-up.
        assert_eq!(checked(&points[0]), 2 * 600, "{op}");
    }
}

#[test]
fn two_hosts_measure_them_as_one_does() {
    let server = Server::start();
    let points = server.run("atomics -p tcp -n 200 --json -").points();
    assert_eq!(checked(&points[0]), 300);
}

#[test]
fn the_table_and_the_page_speak_of_operations() {
    let folder = tempfile::tempdir().expect("tempdir");
    let page = folder.path().join("atomics.html").display().to_string();
    let all = format!("atomics -p shm -d 1,2,4 -n 300 --html {page}");
    let output = efa_bench(format!("{all} --no-host-checks"));
    let text = output.text();
    output.assert_done();
    for word in ["atomics on 8 B of the peer's memory (fetch_add)", "M op/s", "p99 µs", "checked"]
    {
        assert!(text.contains(word), "no {word:?} in: {text}");
    }
    let page = std::fs::read_to_string(page).expect("a page");
    assert!(page.contains("M op/s"), "no rate on the page");
}

#[test]
fn a_plan_has_steps_of_them() {
    let folder = tempfile::tempdir().expect("tempdir");
    let plan = folder.path().join("plan.toml");
    let step = "[[fabric]]\nname = 'memory'\nfabric = 'libfabric:shm'\n[[step]]\nbenchmark = \
                'atomics'\nop = ['fetch_add', 'compare_swap']\ndepth = [1, 8]\niterations = 200\n";
    std::fs::write(&plan, step).expect("write");
    let [plan, out] = [plan, folder.path().join("out")].map(|path| path.display().to_string());
    let output = efa_bench(format!("plan {plan} --out {out} -q"));
    output.assert_done();
    let results = read_json(format!("{out}/results.json"));
    // Published figures stand beside the measured ones.
    let runs = results["runs"].as_array().expect("runs").iter();
    let own = runs.filter(|run| run["benchmark"] == "atomics");
    let counts = own.flat_map(|run| run["points"].as_array().expect("points")).map(checked);
    assert_eq!(counts.collect::<Vec<_>>(), [300; 4], "two operations at two depths");
}

#[test]
fn fabrics_without_atomics_say_which_have_them() {
    for fabric in ["sockets:tcp", "sockets:udp", "verbs:srd", "verbs:ud"] {
        let output = efa_bench(format!("atomics --fabric {fabric} -q"));
        assert_fails(&output, 2, &[fabric, "has no atomics", "--fabric verbs:rc"]);
    }
    let output = efa_bench("atomics --fabric verbs:rc --op add -q");
    assert_fails(&output, 2, &["verbs:rc", "--op fetch_add"]);
    for (words, refusal) in [
        ("atomics --op write", "--op write is not for this"),
        ("atomics -s 64", "--sizes is not for this"),
        ("rma --op fetch_add", "--op fetch_add is not for this"),
        ("latency --op compare_swap", "--op compare_swap is not for this"),
    ] {
        assert_fails(&efa_bench(words), 2, &[refusal]);
    }
}
