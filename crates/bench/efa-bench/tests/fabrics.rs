//! The same measurements on every fabric, with real processes.

use std::process::Command;

use crate::common::{
    Ended, PROGRAM, assert_fails, counted_on_soft_efa, efa_bench, on_soft_efa, on_soft_efa_with,
    points_of, softefa,
};
use serde_json::Value;

#[test]
fn sockets_carry_every_length_whole() {
    // Through the staging buffer, right below and above where messages are read in place, and
    // longer than any buffer of the kernel.
    let sizes = "1,3,64,8192,32767,32768,1000000";
    let points = points_of(format!("bandwidth --fabric tcp -n 40 --sizes {sizes} -d 5 --validate"));
    assert_eq!(points.len(), 7);
    for point in points {
        assert_eq!(point["validated"], 140, "{point}");
        assert_eq!(point["lost"], 0, "{point}");
    }
    let points = points_of(format!("latency --fabric tcp -n 40 --sizes {sizes} --validate"));
    assert!(points.iter().all(|p| p["validated"] == 141), "{points:?}");
    let points = points_of("latency --fabric udp -n 40 --sizes 1,64,9000");
    assert!(points.iter().all(|p| p["latency"]["round_trips"] == 40), "{points:?}");
}

#[test]
fn threads_and_endpoints_share_a_window_and_lose_nothing() {
    for fabric in ["tcp", "libfabric:shm"] {
        let points = points_of(format!(
            "bandwidth --fabric {fabric} -t 0.05 -w 0.05 --sizes 64 -d 8 --threads 2 --endpoints \
             3 --validate"
        ));
        assert_eq!(points[0]["lost"], 0);
        assert!(points[0]["bandwidth"]["messages"].as_u64().is_some_and(|n| n > 0));
    }
    let points = points_of("latency --fabric tcp -n 30 --sizes 8 --threads 3 --validate");
    assert_eq!(points[0]["latency"]["round_trips"], 90);
}

#[test]
fn what_a_fabric_does_not_have_is_refused_in_one_line() {
    for (arguments, words) in [
        ("--fabric tcp --op tagged", ["no tags", "--op send"]),
        ("--fabric tcp --op inject", ["no inject", "--op send"]),
        ("--fabric tcp -e dgram", ["no datagram", "udp"]),
        ("--fabric udp -e rdm", ["not reliable", "tcp"]),
        ("--fabric tcp --domain eth0", ["eth0", "no domains"]),
        ("--fabric shm --op send", ["shm", "libfabric:shm"]),
        ("--threads 0 --op send", ["no thread", "1 or more"]),
        ("--endpoints 2 --op send", ["--endpoints", "not for this benchmark"]),
    ] {
        assert_fails(&efa_bench(format!("local latency -q -n 1 {arguments}")), 2, &words);
    }
}

/// The names of the thesis, with options that make them short, and the operations that each must
/// do.
const NAMES: [&str; 14] = [
    "ping_pong",
    "inject",
    "tagged",
    "batch",
    "batch --window refill",
    "batch --post-list 4",
    "batch_sel_comp",
    "batch_large_buffer --memory 1M",
    "rma",
    "rma --op read",
    "rma_batch --post-list 4",
    "rma_inject",
    "rma_sel_comp",
    "rma_large_buffer --memory 1M",
];

/// Returns the messages or round trips of a point.
fn operations(point: &Value) -> u64 {
    let latency = point["latency"]["round_trips"].as_u64();
    latency.or_else(|| point["bandwidth"]["messages"].as_u64()).unwrap_or(0)
}

#[test]
fn every_name_measures_something_on_every_kind_of_fabric() {
    for name in NAMES {
        for fabric in ["libfabric:tcp", "libfabric:shm", "tcp"] {
            let is_streamed = name.starts_with("batch") && name != "batch_sel_comp";
            if fabric == "tcp" && !is_streamed && name != "ping_pong" {
                continue;
            }
            let all = format!("{name} --fabric {fabric} -s 8 -n 300");
            let points = points_of(&all);
            assert!(operations(&points[0]) > 0, "{all:?}: {points:?}");
            assert_eq!(points[0]["lost"], 0, "{all:?}");
        }
    }
}

