use bench_record::cores::Cores;
use bench_record::spec::Benchmark;
use bench_record::workload::{Ack, Commit, LogSpec, LookupMethod, OwnSpec, WorkSpec};
use bench_record::{Bandwidth, Distribution, Latency, Work};

use super::*;

fn latency(name: &str, p50_us: f64, p99_us: f64) -> Run {
    let distribution =
        Some(Distribution { p50_us, p99_us, max_us: p99_us * 9.0, ..Distribution::default() });
    let latency = Latency { round_trips: Some(9), mean_us: p50_us, distribution };
    let blocks: Vec<f64> = [0.98, 0.99, 1.0, 1.01, 1.02].map(|share| share * p50_us).into();
    let interval = report::middle_interval(&blocks);
    let point = Point { latency: Some(latency), blocks, interval, ..Point::new(64, 1) };
    Run::new(name, Benchmark::Latency, vec![point])
}

fn stream(name: &str, gbit_per_s: f64) -> Run {
    let bytes = (gbit_per_s * 1e9 / 8.0) as u64;
    let bandwidth = Some(Bandwidth::new(bytes / 8192, bytes, 1.0));
    let point = Point { bandwidth, blocks: vec![gbit_per_s; 5], ..Point::new(8192, 256) };
    Run::new(name, Benchmark::Bandwidth, vec![point])
}

pub(super) fn calls(name: &str, mcalls_per_s: f64, cpu_ns: f64) -> Run {
    let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":0,"messages_per_call":2.0,
        "bytes_per_call":88.0,"client_cpu_ns":1.0,"server_cpu_ns":1.0,"actions":[]}"#;
    let work: Work = serde_json::from_str(words).expect("calls");
    let work = Work { mcalls_per_s, client_cpu_ns: cpu_ns, server_cpu_ns: cpu_ns, ..work };
    let times = Distribution { p50_us: 5.0, p99_us: 9.0, max_us: 20.0, ..Distribution::default() };
    let point = Point {
        work: Some(work),
        operation_time: Some(times),
        blocks: vec![mcalls_per_s; 5],
        ..Point::new(32, 8)
    };
    Run::new(name, Benchmark::Rpc, vec![point])
}

/// A plan of workloads ended with a table of published figures alone.
#[test]
fn the_terminal_shows_workloads_whatever_was_published() {
    let mut runs = crate::paper::runs();
    assert!(of_workloads(&runs).is_none());
    runs.extend([calls("mine", 2.0, 500.0), calls("yours", 1.0, 1000.0)]);
    let table = of_workloads(&runs).expect("two fabrics");
    let rows: Vec<[&str; 3]> = table.rows.iter().map(|row| [0, 1, 2].map(|i| &*row[i])).collect();
    assert_eq!(rows, [["rpc", "mine", "2.000 M ops/s"], ["rpc", "yours", "1.000 M ops/s"]]);
    // Messages that were measured beside more of them are what the plan is about.
    runs.extend([latency("mine", 10.0, 70.0), stream("mine", 30.0)]);
    assert!(of_workloads(&runs).is_none());
}

#[test]
fn each_comparison_is_a_row_in_words() {
    let runs = [
        latency("mine", 10.0, 70.0),
        latency("yours", 21.0, 50.0),
        stream("mine", 30.0),
        stream("yours", 10.0),
    ];
    let [lead] = sections(&runs, &["mine", "yours"]).try_into().expect("one section");
    assert_eq!((lead.layout, lead.panels.len()), (Layout::Lead, 2));
    let rows = &lead.tables[0].rows;
    assert_eq!(rows[0][1], "◆ 2.1 times as fast at the median, 1.4 times as slow at p99");
    assert_eq!(rows[0][2..4], ["10.00 µs, p99 70.00", "21.00 µs, p99 50.00"]);
    assert_eq!(rows[1][1], "▲ 3.0 times as fast");
    assert_eq!(lead.tables[0].columns[1].title, "mine beside yours");
    let row = &lead.panels[0].rows[0];
    assert_eq!(row.tail, [("p99".to_owned(), 70.0), ("max".to_owned(), 630.0)]);
    assert_eq!((row.blocks.len(), row.interval.is_some()), (5, true));
    // The tail of a rate is not known.
    assert!(lead.panels[1].rows[0].tail.is_empty());
}

