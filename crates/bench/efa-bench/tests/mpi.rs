//! `efa-bench mpi` with the MPI of the machine: every test, on MPI's own choice, on sockets and on
//! the software device.

use crate::common::{Ended, Words, alone, assert_fails, efa_bench, softefa};
use serde_json::Value;

/// Returns `false` without Open MPI, which CI does not allow.
fn has_mpi() -> bool {
    let found = std::process::Command::new("mpicc").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "no mpicc: apt-get install libopenmpi-dev");
    if !found {
        eprintln!("SKIPPED: no mpicc here (libopenmpi-dev)");
    }
    found
}

fn mpi(words: impl Words) -> Ended {
    let _alone = alone();
    let manner = ["--json", "-", "--no-host-checks", "-q", "--timeout", "120"];
    efa_bench([&["mpi"], &words.words()[..], &manner].concat())
}

fn run(output: &Ended) -> Value {
    let run = output.json()["runs"][0].clone();
    assert_eq!(run["complete"], true, "{}", output.errors());
    run
}

#[test]
fn messages_are_measured_and_checked() {
    if !has_mpi() {
        return;
    }
    let latency = run(&mpi("latency -s 8,4096 -n 200 --validate"));
    assert_eq!((&latency["name"], &latency["benchmark"]), (&"MPI".into(), &"latency".into()));
    assert!(latency["fabric"]["fabric"].as_str().is_some_and(|text| !text.is_empty()));
    for point in latency["points"].as_array().expect("points") {
        assert_eq!(point["latency"]["round_trips"], 200);
        // 200 and a warm-up of 100, at both ends.
        assert_eq!(point["validated"], 600, "{point}");
        let at = |name: &str| point["latency"]["distribution"][name].as_f64().expect("a time");
        assert!(0.0 < at("min_us") && at("min_us") <= at("p50_us") && at("p50_us") <= at("max_us"));
    }
    let stream = run(&mpi("bandwidth -s 64,8192 -d 1,16 -n 300 --validate"));
    let points = stream["points"].as_array().expect("points");
    assert_eq!(points.len(), 4);
    for point in points {
        let (size, depth) = (point["size_bytes"].as_f64(), point["depth"].as_u64());
        assert_eq!(point["bandwidth"]["messages"], 300);
        // The messages before and after the window are checked, too.
        assert_eq!(point["validated"].as_u64(), depth.map(|depth| 300 + 3 * depth), "{point}");
        let rate = |name: &str| point["bandwidth"][name].as_f64().expect("a rate");
        let bytes = rate("mb_per_s") / rate("mmsg_per_s");
        assert!(size.is_some_and(|size| (bytes - size).abs() < 0.01 * size), "{point}");
    }
}

#[test]
fn collective_operations_are_measured_over_sockets() {
    if !has_mpi() {
        return;
    }
    for (test, sizes) in [
        ("allreduce", "-s 4,4096"),
        ("allgather", "-s 1,4096"),
        ("bcast", "-s 1,100000"),
        ("barrier", ""),
    ] {
        let words = format!("{test} --fabric tcp -n 20 --validate {sizes}");
        let found = run(&mpi(&words));
        assert_eq!((&found["test"], &found["benchmark"]), (&test.into(), &"collective".into()));
        for point in found["points"].as_array().expect("points") {
            let collective = &point["collective"];
            assert_eq!((&collective["ranks"], &collective["operations"]), (&2.into(), &20.into()));
            let is_barrier = test == "barrier";
            assert_eq!(collective["bus_gbit_per_s"].as_f64().is_none(), is_barrier, "{point}");
            assert_eq!(point["validated"].as_u64() == Some(0), is_barrier, "{point}");
            assert!(point["operation_time"]["min_us"].as_f64() > Some(0.0), "{point}");
        }
    }
}

