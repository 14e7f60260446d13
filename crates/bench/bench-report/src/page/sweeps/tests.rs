//! Plots of runs that are composed here.

use super::*;
use bench_record::cores::Cores;
use bench_record::spec::{Benchmark, Order};
use bench_record::wire::Wire;
use bench_record::{Bandwidth, Collective, Distribution, Latency, Work};

const NAMES: [&str; 2] = ["mine", "yours"];

fn stream(name: &str, places: &[(usize, usize)]) -> Run {
    let point = |&(size, depth): &(usize, usize)| Point {
        bandwidth: Some(Bandwidth::new(1, (size * depth) as u64, 1.0)),
        ..Point::new(size, depth)
    };
    Run::new(name, Benchmark::Bandwidth, places.iter().map(point).collect())
}

fn titles(runs: &[Run]) -> Vec<String> {
    sections(runs, &NAMES).into_iter().map(|section| section.title).collect()
}

#[test]
fn each_number_that_varies_is_an_axis() {
    let places = [(16, 256), (64, 256), (8192, 256), (8192, 1), (8192, 16), (16, 16)];
    let runs = [stream("mine", &places), stream("yours", &places[..3])];
    assert_eq!(
        titles(&runs),
        [
            "bandwidth: goodput over size (bytes); depth 256",
            "bandwidth: goodput over depth (in flight); 8192 B"
        ]
    );
    let plots = sections(&runs, &NAMES);
    let lines = |at: usize| plots[at].chart.as_ref().map_or(0, |chart| chart.series.len());
    assert_eq!((lines(0), lines(1)), (2, 2));
}

#[test]
fn published_lines_are_not_drawn_beside_shared_memory() {
    let places = [(16, 256), (64, 256), (8192, 256)];
    let published = Run { source: "published".to_owned(), ..stream(crate::paper::EFA, &places) };
    let lines = |wire| {
        let mine = Run { wire: Some(wire), ..stream("mine", &places) };
        let plots = sections(&[mine, published.clone()], &NAMES);
        plots[0].chart.as_ref().map_or(0, |chart| chart.series.len())
    };
    assert_eq!((lines(Wire::Udp), lines(Wire::Shm)), (2, 1));
}

#[test]
fn lines_are_told_apart_by_what_differs() {
    let mut kept = stream("mine", &[(16, 8), (64, 8), (256, 8)]);
    kept.method.threads = 2;
    let mut any = kept.clone();
    kept.points.iter_mut().for_each(|point| point.order = Order::Kept);
    any.command = "again".to_owned();
    let plots = sections(&[any, kept], &NAMES);
    let [section] = &plots[..] else { panic!("{plots:?}") };
    assert_eq!(section.title, "bandwidth: goodput over size (bytes); depth 8, threads 2");
    assert_eq!(section.commands, ["again"]);
    let series = &section.chart.as_ref().expect("a plot").series;
    let names: Vec<&str> = series.iter().map(|line| line.name.as_str()).collect();
    assert_eq!(names, ["mine", "mine, order kept"]);
    assert_ne!(series[0].look, series[1].look);
}

/// A move of the cores makes no step in a line.
#[test]
fn points_measured_near_and_far_are_no_line() {
    let places: Vec<(usize, usize)> = (4..10).map(|power| (1 << power, 8)).collect();
    let mut mine = stream("mine", &places);
    for (point, ns) in mine.points.iter_mut().zip([110.0, 110.0, 110.0, 530.0, 530.0, 530.0]) {
        point.cores = Some(Cores::between(ns, ns));
    }
    let plots = sections(&[mine, stream("yours", &places)], &NAMES);
    let series = &plots[0].chart.as_ref().expect("a plot").series;
    let lines: Vec<(&str, usize)> =
        series.iter().map(|line| (line.name.as_str(), line.points.len())).collect();
    assert_eq!(lines, [("mine, cores near", 3), ("mine, cores far", 3), ("yours", 6)]);
}

#[test]
fn what_other_tools_count_is_not_said_to_be_ours() {
    let mut runs = [
        stream("mine", &[(16, 8), (64, 8), (256, 8)]),
        stream("OSU", &[(16, 8), (64, 8), (256, 8)]),
    ];
    "imported".clone_into(&mut runs[1].source);
    let text = |runs: &[Run]| sections(runs, &["mine", "OSU"])[0].text.join(" ");
    assert!(text(&runs).contains("at the receiver") && text(&runs).ends_with(OF_OTHER_TOOLS));
    assert_eq!(text(&runs[1..]), OF_OTHER_TOOLS);
    assert!(!text(&runs[..1]).contains(OF_OTHER_TOOLS));
}

#[test]
fn two_points_are_a_line_where_there_is_no_longer_one() {
    let two = [(16, 1), (64, 1)];
    assert_eq!(titles(&[stream("mine", &two)]).len(), 1);
    assert!(titles(&[stream("mine", &two[..1])]).is_empty());
}

#[test]
fn calls_have_a_rate_and_a_tail_and_collectives_a_time() {
    let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":2.0,"messages_per_call":2.0,
        "bytes_per_call":88.0,"client_cpu_ns":1.0,"server_cpu_ns":1.0,"actions":[]}"#;
    let work: Work = serde_json::from_str(words).expect("calls");
    let times = Some(Distribution { p50_us: 5.0, p99_us: 9.0, ..Distribution::default() });
    let point =
        |depth| Point { operation_time: times, work: Some(work.clone()), ..Point::new(32, depth) };
    let rpc = Run::new("mine", Benchmark::Rpc, [1, 8, 32].map(point).into());
    assert_eq!(
        titles(&[rpc]),
        [
            "rpc: rate over depth (in flight); 32 B",
            "rpc: 99th percentile over depth (in flight); 32 B"
        ]
    );
    let point = |ranks| Point {
        operation_time: times,
        collective: Some(Collective {
            ranks,
            operations: Some(1),
            mean_us: 5.0,
            bus_gbit_per_s: None,
            overlap_percent: None,
            alone_us: None,
        }),
        ..Point::new(64, 1)
    };
    let mut barrier = Run::new("mine", Benchmark::Collective, [2, 4].map(point).into());
    barrier.test = "barrier".to_owned();
    assert_eq!(titles(&[barrier]), ["barrier: median time over ranks; 64 B"]);
}

/// The axis stays logarithmic: on a linear one, all sizes below 100 KiB lie on one place.
#[test]
fn a_size_of_0_leaves_the_axis_of_sizes_as_it_is() {
    let point = |size| Point {
        latency: Some(Latency { mean_us: 5.0, ..Latency::default() }),
        ..Point::new(size, 1)
    };
    let sizes = std::iter::once(0).chain((0..=22).map(|power| 1 << power));
    let run = Run::new("mine", Benchmark::Latency, sizes.map(point).collect());
    let plots = sections(&[run], &NAMES);
    let [section] = &plots[..] else { panic!("{plots:?}") };
    let chart = section.chart.as_ref().expect("a plot");
    assert_eq!(chart.x.scale, Scale::Log2);
    let table = chart.table();
    assert_eq!((table.rows.len(), table.rows[0][0].as_str()), (24, "0"));
    assert_eq!(section.text.last().map(String::as_str), Some(OF_0_BYTES));
    let html = report::html(&report::Page { sections: plots.clone(), ..Default::default() });
    for tick in ["1", "64", "1 Ki", "64 Ki", "4 Mi"] {
        assert!(html.contains(&format!("text-anchor=\"middle\">{tick}</text>")), "{tick}: {html}");
    }
}