#[test]
fn one_fabric_stands_alone_with_its_uncertainty() {
    let [lead] = sections(&[latency("mine", 10.0, 20.0)], &["mine"]).try_into().expect("one");
    let rows = &lead.tables[0].rows;
    assert_eq!(rows[0], ["latency 64 B", "10.00 µs, p99 20.00", "± 2.0 % (95 %, 5 blocks)"]);
    assert!(lead.text[0].starts_with("Marks: "), "nothing is better or worse: {:?}", lead.text);
    let mut once = latency("mine", 10.0, 20.0);
    once.points[0].blocks.truncate(1);
    once.points[0].interval = None;
    let [lead] = sections(&[once], &["mine"]).try_into().expect("one");
    assert_eq!(lead.tables[0].rows[0][2], "not known: one block");
}

#[test]
fn of_many_fabrics_three_are_compared_at_once_and_all_further_down() {
    let names = ["a", "b", "c", "d", "e"];
    let runs = names.map(|name| latency(name, 10.0, 20.0));
    let [lead, all] = sections(&runs, &names).try_into().expect("two sections");
    let seen = |section: &Section| -> Vec<String> {
        section.tables[0].rows.iter().map(|row| row[1].clone()).collect()
    };
    assert_eq!(seen(&lead), ["a", "b", "c", "d"]);
    assert_eq!((seen(&all), all.layout), (names.map(str::to_owned).to_vec(), Layout::Folded));
    assert_eq!(lead.panels[0].rows.len(), 5, "the picture has all");
}

/// A failed step of a plan puts no figure under another name, and no verdict about another.
#[test]
fn who_was_not_measured_is_not_stood_in_for() {
    let runs = [latency("Beta", 10.0, 20.0), stream("Alpha", 30.0), stream("Beta", 10.0)];
    let [lead] = sections(&runs, &["Alpha", "Beta"]).try_into().expect("one section");
    let rows = &lead.tables[0].rows;
    assert_eq!(lead.tables[0].columns[2].title, "Alpha");
    assert_eq!(rows[0][1..4], ["Alpha was not measured", "-", "10.00 µs, p99 20.00"]);
    assert!(rows[0][4].starts_with("± 2.0 %"), "{:?}", rows[0]);
    assert_eq!(rows[1][1], "▲ 3.0 times as fast");
    let others = [latency("Gamma", 30.0, 60.0), stream("Gamma", 10.0)];
    let runs = [&runs[..], &others[..]].concat();
    let [lead] = sections(&runs, &["Alpha", "Beta", "Gamma"]).try_into().expect("one section");
    let seen: Vec<&[String]> = lead.tables[0].rows.iter().map(|row| &row[1..3]).collect();
    assert_eq!(seen[0], ["Beta", "Alpha was not measured"]);
    assert_eq!(seen[1], ["Gamma", "Alpha was not measured"]);
    assert_eq!((seen[2][0].as_str(), seen[3][1].as_str()), ("Alpha", "▲ 3.0 times as fast"));
    // Each was measured alone.
    let runs = [latency("Alpha", 10.0, 20.0), stream("Beta", 10.0)];
    let [lead] = sections(&runs, &["Alpha", "Beta"]).try_into().expect("one section");
    assert_eq!(lead.tables[0].rows[0][1], NOBODY);
    assert_eq!(lead.tables[0].rows[1][1..3], ["Alpha was not measured", "-"]);
}

#[test]
fn workloads_say_rate_tail_and_cost() {
    let runs = [calls("mine", 2.0, 500.0), calls("yours", 1.0, 2000.0)];
    let [lead, choice] = sections(&runs, &["mine", "yours"]).try_into().expect("two sections");
    assert_eq!((lead.layout, choice.title.as_str()), (Layout::Lead, "For who chooses a network"));
    let rows = &lead.tables[0].rows;
    assert_eq!(rows[0][..3], ["rpc 32 B, depth 8", "mine", "2.000 M ops/s"]);
    assert_eq!(rows[0][3..6], ["5.000", "9.000", "1000 CPU ns/op"]);
    assert_eq!(rows[1][6], "▼ 2.0 times as slow, as fast at p99, 4.0 times the CPU time");
    // Streams beside a workload stand after it.
    let mut all = runs.to_vec();
    all.extend([calls("mine", 2.0, 1.0), stream("mine", 1.0)]);
    all[2].benchmark = Benchmark::Kv;
    let places: Vec<Layout> = sections(&all, &["mine"]).iter().map(|own| own.layout).collect();
    assert_eq!(places, [Layout::Lead, Layout::Body, Layout::Body]);
}