/// Checks the points of an open loop of 2000 requests a second.
fn assert_by_the_clock(points: &[Value]) {
    let found = &points[0]["open_loop"];
    let number = |value: &Value| value.as_f64().expect("a number");
    // Intended moments do not depend on how busy the machine is.
    let offered = number(&found["offered_per_s"]);
    assert!((1980.0..=2020.0).contains(&offered), "{found}");
    // What was due while it warmed up may be answered within the window of 0.2 s.
    let warmup_s = points[0]["warmup_ms"].as_f64().unwrap_or(0.0) / 1e3;
    let most = 2020.0 * (0.2 + warmup_s) / 0.2;
    assert!(number(&found["answered_per_s"]) <= most, "{found}");
    for quantile in ["p50_us", "p99_us", "max_us"] {
        let (response, service) = (&found["response"][quantile], &found["service"][quantile]);
        assert!(number(response) >= number(service), "{quantile}: {found}");
    }
}

#[test]
fn an_open_loop_goes_by_the_clock() {
    let line = "open_loop --rate 2000 --arrivals fixed -t 0.2 --blocks 1";
    for fabric in ["tcp", "udp", "libfabric:shm"] {
        assert_by_the_clock(&points_of(format!("{line} --fabric {fabric}")));
    }
    let (output, packets) = on_soft_efa(format!("{line} --fabric verbs:srd"));
    assert_by_the_clock(&output.points());
    assert!(packets >= 800, "{packets} packets of 400 requests and answers");
}

#[test]
fn a_latency_is_measured_beside_streams_that_are_counted() {
    for threads in ["2", "3"] {
        let points =
            points_of(format!("sat_latency --fabric tcp -t 0.3 --blocks 1 --threads {threads}"));
        assert!(operations(&points[0]) > 0, "{points:?}");
        let load = &points[0]["load"];
        let bytes = load["messages"].as_u64().expect("a count") * 8192;
        let mb_per_s = load["mb_per_s"].as_f64().expect("MB/s");
        assert!(bytes > 0 && mb_per_s > 0.0, "{load}");
    }
}

#[test]
fn a_fabric_says_what_it_is() {
    for (fabric, words) in [
        ("libfabric:tcp", ["provider tcp", "FI_EP_RDM"]),
        ("tcp", ["TCP sockets", "any length"]),
        ("udp", ["UDP sockets", "65507 B"]),
    ] {
        let output = efa_bench(format!("info {fabric}"));
        let text = output.text();
        assert!(output.status.success() && words.iter().all(|w| text.contains(w)), "{text}");
    }
    let output =
        Ended::of(Command::new(softefa()).args(["run", "--", PROGRAM, "info", "verbs:srd"]));
    let text = output.text();
    assert!(text.contains("domain rdmap0s6") && text.contains("inject up to 32 B"), "{text}");
    assert_fails(&efa_bench("info libfabric:warp"), 3, &["warp", "fi_info -l"]);
}