#[test]
fn pairs_and_both_directions_are_measured() {
    if !has_mpi() {
        return;
    }
    let four = "-r 4 -s 64 -n 40 --validate";
    let latency = run(&mpi(format!("latency {four}")));
    assert_eq!(latency["method"]["threads"], 2, "two pairs");
    let point = &latency["points"][0];
    assert_eq!(point["latency"]["round_trips"], 80, "{point}");
    // 40 and a warm-up of 100, at both ends of both pairs.
    assert_eq!(point["validated"], 560, "{point}");
    let stream = run(&mpi(format!("bandwidth -d 16 {four}")));
    let point = &stream["points"][0];
    assert_eq!(point["bandwidth"]["messages"], 80, "{point}");
    let both = "bidirectional -s 64,65536 -d 16 -n 40 --validate";
    let both = run(&mpi(both));
    assert_eq!(
        (&both["benchmark"], &both["method"]["directions"]),
        (&"bidirectional".into(), &2.into())
    );
    for point in both["points"].as_array().expect("points") {
        // Whole windows, each way, and one as warm-up.
        assert_eq!(point["bandwidth"]["messages"], 96, "{point}");
        assert_eq!(point["validated"], 128, "{point}");
    }
    let timed = run(&mpi("bidirectional -s 512 -d 8 -t 0.1 --blocks 1"));
    let seconds = timed["points"][0]["bandwidth"]["seconds"].as_f64().expect("a time");
    assert!((0.05..10.0).contains(&seconds), "{timed}");
}

/// The results of the kernels are those that NAS publishes.
#[test]
fn kernels_of_nas_are_verified() {
    if !has_mpi() {
        return;
    }
    for (test, ranks, sizes, iterations) in [
        ("nas-is", "2", "262144,4194304", 12),
        ("nas-is", "4", "262144", 10),
        ("nas-ft", "2", "4194304", 7),
    ] {
        let count = iterations.to_string();
        let found = run(&mpi(format!("{test} -r {ranks} -s {sizes} -n {count}")));
        assert_eq!((&found["test"], &found["benchmark"]), (&test.into(), &"collective".into()));
        for point in found["points"].as_array().expect("points") {
            assert_eq!(point["collective"]["operations"], iterations, "{point}");
            assert!(point["validated"].as_u64() > Some(iterations), "{point}");
        }
    }
}

/// UCX on a RoCE device and libfabric on an EFA are measured by the name of the fabric.
#[test]
fn ranks_have_the_device_that_their_fabric_needs() {
    if !has_mpi() {
        return;
    }
    let device = format!("--softefa={}", softefa().display());
    for (fabric, name) in
        [("ucx:rc_v", "MPI, UCX rc_v, Soft-EFA"), ("libfabric:efa", "MPI, Soft-EFA")]
    {
        let words = format!("latency {device} --fabric {fabric} -s 64,65536 -n 100 --validate");
        let found = run(&mpi(&words));
        assert_eq!((&found["name"], &found["fabric"]["domain"]), (&name.into(), &fabric.into()));
        assert!(found["counters"]["all ranks"]["tx_pkts"].as_u64() > Some(100), "{found}");
    }
}

#[test]
fn mpi_runs_on_soft_efa() {
    if !has_mpi() {
        return;
    }
    let device = format!("--softefa={}", softefa().display());
    for test in ["latency", "bandwidth", "allreduce"] {
        let mut arguments = vec![test, &device, "-s", "64,65536", "-n", "100", "--validate"];
        if test == "bandwidth" {
            arguments.extend(["-d", "16"]);
        }
        let found = run(&mpi(&arguments));
        assert_eq!(found["name"], "MPI, Soft-EFA");
        let counters = &found["counters"]["all ranks"];
        let carried = ["send_bytes", "rdma_read_bytes", "rdma_write_bytes"];
        let carried: u64 = carried.iter().filter_map(|name| counters[name].as_u64()).sum();
        assert!(carried >= 100 * (64 + 65536), "{test}: {counters}");
    }
}