#[test]
fn nothing_measured_is_nothing_shown() {
    assert!(sections(&[], &[]).is_empty());
    assert!(sections(&crate::paper::runs(), &["mine"]).is_empty());
}

/// Returns what a lesson of the workloads says.
fn lesson(runs: &[Run], names: &[&str], about: &str) -> Option<String> {
    let sections = sections(runs, names);
    let own = sections.iter().find(|own| own.title == "Lessons of the workloads")?;
    let row = own.tables[0].rows.iter().find(|row| row[0] == about)?;
    Some(row[1..].join(" "))
}

#[test]
fn batching_pays_or_does_not() {
    let records = |name: &str, rates: [f64; 2]| {
        let mut run = calls(name, rates[0], 1.0);
        run.points.extend(calls(name, rates[1], 1.0).points);
        (run.benchmark, run.points[0].parameter, run.points[1].parameter) =
            (Benchmark::Piggyback, 1, 16);
        run
    };
    let said = |runs: &[Run]| lesson(runs, &["mine", "yours"], "Batching").expect("a lesson");
    let text = said(&[records("mine", [1.0, 5.0])]);
    assert!(
        text.starts_with("mine: 16 records of 32 B in a message are 5.0 times those of one."),
        "{text}"
    );
    assert!(text.ends_with("on each of these fabrics."), "{text}");
    let text = said(&[records("mine", [1.0, 5.0]), records("yours", [1.0, 1.02])]);
    assert!(text.ends_with("elsewhere send them one by one."), "{text}");
    assert!(lesson(&[calls("mine", 1.0, 1.0)], &["mine"], "Batching").is_none());
}

#[test]
fn who_walks_the_tree_is_said_with_the_cost_of_its_owner() {
    let index = |way, rate, cpu_ns| {
        let mut run = calls("mine", rate, cpu_ns);
        run.benchmark = Benchmark::Index;
        run.method.work = Some(WorkSpec { way, ..WorkSpec::NONE });
        run
    };
    let runs = [index(LookupMethod::Rpc, 2.0, 700.0), index(LookupMethod::Read, 1.0, 3.0)];
    let text = lesson(&runs, &["mine"], "Lookups").expect("a lesson");
    assert!(text.contains("READ 1.000 M/s, 3.000 ns of the owner"), "{text}");
    assert!(text.ends_with("Fastest: mine: RPC."), "{text}");
    assert!(lesson(&runs[..1], &["mine"], "Lookups").is_none());
}

#[test]
fn tcp_is_enough_where_nobody_does_more() {
    let over = |name: &str, provider: &str, rate| {
        let fabric =
            bench_record::FabricRecord { provider: provider.to_owned(), ..Default::default() };
        Run { fabric: Some(fabric), ..calls(name, rate, 1.0) }
    };
    let said = |rates: [f64; 2]| {
        let runs = [over("mine", "verbs SRD", rates[0]), over("yours", "TCP sockets", rates[1])];
        lesson(&runs, &["mine", "yours"], "Where TCP is enough").expect("a lesson")
    };
    assert!(said([1.0, 0.95]).ends_with("TCP is enough for all of these."));
    let text = said([3.0, 1.0]);
    assert!(text.contains("(3.0 times)") && text.ends_with("for none of these."), "{text}");
    let mut log = over("mine", "verbs SRD", 2.0);
    log.benchmark = Benchmark::Log;
    let mut other = over("yours", "tcp", 1.0);
    other.benchmark = Benchmark::Log;
    let text = lesson(&[log, other], &["mine", "yours"], "Replicas").expect("a lesson");
    assert!(text.contains("yours: 1.000 M records/s at p99 9.000 µs"), "{text}");
    assert!(text.ends_with("Ship logs over mine where the rate counts."), "{text}");
}