#[test]
fn what_contradicts_itself_is_refused_in_one_line() {
    for (arguments, words) in [
        ("latency --post-list 2", ["--post-list", "not for this"]),
        ("bandwidth --op read", ["--op read", "not for this"]),
        ("rma --op send", ["--op send", "not for this"]),
        ("batch -d 8 --post-list 9", ["--post-list 9", "depth, 8"]),
        ("batch -d 8 --complete-every 0", ["--complete-every 0", "1 to"]),
        ("rma_batch --op read --complete-every 2", ["--op read", "completion"]),
        ("batch_sel_comp --validate", ["--validate", "own content"]),
        ("batch --memory 8K", ["--memory", "too little"]),
        ("batch_sel_comp --fabric tcp", ["tcp", "--complete-every"]),
        ("rma --fabric udp", ["udp", "peer's memory"]),
        ("batch --fabric udp --post-list 2", ["udp", "--post-list"]),
        ("batch --until ci=2", ["ci=2%,max=60s", "--until"]),
        ("open_loop", ["--iterations", "not for this"]),
        // Its streams ended long before the ping-pong that they are to load the fabric for.
        ("sat_latency", ["--iterations", "not for this"]),
        ("open_loop --validate", ["--validate", "not for this"]),
        ("latency --rate 5", ["--rate", "not for this"]),
    ] {
        assert_fails(&efa_bench(format!("local {arguments} -q -n 20")), 2, &words);
    }
    let alone = efa_bench("local sat_latency --threads 1 -q");
    assert_fails(&alone, 2, &["--threads 2", "stream"]);
}

#[test]
fn blocks_give_an_interval_and_until_narrows_it() {
    let points = points_of("latency --fabric tcp -s 8,64 -t 0.01 -w 0 --seed 7");
    for point in &points {
        assert_eq!(blocks(point), 5, "{point}");
        let bound = |name: &str| point["interval"][name].as_f64().expect("a bound");
        let middle = point["latency"]["distribution"]["p50_us"].as_f64().expect("a middle");
        assert!(bound("low") <= middle && middle <= bound("high"), "{point}");
    }
    let points = points_of("latency --fabric tcp -s 8 -t 0.01 -w 0 --until ci=0.001%,max=1s");
    assert!(blocks(&points[0]) > 5, "{}", points[0]);
}

/// Returns the number of blocks of a point, with those that do not count: the processors may move
/// meanwhile.
fn blocks(point: &Value) -> usize {
    let count = |list: &Value| list.as_array().map_or(0, Vec::len);
    count(&point["blocks"]) + count(&point["cores"]["left_out"])
}

#[test]
fn soft_efa_is_measured_through_libfabric_and_through_verbs() {
    for fabric in ["libfabric:efa", "verbs:srd", "verbs:ud"] {
        for benchmark in ["latency", "bandwidth -d 8"] {
            let line = format!("{benchmark} --fabric {fabric} -n 200 -s 8,64,4000 --validate");
            let (output, packets) = on_soft_efa(line);
            let points = output.points();
            assert_eq!(points.len(), 3, "{fabric} {benchmark}");
            let validated: u64 = points.iter().filter_map(|p| p["validated"].as_u64()).sum();
            let lost: u64 = points.iter().filter_map(|p| p["lost"].as_u64()).sum();
            assert!(validated + lost >= 900, "{fabric} {benchmark}: {validated} checked");
            // What was checked had been sent by the device.
            assert!(packets >= validated, "{fabric} {benchmark}: {packets} packets");
            assert!(fabric == "verbs:ud" || lost == 0, "{fabric} {benchmark}: {lost} lost");
        }
    }
}

#[test]
fn every_name_measures_something_on_soft_efa() {
    for name in NAMES {
        for fabric in ["libfabric:efa", "verbs:srd"] {
            if fabric == "verbs:srd" && ["tagged", "rma_inject"].contains(&name) {
                continue;
            }
            let all = format!("{name} --fabric {fabric} -s 8 -n 300");
            let (output, packets) = on_soft_efa(&all);
            let count = operations(&output.points()[0]);
            assert!(count > 0 && packets >= count, "{all:?}: {count}, {packets} packets");
        }
    }
}

#[test]
fn inline_sends_are_those_of_verbs_up_to_what_the_device_takes() {
    let (output, packets) =
        on_soft_efa("latency --fabric verbs:srd -n 100 -s 8,32,64 --op inject --validate");
    let errors = output.errors();
    assert_eq!(output.points().len(), 2, "{errors}");
    assert!(errors.contains("64 B is more than the 32 B"), "{errors}");
    assert!(packets >= 400);
}