#[test]
fn what_cannot_be_measured_is_one_line() {
    assert_fails(&mpi("latency --ranks 3"), 2, &["--ranks 3", "give 2, 4, 6"]);
    assert_fails(&mpi("nas-ft --ranks 6"), 2, &["--ranks 6", "give 2, 4, 8"]);
    assert_fails(&mpi("nas-is -s 4096"), 2, &["--sizes 4096", "262144, 4194304"]);
    assert_fails(&mpi("nas-is -d 4"), 2, &["--depth", "bandwidth, bidirectional"]);
    for fabric in ["ucx:tcp", "mpi:tcp", "libfabric:shm"] {
        assert_fails(&mpi(format!("bcast --softefa --fabric {fabric}")), 2, &[fabric, "a device"]);
    }
    let direct = efa_bench("run latency -H 127.0.0.1 --fabric ucx:rc_v");
    assert_fails(&direct, 2, &["ucx:rc_v", "efa-bench mpi"]);
    assert_fails(&mpi("allreduce -s 6"), 2, &["--sizes 6", "4 bytes"]);
    assert_fails(&mpi("bcast --softefa=/nobody"), 2, &["/nobody", "no such program"]);
    assert_fails(&mpi("bcast --wire udp"), 2, &["--softefa"]);
    assert_fails(&mpi("bcast --softefa --wire tcp"), 2, &["'tcp'", "auto, udp, shm"]);
    assert_fails(&mpi("bcast --mpirun mpirun-of-nobody"), 3, &["openmpi-bin"]);
    if !has_mpi() {
        return;
    }
    assert_fails(&mpi("bcast --mpicc mpicc-of-nobody"), 3, &["libopenmpi-dev"]);
    // A launcher that starts nothing.
    assert_fails(&mpi("bcast --mpirun false"), 7, &["`false -n 2", "exit status: 1"]);
    let no_provider = mpi("latency -p nobody -n 10");
    assert_fails(&no_provider, 7, &["starting the ranks", "it said:"]);
}

/// Open MPI 5's launcher is of this kind.
#[test]
fn a_launcher_that_does_not_pass_the_end_of_its_input_on_ends() {
    use std::os::unix::fs::PermissionsExt;
    if !has_mpi() {
        return;
    }
    let folder = tempfile::tempdir().expect("tempdir");
    let script = folder.path().join("mpirun");
    let text = "#!/bin/bash\n[ \"$1\" = --version ] && exec mpirun --version\nexec 3<&0\n\
        exec mpirun \"$@\" < <(cat <&3; exec sleep 25 2>&-)\n";
    // Its descriptor is closed before anybody starts it.
    std::fs::write(&script, text).expect("a script");
    let may_run = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, may_run).expect("permissions");
    let launcher = script.to_str().expect("utf-8");
    run(&mpi(format!("latency -s 8 -n 20 --mpirun {launcher}")));
}

#[test]
fn a_bound_on_a_collective_is_kept_or_broken() {
    if !has_mpi() {
        return;
    }
    let bounded = |limit: &str| mpi(["barrier", "-n", "10", "--assert", limit]);
    assert!(bounded("barrier p50 < 1000000ms").status.success());
    assert_eq!(bounded("barrier p50 < 1ns").status.code(), Some(11));
}

/// The time of an operation includes what goes on while the ranks compute, and results stay right.
#[test]
fn operations_that_do_not_block_say_how_much_computing_hides() {
    if !has_mpi() {
        return;
    }
    for test in ["iallgather", "iallreduce", "ibcast"] {
        let found = run(&mpi(format!("{test} -s 4,65536 -n 100 --validate --blocks 2")));
        let points = found["points"].as_array().expect("points");
        assert_eq!(points.len(), 2, "{test}");
        for point in points {
            let overlap = point["collective"]["overlap_percent"].as_f64().expect("a share");
            assert!((0.0..=100.0).contains(&overlap), "{test}: {point}");
            assert_eq!(point["collective"]["operations"], 100, "{test}: {point}");
            // With its warm-up, alone and with computing, in two blocks of two ranks.
            let times = if test == "iallgather" { 2 } else { 1 };
            assert_eq!(point["validated"], 2 * 2 * 2 * 200 * times, "{test}: {point}");
        }
    }
    assert_fails(&mpi("iallreduce -s 6"), 2, &["--sizes 6", "4 bytes"]);
}