/// If the best of each fabric has other acknowledgements, no winner is named across them.
#[test]
fn replicas_are_compared_at_one_setting() {
    let log = |name: &str, ack, rate| {
        let mut run = calls(name, rate, 1.0);
        run.benchmark = Benchmark::Log;
        let own = OwnSpec::Log(LogSpec { group: 1, commit: Commit::All, ack });
        run.method.work = Some(WorkSpec { own, ..WorkSpec::NONE });
        run
    };
    let said = |runs: &[Run]| lesson(runs, &["mine", "yours"], "Replicas");
    let completion = log("mine", Ack::Completion, 9.0);
    let others = [log("mine", Ack::Message, 1.0), log("yours", Ack::Message, 2.0)];
    let text = said(&[std::slice::from_ref(&completion), &others[..]].concat()).expect("a lesson");
    assert!(text.starts_with("log 32 B, depth 8: mine: 1.000 M records/s"), "{text}");
    assert!(text.ends_with("Ship logs over yours where the rate counts."), "{text}");
    assert!(said(&[completion, log("yours", Ack::Message, 2.0)]).is_none(), "nothing in common");
    let text = said(&[log("mine", Ack::Message, 2.0), log("yours", Ack::Message, 1.95)]);
    assert!(text.is_some_and(|text| text.contains("near tie")));
}

/// If the fastest of each way has another depth, they are not compared.
#[test]
fn lookups_are_compared_at_one_setting() {
    let index = |way, depth, rate| {
        let mut run = calls("mine", rate, 1.0);
        (run.benchmark, run.points[0].depth) = (Benchmark::Index, depth);
        run.method.work = Some(WorkSpec { way, ..WorkSpec::NONE });
        run
    };
    let (call, read) = (LookupMethod::Rpc, LookupMethod::Read);
    let runs = [index(call, 8, 1.0), index(read, 8, 2.0), index(call, 128, 9.0)];
    let text = lesson(&runs, &["mine"], "Lookups").expect("a lesson");
    assert!(text.starts_with("32 B, depth 8: mine: RPC 1.000 M/s"), "{text}");
    assert!(text.ends_with("Fastest: mine: READ."), "{text}");
    let runs = [index(call, 8, 2.0), index(read, 8, 1.95)];
    let text = lesson(&runs, &["mine"], "Lookups").expect("a lesson");
    assert!(text.contains("near tie"), "{text}");
}

/// Figures of near cores are not compared with those of far ones.
#[test]
fn lessons_leave_out_what_nobody_may_compare() {
    let at = |mut run: Run, benchmark, ns, records| {
        run.benchmark = benchmark;
        run.points[0].cores = Some(Cores::between(ns, ns));
        run.points[0].parameter = records;
        run
    };
    let records = |count, rate, ns| at(calls("mine", rate, 1.0), Benchmark::Piggyback, ns, count);
    let runs = [records(1, 1.0, 530.0), records(16, 5.0, 110.0)];
    let said = |runs: &[Run]| lesson(runs, &["mine"], "Batching").expect("a lesson");
    assert!(said(&runs).starts_with("Cannot be told"), "{}", said(&runs));
    let runs = [&runs[..], &[records(8, 2.0, 530.0)]].concat();
    assert!(said(&runs).contains("8 records of 32 B in a message are 2.0 times"));
    let over = |name: &str, provider: &str, rate, ns| {
        let fabric =
            bench_record::FabricRecord { provider: provider.to_owned(), ..Default::default() };
        Run { fabric: Some(fabric), ..at(calls(name, rate, 1.0), Benchmark::Log, ns, 0) }
    };
    let runs = [over("mine", "verbs SRD", 3.0, 110.0), over("yours", "TCP sockets", 1.0, 530.0)];
    let said = |about| lesson(&runs, &["mine", "yours"], about).expect("a lesson");
    let text = said("Where TCP is enough");
    assert!(text.starts_with("Cannot be told") && !text.contains("times"), "{text}");
    let text = said("Replicas");
    assert!(text.contains("undecided: mine; yours") && !text.contains("Ship"), "{text}");
}