#[test]
fn the_degree_of_disorder_is_measured() {
    let bandwidth = "bandwidth -n 2000 -s 64 -d 64 --validate";
    let disorder = |points: &[Value]| {
        let found = &points[0]["disorder"];
        (found["overtaken"].as_u64().expect("a count"), found["farthest"].as_u64().expect("one"))
    };
    let in_order = points_of(format!("{bandwidth} --fabric tcp"));
    assert_eq!(disorder(&in_order), (0, 0), "TCP keeps the order");
    let (output, _) =
        on_soft_efa_with("--fault reorder=10%,seed=7", format!("{bandwidth} --fabric verbs:srd"));
    let (overtaken, farthest) = disorder(&output.points());
    assert!(overtaken > 0 && farthest > 0, "{overtaken} overtaken by up to {farthest}");
}

#[test]
fn messages_are_handed_on_in_order_where_that_is_asked_for() {
    let bandwidth = "bandwidth -n 3000 -s 8,1000 -d 64 --order any,numbered,kept";
    let fault = "--fault reorder=10%,seed=7";
    let (output, _) = on_soft_efa_with(fault, format!("{bandwidth} --fabric verbs:srd"));
    for points in output.points().chunks(3) {
        let names: Vec<_> = points.iter().map(|point| point["order"].as_str()).collect();
        assert_eq!(names, [None, Some("numbered"), Some("kept")], "the usual is not written");
        assert!(points[0]["disorder"].is_null(), "{}", points[0]);
        let count = |at: usize, name: &str| points[at]["disorder"][name].as_u64().unwrap_or(0);
        assert!(count(1, "overtaken") > 0 && count(1, "held") == 0, "{}", points[1]);
        let (held, most) = (count(2, "held"), count(2, "held_most"));
        assert!(held >= count(2, "overtaken") && held >= most && most > 0, "{}", points[2]);
        // Nothing is lost on the way: what waits is handed on in the end, some of it across the end
        // of the warm-up.
        assert_eq!(count(2, "messages"), 3300, "{}", points[2]);
        assert!(points[2]["bandwidth"]["messages"].as_u64() >= Some(3000 - most), "{}", points[2]);
    }
    let in_order = points_of(format!("{bandwidth} --fabric tcp"));
    let is_in_order = |point: &&Value| point["disorder"]["overtaken"] == 0;
    assert_eq!(in_order.iter().filter(is_in_order).count(), 4);
    for (more, words) in [
        ("-s 4", &["4 B", "no room"][..]),
        ("-s 64 --fabric udp", &["--order", "lost"]),
        ("-s 64 --complete-every 2", &["--order", "each complete"]),
    ] {
        let words_of = format!("local bandwidth -d 8 --order kept {more}");
        assert_fails(&efa_bench(&words_of), 2, words);
    }
}

#[test]
fn what_a_device_does_not_have_is_refused_in_one_line() {
    let (output, _) = on_soft_efa("latency --fabric verbs:rc -q");
    assert_fails(&output, 3, &["rdmap0s6", "no RC queue pairs"]);
    let (output, _) = on_soft_efa("latency --fabric verbs:srd --domain mlx9 -q");
    assert_fails(&output, 3, &["named mlx9", "rdmap0s6"]);
    let (output, _) = on_soft_efa("latency --fabric verbs:srd --op tagged -q");
    assert_fails(&output, 2, &["no tags", "--op send"]);
    let (output, _) = on_soft_efa("rma_inject --fabric verbs:srd -q");
    assert_fails(&output, 2, &["inline WRITEs", "--op write"]);
    let (output, _) = on_soft_efa("latency --fabric verbs:ud -e rdm -q");
    assert_fails(&output, 2, &["not reliable", "verbs:srd"]);
}

