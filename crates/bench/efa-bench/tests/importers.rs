//! The output of other tools, as files: each is read for what it is, or refused by name.
//!
//! The files of perftest are of releases 4.5 and 26.07 on Soft-EFA (`softefa run --profile efa2`,
//! for atomics `--roce`), those of UCX of 1.13 over TCP, those of OSU of 5.3 between two processes.
//! NCCL tests need GPUs, which nobody here had: their files are composed in the form of published
//! logs (release 2.17.9, with and without mpirun's prefixes), and some of their rows and values are
//! made up.

use crate::common::{assert_fails, efa_bench};
use serde_json::Value;

fn sample(name: &str) -> String {
    format!("{}/../bench-report/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"))
}

/// Returns the run that a file is read as.
fn run_of(name: &str) -> Value {
    let output = efa_bench(format!("import {} --json -", sample(name)));
    let results = output.json();
    results["runs"][0].clone()
}

/// Returns the table of a file.
fn text_of(name: &str) -> String {
    let output = efa_bench(format!("import {}", sample(name)));
    output.assert_done();
    output.text()
}

fn kind(run: &Value) -> (&str, &str) {
    let word = |name: &str| run[name].as_str().expect("a word");
    (word("benchmark"), word("operation"))
}

#[track_caller]
fn assert_about(value: &Value, wanted: f64) {
    let found = value.as_f64().expect("a number");
    assert!((found / wanted - 1.0).abs() < 1e-6, "{found}, not {wanted}");
}

#[test]
fn osu_collectives_are_no_ping_pongs() {
    for (name, test) in [
        ("osu_allreduce.txt", "allreduce"),
        ("osu_allgather.txt", "allgather"),
        ("osu_bcast.txt", "bcast"),
        ("osu_barrier.txt", "barrier"),
    ] {
        let run = run_of(name);
        assert_eq!((kind(&run).0, run["test"].as_str()), ("collective", Some(test)));
        let point = &run["points"][0];
        assert!(point["latency"].is_null() && point["collective"]["mean_us"].is_f64(), "{point}");
        // The number of ranks is not printed.
        assert!(point["collective"]["ranks"].is_null(), "{point}");
    }
    let run = run_of("osu_allreduce.txt");
    assert_eq!(run["points"][0]["collective"]["operations"], 100);
    assert_about(&run["points"][0]["collective"]["mean_us"], 0.19);
    assert!(!text_of("osu_allreduce.txt").contains("half round trip"));
}

#[test]
fn osu_one_sided_tests_are_one_sided() {
    let run = run_of("osu_put_latency.txt");
    assert_eq!(kind(&run), ("rma", "write"));
    let point = &run["points"][1];
    assert!(point["latency"].is_null() && point["bandwidth"].is_null(), "{point}");
    assert_about(&point["operation_mean_us"], 0.03);
    assert!(text_of("osu_put_latency.txt").contains("mean µs"));
    assert_eq!(kind(&run_of("osu_put_bw.txt")), ("rma", "write"));
    assert_eq!(kind(&run_of("osu_get_bw.txt")), ("rma", "read"));
}

#[test]
fn both_directions_are_not_one() {
    for (name, wanted) in [
        ("osu_bibw.txt", ("bandwidth", "send")),
        ("osu_put_bibw.txt", ("rma", "write")),
        ("ib_send_bw_both.txt", ("bandwidth", "send")),
        ("ib_write_bw_both.txt", ("rma", "write")),
        ("ib_read_bw_both.txt", ("rma", "read")),
        ("ib_atomic_bw_both.txt", ("atomics", "fetch_add")),
        ("ib_write_bw_both_4_qps.json", ("rma", "write")),
    ] {
        let run = run_of(name);
        assert_eq!(kind(&run), wanted, "{name}");
        assert_eq!(run["method"]["directions"], 2, "{name}");
        assert!(text_of(name).contains("both directions together"), "{name}");
    }
    assert_eq!(run_of("osu_bw.txt")["method"]["directions"], 1);
}

#[test]
fn queue_pairs_and_lists_are_read() {
    for name in ["ib_send_bw_4_qps.txt", "ib_write_bw_both_4_qps.json"] {
        assert_eq!(run_of(name)["method"]["endpoints"], 4, "{name}");
    }
    let run = run_of("ib_send_bw_lists.txt");
    assert_eq!((kind(&run).0, &run["method"]["flow"]["post_list"]), ("bandwidth", &8.into()));
    assert_eq!(run_of("ib_send_bw.txt")["method"]["endpoints"], 1);
}

