//! The results of comparing two files.

use super::figure::Figure;
use super::*;
use bench_record::cores::Cores;
use bench_record::spec::Benchmark;
use bench_record::wire::Wire;
use bench_record::{Bandwidth, Point};

fn results(name: &str, gbit_per_s: &[f64]) -> Results {
    let bandwidth = |gbit: f64| Bandwidth::new(1, (gbit * 1e9 / 8.0) as u64, 1.0);
    let middle = gbit_per_s[gbit_per_s.len() / 2];
    let point = Point {
        bandwidth: Some(bandwidth(middle)),
        blocks: gbit_per_s.to_vec(),
        ..Point::new(64, 1)
    };
    Results::of(vec![Run::new(name, Benchmark::Bandwidth, vec![point])], Vec::new())
}

fn rows(base: &Results, new: &Results) -> Vec<ComparedFigure> {
    Pairs::of(base, new).pairs.iter().flat_map(|pair| rows_of(pair, None)).collect()
}

fn change(base: &[f64], new: &[f64]) -> Change {
    let rows = rows(&results("a", base), &results("b", new));
    assert_eq!(rows.len(), 1);
    rows[0].change
}

#[test]
fn blocks_that_differ_widen_the_noise() {
    assert_eq!(change(&[10.0], &[9.6]), Change::Same);
    assert_eq!(change(&[10.0], &[9.0]), Change::Regressed);
    assert_eq!(change(&[9.9, 10.0, 10.1, 10.0], &[8.9, 9.0, 9.1, 9.0]), Change::Regressed);
    // Three and three of one thing are as far apart once in ten times.
    assert_eq!(change(&[9.9, 10.0, 10.1], &[8.9, 9.0, 9.1]), Change::Inconclusive);
    assert_eq!(change(&[8.0, 10.0, 12.0], &[7.0, 9.0, 11.0]), Change::Inconclusive);
    assert_eq!(change(&[9.9, 10.0, 10.1], &[9.8, 9.9, 10.2]), Change::Same);
    assert_eq!(change(&[10.0], &[12.0]), Change::Improved);
}

#[test]
fn calls_are_judged_by_their_rate_and_their_times() {
    let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":2.0,"messages_per_call":2.0,
        "bytes_per_call":88.0,"client_cpu_ns":1.0,"server_cpu_ns":1.0,"actions":[]}"#;
    let work: bench_record::Work = serde_json::from_str(words).expect("calls");
    let times = bench_record::Distribution { p50_us: 5.0, p99_us: 9.0, ..Default::default() };
    let mut results = results("a", &[2.0]);
    results.runs[0].benchmark = Benchmark::Rpc;
    let point = &mut results.runs[0].points[0];
    (point.bandwidth, point.operation_time) = (None, Some(times));
    (point.work, point.blocks) = (Some(work), vec![1.9, 2.0, 2.1]);
    let mut again = results.clone();
    again.runs[0].points[0].blocks = vec![2.1, 1.9, 2.05];
    let apart = rows(&results, &again);
    let found: Vec<_> =
        apart.iter().map(|row| (row.figure.name(), row.base, row.ratio.is_some())).collect();
    // Blocks are of the rate.
    assert_eq!(found, [("p50", 5.0, false), ("p99", 9.0, false), ("rate", 2.0, true)]);
    let changes: Vec<Change> = apart.iter().map(|row| row.change).collect();
    assert_eq!(changes, [Change::Same, Change::Same, Change::Inconclusive]);
    let alike = rows(&results, &results);
    assert!(alike.iter().all(|row| row.change == Change::Same), "a file and itself");
}