#[test]
fn a_sweep_leaves_out_what_a_device_does_not_take() {
    for (fabric, sizes, depths) in [
        ("--fabric verbs:srd", "64,8192,1000000", "4,100000"),
        ("--fabric verbs:ud", "64,1000000", "4"),
        ("-p efa -e dgram", "64,1000000", "4"),
    ] {
        let all = format!("bandwidth -n 30 -q {fabric} --sizes {sizes} -d {depths}");
        let (output, _) = on_soft_efa(all);
        let points = output.points();
        let fits =
            |p: &Value| p["size_bytes"].as_u64().is_some_and(|s| s <= 8192) && p["depth"] == 4;
        assert!(!points.is_empty() && points.iter().all(fits), "{fabric:?}: {points:?}");
        let results = output.json();
        let warnings = results["warnings"].as_array().expect("warnings");
        let is_left_out = |w: &&Value| w.as_str().is_some_and(|w| w.contains("left out"));
        assert!(warnings.iter().any(|w| is_left_out(&w)), "{warnings:?}");
    }
    let arguments = "bandwidth --fabric udp -n 30 -s 64,70000 -d 4";
    assert_eq!(points_of(arguments).len(), 1);
}

#[test]
fn histograms_are_in_the_result_unless_nobody_wants_them() {
    let point =
        |more: &str| points_of(format!("latency --fabric tcp -n 50 -s 64 {more}")).remove(0);
    let with = point("");
    assert_eq!(with["times"]["of"], "round_trips");
    let text = with["times"]["hdr_v2_deflate"].as_str().expect("a histogram");
    assert!(text.starts_with("HISTFAAA"), "{text}");
    assert!(point("--no-histogram")["times"].is_null());
}

#[test]
fn what_adapters_count_stands_beside_goodput() {
    let measure = "bandwidth -n 2000 -s 4096 -d 16";
    let arguments = format!("{measure} --fabric verbs:srd");
    let (output, _) = counted_on_soft_efa("", arguments);
    let counted = &output.points()[0]["counted"];
    let sent = counted["messages"].as_u64().expect("a number");
    assert!(sent >= 2000, "{counted}");
    let of = |name: &str| counted["nodes"][0]["counts"][name].as_u64().expect("a counter");
    assert!(of("tx_bytes") >= sent * 4096, "{counted}");
    assert!(of("tx_pkts") >= sent && of("retrans_pkts") < sent, "{counted}");
    assert!(counted["nodes"][1]["counts"]["rx_bytes"].as_u64() >= Some(sent * 4096), "{counted}");

    let line = format!("local {measure} --fabric tcp --csv -");
    let csv = efa_bench(&line);
    let text = csv.text();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let heads = rows.next().expect("a heading");
    let at = heads.iter().position(|head| *head == "wire_bytes_per_message").expect("a column");
    let bytes: f64 = rows.next().expect("a row")[at].parse().expect("a number");
    assert!(bytes >= 4096.0, "{text}");
    let csv = efa_bench(format!("{line} --no-counters"));
    let text = csv.text();
    assert!(text.lines().count() == 2 && !text.contains("wire_bytes_per_message"), "{text}");
}

#[test]
fn numa_nodes_that_are_not_there_are_refused() {
    for (option, code) in [("--numa", 2), ("--server-numa", 7)] {
        let arguments = format!("local latency --fabric tcp -n 1 -q {option} 4711");
        assert_fails(&efa_bench(&arguments), code, &["4711", "node"]);
    }
}

#[test]
fn several_pairs_measure_latency_at_once() {
    let all = "multi_latency --threads 3 -s 8 -n 20 -q";
    let ours = points_of(format!("{all} --fabric sockets:tcp"));
    let (output, packets) = on_soft_efa(format!("{all} --fabric verbs:srd"));
    assert!(packets >= 3 * 2 * 20, "{packets} packets");
    for point in [&ours[0], &output.points()[0]] {
        assert_eq!(point["latency"]["round_trips"], 3 * 20, "{point}");
    }
}
