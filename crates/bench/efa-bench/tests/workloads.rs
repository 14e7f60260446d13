//! Data-system workloads with real processes: every call is answered, with the value asked for.

use crate::common::{assert_fails, efa_bench, on_soft_efa, on_soft_efa_with, points_of};

const CALLS: u64 = 1_000;
/// The number of calls that are made: a tenth more, for warming up.
const CALLS_MADE: u64 = 1_100;

fn number(point: &serde_json::Value, name: &str) -> f64 {
    point["work"][name].as_f64().unwrap_or_else(|| panic!("no {name} in {point}"))
}

/// Returns the calls of one kind.
fn calls(point: &serde_json::Value, action: &str) -> u64 {
    let actions = point["work"]["actions"].as_array().expect("actions");
    let own = actions.iter().filter(|own| own["name"] == action);
    own.filter_map(|own| own["calls"].as_u64()).sum()
}

#[test]
fn calls_are_answered_over_sockets_whatever_their_length_and_manner() {
    for manner in [
        "rpc -d 1,7",
        "rpc -d 8 --post-list 4 --request 300",
        "rpc -d 4 --threads 2 --endpoints 3 --zipf 0.99",
        "kv -d 8 --gets 50",
        "kv -d 4 --gets 0 --post-list 2",
        "kv -d 16 --gets 95 --zipf 0.5 --rate 1000000",
    ] {
        // The last is read in place, not through the staging buffer.
        let sizes = "-s 8,32,1000,100000";
        let all = format!("{manner} --fabric tcp {sizes} --keys 500 -n 1000 --validate");
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
    let kv = "kv --fabric tcp -n 10000 -d 8 --keys 100 --seed 5";
    let point = &points_of(format!("{kv} --gets 80"))[0];
    let (gets, puts) = (calls(point, "get") as f64, calls(point, "put") as f64);
    // Far outside of what chance does: the deviation is 0.4 %.
    assert!((gets / (gets + puts) - 0.8).abs() < 0.04, "{gets} gets, {puts} puts");
    assert!(point["work"].get("behind_ms").is_none());
    // Nobody makes a thousand million calls a second: each is due before there is room for it.
    let point = &points_of(format!("{kv} --rate 1000000000"))[0];
    assert!(number(point, "behind_ms") > 0.0, "{point}");
    assert_eq!(point["work"]["arrivals"], "poisson");
    assert_eq!(point["rate_per_s"], 1_000_000_000);
}

#[test]
fn calls_go_over_soft_efa_as_packets() {
    for fabric in ["libfabric:efa", "verbs:srd"] {
        for (benchmark, own) in
            [("rpc", "--keys 500"), ("kv", "--keys 500"), ("piggyback", "--records 1")]
        {
            let common = "-n 1000 -s 32,4000 -d 8 --validate";
            let asked = format!("{benchmark} --fabric {fabric} {own} {common}");
            let (output, packets) = on_soft_efa(&asked);
            let points = output.points();
            assert_eq!(points.len(), 2, "{fabric} {benchmark}");
            for point in &points {
                let done = calls(point, if benchmark == "piggyback" { "record" } else { "get" });
                assert!(number(point, "calls") <= CALLS_MADE as f64 && done > 0);
                assert!(number(point, "server_cpu_ns") > 0.0, "{point}");
            }
            // A call and a reply each; every one was checked.
            assert!(packets >= 4 * CALLS, "{fabric} {benchmark}: {packets} packets");
        }
    }
}

/// Returns a percentile of the times, or of a part of them, of the records of a point in µs.
fn record_us(point: &serde_json::Value, of: &str, quantile: &str) -> f64 {
    let own = &point["work"][of][0];
    assert_eq!(own["name"], if of == "parts" { "wait" } else { "record" }, "{point}");
    own["distribution"][quantile].as_f64().unwrap_or_else(|| panic!("no {quantile} in {point}"))
}

#[test]
fn records_travel_together_as_many_as_asked_for() {
    for fabric in ["tcp", "libfabric:shm"] {
        // More than there are, so that the last message is not full; two sessions.
        let full = format!("piggyback --fabric {fabric} -s 8,100 -d 4 --records 1,7");
        let found = points_of(format!("{full} -n 1000 --endpoints 2 --validate"));
        assert_eq!(found.len(), 4, "{fabric}");
        for point in &found {
            assert_eq!(point["validated"], CALLS_MADE, "{fabric}: {point}");
            let records = point["parameter"].as_f64().expect("records of a message");
            let size = point["size_bytes"].as_f64().expect("a size");
            // All but the last are full: two messages for that many records. Up to 56 of them left
            // before the window opened.
            let messages = number(point, "messages_per_call");
            assert!((messages * records / 2.0 - 1.0).abs() < 0.1, "{fabric}: {point}");
            let bytes = size + 24.0 / records;
            assert!((number(point, "bytes_per_call") / bytes - 1.0).abs() < 0.1, "{point}");
        }
    }
}

#[test]
fn records_wait_for_others_as_long_as_said() {
    // A record every millisecond; 50 of them take 50 ms, so that half of them wait 25 ms or more.
    let rare = "piggyback --fabric tcp --rate 1000 --arrivals fixed";
    let rare = format!("{rare} --records 50 -n 600 -d 1");
    let point = |flush_us: &str| points_of(format!("{rare} --flush-us {flush_us}")).remove(0);
    for (flush_us, least_us) in [("0", 0.0), ("500", 500.0), ("1000000", 40_000.0)] {
        let point = point(flush_us);
        assert!(record_us(&point, "parts", "max_us") >= least_us, "{flush_us}: {point}");
        assert!(record_us(&point, "actions", "max_us") >= least_us, "{flush_us}: {point}");
    }
    // Time enough for all of them.
    let full = point("1000000");
    assert!((number(&full, "messages_per_call") * 25.0 - 1.0).abs() < 0.15, "{full}");
    assert!(record_us(&full, "parts", "p50_us") >= 20_000.0, "{full}");
    // In a closed loop there is always another one: messages are full.
    let eager = "piggyback --fabric tcp -n 5000 --records 50 -d 2";
    let point = &points_of(eager)[0];
    assert!((number(point, "messages_per_call") * 25.0 - 1.0).abs() < 0.05, "{point}");
}

/// Checks what each lookup took on the fabric, except for those at the ends of the window.
fn assert_lookups_took(point: &serde_json::Value, reads: f64, messages: f64) {
    for (name, wanted) in [("reads_per_call", reads), ("messages_per_call", messages)] {
        assert!((number(point, name) - wanted).abs() <= 0.1, "{wanted} {name}: {point}");
    }
    assert!(point["validated"].as_u64() >= Some(CALLS_MADE), "{point}");
}

/// Options, and the READs and messages of a lookup at each point that they make.
type Lookup = (&'static str, &'static [(f64, f64)]);

/// Lookups that READ three, two and one level, or the leaf that the owner has named.
const LOOKUPS: [Lookup; 2] = [
    ("--way read --kept 0,1,2", &[(3.0, 0.0), (2.0, 0.0), (1.0, 0.0)]),
    ("--way hybrid", &[(1.0, 2.0)]),
];

#[test]
fn lookups_find_their_values_whoever_walks_the_tree() {
    let common = "-n 1000 -d 8 --zipf 0.9 --validate";
    let found = points_of(format!("index --fabric tcp -s 8,100,1016 --post-list 2 {common}"));
    assert_eq!(found.len(), 3);
    for point in &found {
        assert_lookups_took(point, 0.0, 2.0);
    }
    for (way, wanted) in LOOKUPS {
        let shm = "index --fabric libfabric:shm -s 100 --endpoints 2";
        let found = points_of(format!("{shm} {way} {common}"));
        assert_eq!(found.len(), wanted.len(), "{way:?}");
        for (point, (reads, messages)) in found.iter().zip(wanted) {
            assert_lookups_took(point, *reads, *messages);
        }
    }
}

#[test]
fn lookups_go_over_soft_efa_as_packets() {
    for fabric in ["libfabric:efa", "verbs:srd"] {
        for (way, wanted) in LOOKUPS {
            let asked = format!("index --fabric {fabric} {way} -n 1000 -d 8 --validate");
            let (output, packets) = on_soft_efa(&asked);
            let points = output.points();
            assert_eq!(points.len(), wanted.len());
            for (point, (reads, messages)) in points.iter().zip(wanted) {
                assert_lookups_took(point, *reads, *messages);
            }
            // A request and its bytes for each READ, at least.
            let reads: f64 = wanted.iter().map(|(reads, _)| reads).sum();
            assert!(packets as f64 >= 2.0 * reads * CALLS as f64, "{fabric} {way:?}: {packets}");
        }
    }
}

#[test]
fn files_arrive_whole_from_wherever_they_are() {
    for from in ["memory", "page-cache", "sendfile"] {
        let own = format!("fileget --fabric tcp --from {from} --validate -n 3");
        // Shorter than a chunk, not a multiple of one, and more than the window has room for.
        let found = points_of(format!("{own} -s 1,30001,300000 --chunk 1000,64K -d 1,16"));
        assert_eq!(found.len(), 12, "{from}");
        for point in &found {
            // One more to warm up.
            assert_eq!((calls(point, "get"), &point["validated"]), (3, &4.into()), "{point}");
            let bytes = point["bandwidth"]["mb_per_s"].as_f64().expect("a rate")
                * number(point, "seconds")
                * 1e6;
            let wanted = 3.0 * point["size_bytes"].as_f64().expect("a size");
            assert!((bytes / wanted - 1.0).abs() < 0.01, "{from}: {bytes} {point}");
            assert!(number(point, "server_cpu_s_per_gb") > 0.0, "{point}");
        }
    }
}

#[test]
fn files_go_over_soft_efa_as_packets() {
    for fabric in ["libfabric:efa", "verbs:srd"] {
        let own = format!("fileget --fabric {fabric} -n 3 -s 300000 --validate");
        let (output, packets) = on_soft_efa(format!("{own} --chunk 1000,8000"));
        assert!(output.points().iter().all(|point| calls(point, "get") == 3), "{fabric}");
        // Four files in chunks of 1000 B.
        assert!(packets >= 4 * 300, "{fabric}: {packets} packets");
    }
}

#[test]
fn files_that_the_fabric_damages_are_noticed_by_their_checksum() {
    let (output, _) = on_soft_efa_with(
        "--fault corrupt=5%,seed=3",
        "fileget --fabric verbs:srd -n 20 -s 300000 --chunk 1000 -q",
    );
    assert_fails(&output, 9, &["damages data"]);
}

#[test]
fn values_that_the_fabric_damages_are_noticed() {
    for (benchmark, own) in
        [("rpc", "--keys 100"), ("kv", "--keys 100"), ("piggyback", "--records 4")]
    {
        let common = "-n 5000 -s 1000 -d 8 --validate -q";
        let asked = format!("{benchmark} --fabric verbs:srd {own} {common}");
        let (output, _) = on_soft_efa_with("--fault corrupt=5%,seed=3", &asked);
        assert_fails(&output, 9, &["damages data"]);
    }
}

#[test]
fn what_is_not_for_calls_is_refused_in_one_line() {
    for (arguments, words) in [
        ("latency --keys 9", ["--keys", "not for this"]),
        ("rpc --gets 50", ["--gets", "not for this"]),
        ("kv --request 64", ["--request", "not for this"]),
        ("rpc --request 15", ["--request 15", "16 bytes"]),
        ("kv --gets 101", ["--gets 101", "0 to 100"]),
        ("kv --zipf 1.5", ["--zipf 1.5", "0.99"]),
        ("rpc --records 2", ["--records", "not for this"]),
        ("index --fabric tcp --way read", ["tcp", "no access"]),
        ("index --way rpc --kept 1", ["--kept", "--way read"]),
        ("index --way read --kept 3", ["--kept", "0 to 2"]),
        ("index --fabric tcp -s 1017", ["1017 B", "leaf"]),
        ("fileget --chunk 9", ["--chunk: 9", "multiples of 8"]),
        ("fileget -p shm --from sendfile", ["sendfile", "--fabric tcp"]),
        ("rpc --from memory", ["--from", "not for this"]),
        ("piggyback --keys 9", ["--keys", "not for this"]),
        ("piggyback --records 70000", ["--records: 70000", "at most"]),
        ("piggyback --rate 9 --flush-us 2000000", ["--flush-us 2000000", "at most"]),
        ("piggyback --flush-us 20", ["--flush-us", "--rate"]),
        ("piggyback -d 8 --post-list 2", ["--post-list", "not for this"]),
        ("rpc --fabric udp", ["rpc", "reliable"]),
        ("rpc --op inject", ["--op inject", "calls"]),
        ("rpc -d 8 --window refill", ["--window", "not for this"]),
        ("rpc -d 8 --rate 9 --post-list 2", ["--rate", "--post-list"]),
        ("rpc --fabric tcp -s 7", ["7 B", "value"]),
        ("rpc --fabric tcp --ramp", ["--ramp", "--iterations"]),
        ("incast --watch", ["--watch", "not for this"]),
        ("kv --fabric tcp --keys 5G", ["--keys", "at most"]),
    ] {
        assert_fails(&efa_bench(format!("local {arguments} -q -n 20")), 2, &words);
    }
}

#[test]
fn a_ramp_ends_where_its_bound_does_and_says_so() {
    let folder = tempfile::tempdir().expect("tempdir");
    let json = folder.path().join("ramp.json");
    let ramp = "local rpc --fabric tcp --keys 100 -d 8 --ramp p99<20ms";
    let manner = "-t 0.4 -w 0 --blocks 1 --no-host-checks --json";
    let output = efa_bench(format!("{ramp} {manner} {}", json.display()));
    let text = output.text();
    output.assert_done();
    assert!(text.contains("held with p99 below 20000 µs: "), "{text}");
    let bytes = std::fs::read(&json).expect("results");
    let results: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
    let run = &results["runs"][0];
    assert_eq!(run["method"]["ramp"]["p99_us"], 20_000.0);
    let steps: Vec<(f64, f64)> = run["points"]
        .as_array()
        .expect("points")
        .iter()
        .map(|point| {
            assert_eq!(point["work"]["arrivals"], "poisson");
            // Where nothing was answered there is no tail.
            let p99_us = point["operation_time"]["p99_us"].as_f64().unwrap_or(f64::INFINITY);
            (point["rate_per_s"].as_f64().expect("a rate"), p99_us)
        })
        .collect();
    let held = steps.iter().filter(|(_, p99)| *p99 < 20_000.0).map(|own| own.0).fold(0.0, f64::max);
    let beyond = steps.iter().filter(|(_, p99)| *p99 >= 20_000.0);
    let beyond = beyond.map(|own| own.0).fold(f64::INFINITY, f64::min);
    assert!(beyond.is_finite() && held < beyond, "{steps:?}");
    // A busy machine may not hold even the lowest rate: then that has a hundred operations in a
    // block, or few more.
    match held > 0.0 {
        true => assert!(beyond / held <= 1.1, "{steps:?}"),
        false => assert!((250.0..=500.0).contains(&beyond), "{steps:?}"),
    }
}

#[test]
fn who_watches_sees_each_part_of_a_window() {
    let watched = "local rpc --fabric tcp --keys 100 -d 4 --watch 0.1";
    let manner = "-t 0.5 -w 0 --blocks 1 --no-host-checks --json -";
    let output = efa_bench(format!("{watched} {manner}"));
    let said = output.errors();
    output.assert_done();
    let lines: Vec<&str> = said.lines().filter(|line| line.starts_with("[   0.")).collect();
    assert!((4..=5).contains(&lines.len()), "{said}");
    assert!(lines[0].contains("0.00-   0.10 s]") && lines[0].contains("/s   mean "), "{said}");
    let timeline = &output.points()[0]["timeline"];
    let operations = timeline["operations"].as_array().expect("parts");
    assert_eq!((timeline["part_ms"].as_f64(), operations.len()), (Some(100.0), lines.len()));
}

/// The parts of the first thread do not stand for all.
#[test]
fn who_watches_sees_what_all_threads_do() {
    let watched = "local rpc --fabric tcp --keys 100 -d 4 --threads 2";
    let manner = "--watch 0.1 -t 0.5 -w 0 --blocks 1 --no-host-checks";
    let output = efa_bench(format!("{watched} {manner} --json -"));
    let said = output.errors();
    output.assert_done();
    let rates: Vec<u64> = said
        .lines()
        .filter(|line| line.starts_with("[   0."))
        .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_suffix("/s")))
        .map(|rate| rate.parse().expect("a number"))
        .collect();
    let operations = output.points()[0]["timeline"]["operations"].clone();
    let operations: Vec<u64> = serde_json::from_value(operations).expect("parts");
    assert_eq!(rates, operations.iter().map(|count| count * 10).collect::<Vec<_>>(), "{said}");
}

#[test]
fn a_point_may_last_longer_than_the_silence_that_is_tolerated() {
    let rpc = "rpc --fabric tcp --keys 100 -d 4 -t 0.6 -w 0 --blocks 1 --timeout 0.5";
    let points = points_of(rpc);
    assert!(number(&points[0], "seconds") >= 0.6, "{points:?}");
}
