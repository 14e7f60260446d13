use super::*;
use crate::record::{Bandwidth, FabricRecord, Latency};

fn stream(size: usize, depth: usize, endpoints: usize, threads: usize, mmsg: f64) -> Run {
    let messages = (mmsg * 1e6) as u64;
    let bandwidth = Some(Bandwidth::new(messages, messages * size as u64, 1.0));
    let point = Point { bandwidth, ..Point::new(size, depth) };
    let mut run = Run::new("mine", Benchmark::Bandwidth, vec![point]);
    (run.method.endpoints, run.method.threads) = (endpoints, threads);
    run
}

fn lesson(runs: &[Run], title: &str) -> String {
    let section = sections(runs).into_iter().next().expect("a section");
    let own = |text: &String| text.starts_with(&format!("{title}. "));
    section.text.into_iter().find(own).expect("the lesson")
}

#[test]
fn nothing_is_said_without_figures() {
    let runs = [stream(8, 1, 1, 1, 1.0)];
    let [section] = sections(&runs).try_into().expect("one section");
    assert_eq!(section.text.len(), 7);
    assert!(section.text.iter().all(|text| text.contains("Not measured: ")), "{:?}", section.text);
    assert!(sections(&crate::paper::runs()).is_empty());
}

#[test]
fn depth_is_where_the_rate_comes_near_the_best() {
    let rates = [(1, 0.1), (16, 1.0), (64, 1.95), (256, 2.0)];
    let runs = rates.map(|(depth, rate)| stream(8192, depth, 1, 1, rate));
    let text = lesson(&runs, "Depth");
    assert!(text.contains("131.1 Gbit/s") && text.contains("from 64 in flight on."), "{text}");
    let text = lesson(&runs[..3], "Depth");
    assert!(text.contains("deeper windows, which were not tried"), "{text}");
}

#[test]
fn parallelism_ends_where_it_gains_nothing() {
    let runs = [
        stream(16, 256, 1, 1, 2.0),
        stream(16, 256, 4, 1, 4.0),
        stream(16, 256, 2, 1, 3.9),
        stream(16, 256, 1, 4, 7.0),
        stream(4096, 256, 1, 1, 2.0),
        stream(4096, 256, 4, 1, 2.1),
        stream(8192, 256, 1, 1, 1.4),
        stream(8192, 256, 4, 1, 1.4),
    ];
    let text = lesson(&runs, "Size");
    assert!(text.contains("by 3.500 at 16 B") && text.contains("from 4096 B on"), "{text}");
    // Requests in lists are no parallelism.
    let mut listed = stream(8192, 256, 1, 1, 9.0);
    listed.method.flow.post_list = 16;
    assert_eq!(lesson(&[runs.as_slice(), &[listed]].concat(), "Size"), text);
    let text = lesson(&runs, "Queue pairs and threads");
    assert!(text.contains("2 queue pairs") && text.contains("use 4 threads"), "{text}");
}

#[test]
fn read_is_held_against_write() {
    let mut read = stream(64, 1, 1, 1, 0.1);
    (read.benchmark, read.operation) = (Benchmark::Rma, Operation::Read);
    let mut write = stream(64, 1, 1, 1, 0.2);
    (write.benchmark, write.operation) = (Benchmark::Rma, Operation::Write);
    let text = lesson(&[read, write], "READ and WRITE");
    assert!(text.contains("takes 10.00 µs and a WRITE 5.000 µs"), "{text}");
    assert!(text.contains("push with WRITE"), "{text}");
}

#[test]
fn interfaces_are_compared_on_one_adapter() {
    let on = |provider: &str, rate| {
        let fabric = FabricRecord { provider: provider.to_owned(), ..FabricRecord::default() };
        Run { fabric: Some(fabric), ..stream(64, 256, 1, 1, rate) }
    };
    let text = lesson(&[on("verbs srd", 3.0), on("efa", 2.0)], "Interface");
    assert!(text.contains("a ratio of 1.500") && text.contains("use verbs"), "{text}");
    let text = lesson(&[on("verbs srd", 3.0), on("tcp", 2.0)], "Interface");
    assert!(text.contains("Not measured"), "{text}");
}

#[test]
fn batching_is_worth_what_latency_says() {
    let point = |size, mean_us| Point {
        latency: Some(Latency { round_trips: 1, mean_us, distribution: None }),
        ..Point::new(size, 1)
    };
    let run = Run::new("mine", Benchmark::Latency, vec![point(64, 20.0), point(4096, 25.0)]);
    let text = lesson(&[run], "Batching");
    assert!(text.contains("51.20 times") && text.contains("gather small records"), "{text}");
}