#[test]
fn perftest_reads_and_writes_are_read_in_all_sizes() {
    assert_eq!(kind(&run_of("ib_write_lat.txt")), ("latency", "write"));
    let run = run_of("ib_write_lat_srd.txt");
    assert_eq!(kind(&run), ("latency", "write"));
    assert_about(&run["points"][0]["latency"]["distribution"]["p50_us"], 3996.25);
    let run = run_of("ib_read_lat_all.txt");
    assert_eq!((kind(&run), run["points"].as_array().map(Vec::len)), (("rma", "read"), Some(23)));
    let point = &run["points"][22];
    assert_eq!((&point["size_bytes"], &point["depth"]), (&8_388_608.into(), &1.into()));
    assert_about(&point["operation_time"]["p99_us"], 9193.87);
    assert_about(&point["operation_mean_us"], 1045.75);
    for (name, operation) in [("ib_write_bw_all.txt", "write"), ("ib_read_bw_all.txt", "read")] {
        let run = run_of(name);
        assert_eq!(kind(&run), ("rma", operation));
        assert_eq!(run["points"].as_array().map(Vec::len), Some(23), "{name}");
        let point = &run["points"][11];
        assert_eq!((&point["size_bytes"], &point["depth"]), (&4096.into(), &128.into()));
        let rate = point["bandwidth"]["mmsg_per_s"].as_f64().expect("a rate");
        assert_about(&point["bandwidth"]["mb_per_s"], rate * 4096.0);
    }
    // -U prints every sample between two heads.
    assert_eq!(run_of("ib_send_lat_all_samples.txt")["points"].as_array().map(Vec::len), Some(1));
}

#[test]
fn perftest_atomics_are_atomics() {
    for (name, operation, p50_us) in [
        ("ib_atomic_lat_fetch.txt", "fetch_add", 22.73),
        ("ib_atomic_lat_swap.txt", "compare_swap", 28.67),
    ] {
        let run = run_of(name);
        assert_eq!(kind(&run), ("atomics", operation));
        let point = &run["points"][0];
        assert_eq!((&point["size_bytes"], &point["depth"]), (&8.into(), &1.into()), "{name}");
        assert_about(&point["operation_time"]["p50_us"], p50_us);
        // Nobody has checked whether they are right.
        assert!(point["latency"].is_null() && point["atomics"].is_null(), "{point}");
        assert!(text_of(name).contains("mean µs"), "{name}");
    }
    for (name, operation, mmsg_per_s) in [
        ("ib_atomic_bw_fetch.txt", "fetch_add", 0.214_161),
        ("ib_atomic_bw_swap.txt", "compare_swap", 0.182_149),
    ] {
        let run = run_of(name);
        assert_eq!(kind(&run), ("atomics", operation));
        assert_eq!(run["points"][0]["depth"], 128, "{name}");
        assert_about(&run["points"][0]["bandwidth"]["mmsg_per_s"], mmsg_per_s);
        assert!(text_of(name).contains("M op/s"), "{name}");
    }
}

#[test]
fn ucx_tests_are_those_that_the_server_names() {
    let run = run_of("ucx_tag_lat.txt");
    assert_eq!(kind(&run), ("latency", "tagged"));
    let point = &run["points"][0];
    assert_eq!(
        (&point["size_bytes"], &point["latency"]["round_trips"]),
        (&8.into(), &20_000.into())
    );
    assert_about(&point["latency"]["mean_us"], 142.777);
    assert_about(&run_of("ucx_tag_lat_final.txt")["points"][0]["latency"]["mean_us"], 33.877);
    assert_eq!(kind(&run_of("ucx_put_lat.txt")), ("latency", "write"));
    for (name, wanted) in [
        ("ucx_tag_bw.txt", ("bandwidth", "tagged")),
        ("ucx_stream_bw.txt", ("bandwidth", "send")),
        ("ucx_put_bw.txt", ("rma", "write")),
        ("ucx_get.txt", ("rma", "read")),
    ] {
        assert_eq!(kind(&run_of(name)), wanted, "{name}");
    }
    let bandwidth = &run_of("ucx_tag_bw.txt")["points"][0]["bandwidth"];
    // As printed: 455.32 "MB/s", which are MiB/s.
    assert_about(&bandwidth["mb_per_s"], 116_563.0 * 4096.0 / 1e6);
    assert!((bandwidth["mb_per_s"].as_f64().expect("MB/s") / 1.048_576 - 455.32).abs() < 0.01);
    let client = efa_bench(format!("import {}", sample("ucx_client_alone.txt")));
    assert_fails(&client, 10, &["does not print the test", "cat server.txt client.txt"]);
}