/// A virtual machine whose cores have moved is no regression of what runs there.
#[test]
fn near_cores_are_not_judged_against_far_ones() {
    let at = |gbit: f64, round_trip_ns: f64| {
        let mut results = results("a", &[gbit]);
        let cores = Cores::between(round_trip_ns, round_trip_ns);
        results.runs[0].points[0].cores = Some(cores);
        results
    };
    let near = at(10.0, 112.0);
    let apart = rows(&near, &at(5.0, 530.0));
    assert_eq!(apart[0].change, Change::Inconclusive);
    assert!(apart[0].cells()[2].ends_with("cores near and far"), "{:?}", apart[0].cells());
    assert!(why_inconclusive(&apart).contains("1 figures"), "{}", why_inconclusive(&apart));
    assert_eq!(rows(&near, &at(5.0, 113.0))[0].change, Change::Regressed);
    // Nobody looked.
    assert_eq!(rows(&near, &results("a", &[5.0]))[0].change, Change::Regressed);
    let mut gone = at(5.0, 530.0);
    gone.runs[0].points[0].bandwidth = None;
    let missing = rows(&near, &gone);
    assert_eq!((missing[0].new, missing[0].change), (None, Change::Regressed));
}

#[test]
fn connections_are_judged_by_the_interval_of_their_median() {
    let times = |p50_us| bench_record::Distribution { p50_us, ..Default::default() };
    let results = |p50_us: f64, blocks: [f64; 3]| {
        let operation_time = Some(times(p50_us));
        let point = Point { operation_time, blocks: blocks.into(), ..Point::new(1, 1) };
        Results::of(vec![Run::new("a", Benchmark::Connections, vec![point])], Vec::new())
    };
    let (base, new) = ([80.0, 100.0, 120.0], [90.0, 110.0, 130.0]);
    let noisy = rows(&results(100.0, base), &results(110.0, new));
    assert_eq!((noisy[0].figure, noisy[0].change), (Figure::P50, Change::Inconclusive));
}

/// A faster machine is no improvement without a word.
#[test]
fn files_of_two_machines_are_said_to_be() {
    let on = |name: &str, cores| {
        let mut results = results("a", &[10.0]);
        (results.host.name, results.host.cores) = (name.to_owned(), cores);
        results
    };
    let said = different_machines(&on("db1", 8), &on("db2", 64)).expect("a line");
    assert!(said.ends_with("on db1 (8 cores), the second on db2 (64 cores)\n"), "{said}");
    assert_eq!(said.lines().count(), 1);
    assert_eq!(different_machines(&on("db1", 8), &on("db1", 8)), None);
    assert_eq!(different_machines(&on("", 0), &on("db1", 8)), None);
}

/// Shared memory and UDP are not compared as if a change of the program had made the difference.
#[test]
fn files_of_two_wires_are_said_to_be_and_not_judged() {
    let over = |wire, gbit: f64| {
        let mut results = results("a", &[gbit]);
        results.runs[0].wire = wire;
        results
    };
    let (udp, shm) = (over(Some(Wire::Udp), 1.0), over(Some(Wire::Shm), 9.0));
    let found = rows(&udp, &shm);
    assert_eq!(found[0].change, Change::Inconclusive);
    assert!(found[0].verdict().ends_with(": wires udp and shm"), "{}", found[0].verdict());
    assert!(why_inconclusive(&found).contains("another wire"), "{}", why_inconclusive(&found));
    let said = different_wires(&Pairs::of(&udp, &shm).pairs).expect("a line");
    assert_eq!(said, "OTHER WIRE: the first file went over udp, the second over shm\n");
    // Nobody knows that of the other.
    for other in [over(None, 9.0), over(Some(Wire::Udp), 9.0)] {
        assert_eq!(different_wires(&Pairs::of(&udp, &other).pairs), None);
        assert_eq!(rows(&udp, &other)[0].change, Change::Improved);
    }
    // A file with both has each against its own.
    let both = Results::of([udp.runs, shm.runs].concat(), Vec::new());
    let found = Pairs::of(&both, &both);
    assert!(found.ambiguous.is_empty() && different_wires(&found.pairs).is_none());
    let labels: Vec<&str> = found.pairs.iter().map(|pair| pair.label.as_str()).collect();
    assert_eq!(
        labels,
        ["a, wire udp bandwidth 64 B, depth 1", "a, wire shm bandwidth 64 B, depth 1"]
    );
}

#[test]
fn what_is_missing_counts_as_regressed() {
    let mut new = results("a", &[10.0]);
    new.runs[0].points[0].size_bytes = 65;
    let rows = rows(&results("a", &[10.0]), &new);
    assert_eq!((rows[0].new, rows[0].change), (None, Change::Regressed));
}