#[test]
fn nccl_tests_are_operations_of_all_ranks() {
    let run = run_of("nccl_all_reduce.txt");
    assert_eq!((kind(&run).0, run["test"].as_str()), ("collective", Some("allreduce")));
    let points = run["points"].as_array().expect("points");
    let sizes: Vec<_> = points.iter().map(|point| point["size_bytes"].as_u64()).collect();
    assert_eq!(sizes, [Some(8), Some(1024), Some(268_435_456)]);
    let found = &points[2]["collective"];
    assert_eq!((&found["ranks"], &found["mean_us"]), (&4.into(), &6970.0.into()));
    // As printed: 57.77 GB/s.
    let bus = found["bus_gbit_per_s"].as_f64().expect("bus bandwidth");
    assert!((bus / 8.0 - 57.77).abs() < 0.01, "{bus}");
    assert!(points[0]["collective"]["bus_gbit_per_s"].as_f64() > Some(0.0), "not 0.00");
    // The log has mpirun's prefixes, a release that does not name the test, and sizes of all ranks.
    let run = run_of("nccl_all_gather_mpirun.txt");
    assert_eq!(run["test"].as_str(), Some("allgather"));
    assert_eq!(run["points"][0]["size_bytes"], 33_554_432 / 2);
    let bus = run["points"][0]["collective"]["bus_gbit_per_s"].as_f64().expect("bus bandwidth");
    assert!((bus / 8.0 - 16.01).abs() < 0.01, "{bus}");
}

#[test]
fn what_a_tool_does_not_print_is_absent_not_zero() {
    let latency = &run_of("osu_latency.txt")["points"][0];
    assert!(latency["latency"]["round_trips"].is_null(), "{latency}");
    let stream = &run_of("osu_bw.txt")["points"][0];
    for name in ["depth", "rx_depth", "lost", "warmup_ms"] {
        assert!(stream[name].is_null(), "{name}: {stream}");
    }
    assert!(stream["bandwidth"]["messages"].is_null(), "{stream}");
    assert!(stream["bandwidth"]["seconds"].is_null(), "{stream}");
    let row = text_of("osu_bw.txt").lines().last().expect("a row").to_owned();
    let dashes = row.split_whitespace().filter(|cell| *cell == "-").count();
    assert!(dashes >= 5, "{row}");
    assert!(run_of("sockperf_throughput.txt")["points"][0]["bandwidth"]["messages"].is_null());
    // A limit on it does not hold, and no limit on it is skipped.
    let file = sample("osu_bw.txt");
    let output = efa_bench(["compare", &file, &file, "-q", "--assert", "bandwidth lost <= 0"]);
    assert_eq!(output.status.code(), Some(11), "{output:?}");
}

#[test]
fn tests_that_have_no_counterpart_are_refused_by_name() {
    let folder = tempfile::tempdir().expect("folder");
    let text = std::fs::read_to_string(sample("nccl_all_reduce.txt")).expect("a sample");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("write");
        path.display().to_string()
    };
    let in_pairs = file("sendrecv.txt", &text.replace("all_reduce", "sendrecv"));
    let starting = "# Collective test starting: all_reduce_perf\n";
    let without = text.replace(starting, "").replace("all_reduce_perf", "something");
    let nameless = file("nameless.txt", &without);
    let row = "      -1   6970.0   38.51   57.77       0";
    let wrong = file("wrong.txt", &text.replace(row, "      -1   6970.0   38.51   57.77       3"));
    let ucx = std::fs::read_to_string(sample("ucx_tag_lat.txt")).expect("a sample");
    let atomic = file("atomic.txt", &ucx.replace("tag match latency", "atomic add latency"));
    let cut = ucx.replace("Final:", "[thread 0]");
    let perftest = std::fs::read_to_string(sample("ib_send_bw.txt")).expect("a sample");
    let raw = file("raw.txt", &perftest.replace("Send BW", "Raw Ethernet BW"));
    for (path, words) in [
        (sample("osu_latency_mt.txt"), ["Multi-threaded Latency Test", "can"]),
        (sample("osu_multi_lat.txt"), ["Multi Latency Test", "MPI_Put and MPI_Get"]),
        (sample("osu_reduce.txt"), ["Reduce Latency Test", "Allreduce"]),
        (in_pairs, ["sendrecv_perf", "all_gather_perf"]),
        (nameless, ["does not say which operation", "all_reduce_perf"]),
        (wrong, ["3 values", "268435456 B"]),
        (atomic, ["atomic add latency", "tag"]),
        (file("cut.txt", &cut), ["final figures", "interrupted"]),
        (raw, ["Raw Ethernet BW Test", "ib_atomic"]),
    ] {
        assert_fails(&efa_bench(format!("import {path}")), 10, &words);
    }
    let sized = efa_bench(format!("import {} --size 64", sample("ib_send_bw.txt")));
    assert_fails(&sized, 10, &["prints the message size", "--size"]);
}
