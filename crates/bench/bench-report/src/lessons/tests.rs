use bench_record::cores::Cores;
use bench_record::spec::{Benchmark, Operation, Order};
use bench_record::wire::Wire;
use bench_record::{Bandwidth, Disorder, FabricRecord, Latency, Point};

use super::*;

fn stream(size: usize, depth: usize, endpoints: usize, threads: usize, mmsg: f64) -> Run {
    curve(size, &[(depth, mmsg)], endpoints, threads)
}

/// Returns a run of one size at several depths.
fn curve(size: usize, rates: &[(usize, f64)], endpoints: usize, threads: usize) -> Run {
    let point = |&(depth, mmsg): &(usize, f64)| {
        let messages = (mmsg * 1e6) as u64;
        let bandwidth = Some(Bandwidth::new(messages, messages * size as u64, 1.0));
        Point { bandwidth, blocks: vec![mmsg; 5], ..Point::new(size, depth) }
    };
    let mut run = Run::new("mine", Benchmark::Bandwidth, rates.iter().map(point).collect());
    (run.method.endpoints, run.method.threads) = (endpoints, threads);
    run
}

/// Returns what was measured and what follows, for the first fabric.
fn lesson(runs: &[Run], about: &str) -> String {
    let sections = sections(runs);
    let rows = sections.iter().flat_map(|section| &section.tables).flat_map(|table| &table.rows);
    let row = rows.into_iter().find(|row| row[0] == about);
    row.unwrap_or_else(|| panic!("no {about} in {sections:?}"))[1..].join(" ")
}

fn has(runs: &[Run], about: &str) -> bool {
    let sections = sections(runs);
    let mut rows =
        sections.iter().flat_map(|section| &section.tables).flat_map(|table| &table.rows);
    rows.any(|row| row[0] == about)
}

#[test]
fn nothing_is_said_without_figures() {
    let runs = [stream(8, 1, 1, 1, 1.0)];
    let [section] = sections(&runs).try_into().expect("one section");
    assert!(section.tables.is_empty(), "{:?}", section.tables);
    let (title, commands) = &section.details[0];
    assert!(title.contains("6 more") && commands.lines().count() == 6, "{title}: {commands}");
    assert!(sections(&crate::paper::runs()).is_empty());
}

#[test]
fn depth_is_where_the_rate_comes_near_the_best() {
    let large = [(1, 0.1), (16, 1.0), (64, 1.95), (256, 2.0)];
    let text = lesson(&[curve(8192, &large, 1, 1)], "Depth");
    assert!(text.contains("131.1 Gbit/s of 8192 B at best (256 in flight)"), "{text}");
    assert!(text.contains("98 % of that with 64, 50 % with 16, 5 % with 1."), "{text}");
    assert!(text.contains("at least 64 messages of 8192 B"), "{text}");
    let rising = [(1, 0.1), (4, 0.4), (16, 1.0), (64, 4.0)];
    let text = lesson(&[curve(16, &rising, 1, 1)], "Depth");
    assert!(text.contains("deeper windows, which were not tried"), "{text}");
    // Points of several runs are no curve, and three are none either.
    let apart = large.map(|(depth, rate)| stream(8192, depth, 1, 1, rate));
    assert!(!has(&apart, "Depth") && !has(&[curve(16, &large[..3], 1, 1)], "Depth"));
    let flat = [(1, 1.98), (4, 1.99), (16, 2.0), (64, 2.0)];
    let text = lesson(&[curve(8192, &flat, 1, 1)], "Depth");
    assert!(text.contains("One message in flight is nearly enough"), "{text}");
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
        // Another depth is another measurement.
        stream(4096, 512, 1, 1, 9.0),
        stream(8192, 256, 1, 1, 1.4),
        stream(8192, 256, 4, 1, 1.4),
    ];
    let text = lesson(&runs, "Message size");
    assert!(text.contains("by 2.00 at 16 B, 1.05 at 4096 B, 1.00 at 8192 B"), "{text}");
    assert!(text.contains("Spread messages of 16 B over several; else one is enough"), "{text}");
    // Requests in lists are no parallelism.
    let mut listed = stream(8192, 256, 1, 1, 9.0);
    listed.method.flow.post_list = 16;
    assert_eq!(lesson(&[runs.as_slice(), &[listed]].concat(), "Message size"), text);
    let text = lesson(&runs, "Parallelism");
    assert!(text.contains("at best 4.000 with 4, within 5 % of that with 2"), "{text}");
    assert!(text.contains("Use 4 threads"), "{text}");
    let mut crowded = runs;
    crowded[3].method.crowded = true;
    let text = lesson(&crowded, "Parallelism");
    assert!(text.contains("Not judged: 4 threads and more"), "{text}");
    assert!(text.contains("Use 2 queue pairs of one thread"), "{text}");
    let even = [stream(16, 256, 1, 1, 2.0), stream(16, 256, 4, 1, 2.1)];
    let text = lesson(&even, "Parallelism");
    assert!(text.contains("One thread with one queue pair is enough"), "{text}");
}

/// Returns a stream as it comes and in order, with these rates and this many overtaken messages.
fn ordered(any: f64, kept: f64, overtaken: u64) -> Run {
    let mut run = curve(64, &[(256, any), (256, kept)], 1, 1);
    let disorder = Disorder { overtaken, messages: 1000, farthest: 7, held: 9, held_most: 5 };
    let point = &mut run.points[1];
    (point.order, point.disorder) = (Order::Kept, Some(disorder));
    run
}

#[test]
fn order_costs_what_a_stream_in_order_moves_less() {
    let text = lesson(&[ordered(4.0, 3.9, 20)], "Order");
    assert!(text.contains("2.000 % came after a later one, by up to 7"), "{text}");
    assert!(text.contains("0.97 times as many (0.97 to 0.97)"), "{text}");
    assert!(text.contains("it costs little here"), "{text}");
    let text = lesson(&[ordered(4.0, 3.0, 20)], "Order");
    assert!(text.contains("in any order where you can") && text.contains("64 B."), "{text}");
    let text = lesson(&[ordered(4.0, 4.0, 0)], "Order");
    assert!(text.contains("all came in order") && text.contains("Nothing overtook"), "{text}");
    // A difference that the blocks do not bear out is none.
    let mut noisy = ordered(4.0, 3.0, 20);
    noisy.points[1].blocks = vec![3.2, 3.5, 3.6, 4.0, 4.1];
    assert!(lesson(std::slice::from_ref(&noisy), "Order").contains("it costs little here"));
    noisy.points[1].blocks = vec![1.0, 2.0, 3.0, 5.0, 9.0];
    assert!(lesson(&[noisy], "Order").contains("Measure longer"));
}

#[test]
fn read_is_held_against_write() {
    let one_sided = |operation, size, rate| {
        let mut run = stream(size, 1, 1, 1, rate);
        (run.benchmark, run.operation) = (Benchmark::Rma, operation);
        run
    };
    let mut runs = vec![
        one_sided(Operation::Read, 64, 0.1),
        one_sided(Operation::Write, 64, 0.2),
        one_sided(Operation::Read, 8192, 0.05),
        one_sided(Operation::Write, 8192, 0.1),
    ];
    let text = lesson(&runs, "READ and WRITE");
    assert!(text.contains("of 64 B READ 10.00 µs, WRITE 5.000 µs"), "{text}");
    assert!(text.contains("Push with WRITE"), "{text}");
    runs[3] = one_sided(Operation::Write, 8192, 0.05);
    assert!(lesson(&runs, "READ and WRITE").contains("neither is faster"));
}

/// READs measured with near cores are not compared with figures of far ones.
#[test]
fn lessons_leave_out_what_nobody_may_compare() {
    let at = |mut run: Run, ns| {
        for point in &mut run.points {
            point.cores = Some(Cores::between(ns, ns));
        }
        run
    };
    let one_sided = |operation, size, rate| {
        let mut run = stream(size, 1, 1, 1, rate);
        (run.benchmark, run.operation) = (Benchmark::Rma, operation);
        run
    };
    let mut runs = vec![
        at(one_sided(Operation::Read, 64, 0.1), 530.0),
        at(one_sided(Operation::Write, 64, 0.2), 110.0),
    ];
    assert!(lesson(&runs, "READ and WRITE").starts_with("Cannot be told"));
    runs.push(at(one_sided(Operation::Read, 8192, 0.05), 530.0));
    runs.push(at(one_sided(Operation::Write, 8192, 0.05), 530.0));
    let text = lesson(&runs, "READ and WRITE");
    assert!(text.contains("of 8192 B READ") && !text.contains("of 64 B"), "{text}");
    let on = |provider: &str, size, rate, ns| {
        let fabric = FabricRecord { provider: provider.to_owned(), ..FabricRecord::default() };
        Run { fabric: Some(fabric), ..at(stream(size, 256, 1, 1, rate), ns) }
    };
    let mut runs = vec![on("verbs SRD", 64, 9.0, 110.0), on("efa", 64, 2.0, 530.0)];
    assert!(lesson(&runs, "Interface").starts_with("Cannot be told"));
    runs.extend([on("verbs SRD", 512, 3.0, 530.0), on("efa", 512, 2.0, 530.0)]);
    assert!(lesson(&runs, "Interface").contains("512 B, depth 256: verbs moves 3.000"));
    let latency = |size, mean_us, ns| {
        let latency = Latency { round_trips: Some(1), mean_us, distribution: None };
        let point = Point { latency: Some(latency), ..Point::new(size, 1) };
        at(Run::new("mine", Benchmark::Latency, vec![point]), ns)
    };
    let mut runs = vec![latency(64, 20.0, 110.0), latency(4096, 50.0, 530.0)];
    assert!(lesson(&runs, "Batching").starts_with("Cannot be told"));
    runs.push(latency(4096, 25.0, 110.0));
    runs.extend([at(stream(64, 256, 1, 1, 2.0), 530.0), at(stream(4096, 256, 1, 1, 1.0), 110.0)]);
    let text = lesson(&runs, "Batching");
    assert!(text.contains("1.25 times as late") && !text.contains("At depth"), "{text}");
}

/// Curves, gains and costs do not join points measured near with points measured far.
#[test]
fn lessons_of_streams_leave_out_what_nobody_may_compare() {
    let at = |mut run: Run, ns: &[f64]| {
        for (point, ns) in run.points.iter_mut().zip(ns) {
            point.cores = Some(Cores::between(*ns, *ns));
        }
        run
    };
    let (near, far) = (110.0, 530.0);
    let large = [(1, 0.1), (16, 1.0), (64, 1.95), (256, 2.0)];
    let depth = |ns: &[f64]| lesson(&[at(curve(8192, &large, 1, 1), ns)], "Depth");
    assert!(depth(&[near, near, far, far]).starts_with("Cannot be told"));
    let longer = [&large[..], &[(1024, 9.0)]].concat();
    let text = lesson(&[at(curve(8192, &longer, 1, 1), &[far, far, far, far, near])], "Depth");
    assert!(text.contains("at best (256 in flight)"), "{text}");
    let streams = |ns: [f64; 4]| {
        let all = [(16, 1, 2.0), (16, 4, 7.0), (4096, 1, 2.0), (4096, 4, 7.0)];
        let one = |((size, endpoints, rate), ns)| at(stream(size, 256, endpoints, 1, rate), &[ns]);
        all.into_iter().zip(ns).map(one).collect::<Vec<Run>>()
    };
    for about in ["Message size", "Parallelism"] {
        let text = lesson(&streams([near, far, near, far]), about);
        assert!(text.starts_with("Cannot be told"), "{about}: {text}");
    }
    let mut runs = streams([far; 4]);
    runs.push(at(stream(16, 256, 8, 1, 90.0), &[near]));
    let text = lesson(&runs, "Message size");
    assert!(text.contains("by 3.50 at 16 B"), "{text}");
    let text = lesson(&runs, "Parallelism");
    assert!(text.contains("at best 7.000 with 4"), "{text}");
    let text = lesson(&[at(ordered(4.0, 3.0, 20), &[near, far])], "Order");
    assert!(text.starts_with("Cannot be told"), "{text}");
}

/// Four threads are not "several endpoints".
#[test]
fn threads_are_no_endpoints() {
    let one = |size| stream(size, 256, 1, 1, 2.0);
    let threads = |size| stream(size, 256, 1, 4, 8.0);
    let runs = [one(16), threads(16), one(4096), threads(4096)];
    assert!(!has(&runs, "Message size"));
    assert!(has(&runs, "Parallelism"));
}

#[test]
fn mpi_is_an_interface_and_no_fabric() {
    let fabric = FabricRecord { provider: "mpi".to_owned(), ..FabricRecord::default() };
    assert!(sections(&[Run { fabric: Some(fabric), ..stream(64, 256, 1, 1, 1.0) }]).is_empty());
}

#[test]
fn interfaces_are_compared_on_one_adapter() {
    let on = |provider: &str, rate| {
        let fabric = FabricRecord { provider: provider.to_owned(), ..FabricRecord::default() };
        Run { fabric: Some(fabric), ..stream(64, 256, 1, 1, rate) }
    };
    // The providers as the backends call themselves.
    let fabric: bench_record::fabric_name::FabricName = "verbs:srd".parse().expect("a fabric");
    let verbs = fabric.label();
    let text = lesson(&[on(&verbs, 3.0), on("efa", 2.0)], "Interface");
    assert!(text.contains("verbs 1.50 times") && text.contains("Use verbs"), "{text}");
    assert!(!has(&[on(&verbs, 3.0), on("tcp", 2.0)], "Interface"));
    let over = |wire, run| Run { wire: Some(wire), ..run };
    let memory = over(Wire::Shm, on(&verbs, 9.0));
    let udp = over(Wire::Udp, on("efa", 2.0));
    assert!(!has(&[memory.clone(), udp.clone()], "Interface"), "over different wires");
    let runs = [memory, udp, over(Wire::Udp, on(&verbs, 3.0))];
    assert!(lesson(&runs, "Interface").contains("verbs 1.50 times"));
    let runs = [over(Wire::Shm, on("efa", 3.0)), over(Wire::Shm, on(&verbs, 9.0))];
    assert!(lesson(&runs, "Interface").contains("verbs 3.00 times"));
}

#[test]
fn batching_is_worth_what_latency_and_rate_say() {
    let point = |size, mean_us| Point {
        latency: Some(Latency { round_trips: Some(1), mean_us, distribution: None }),
        ..Point::new(size, 1)
    };
    let latency = Run::new("mine", Benchmark::Latency, vec![point(64, 20.0), point(4096, 25.0)]);
    let text = lesson(std::slice::from_ref(&latency), "Batching");
    assert!(text.contains("are there 1.25 times as late"), "{text}");
    assert!(text.contains("one after the other they take 51 times as long"), "{text}");
    let mut listed = stream(64, 256, 1, 1, 3.0);
    listed.method.flow.post_list = 16;
    let runs = [latency, stream(64, 256, 1, 1, 2.0), stream(4096, 256, 1, 1, 1.0), listed];
    let text = lesson(&runs, "Batching");
    assert!(text.contains("2.000 M/s one by one and 64.00 M/s together"), "{text}");
    assert!(text.contains("32 times as many") && text.contains("by 1.50"), "{text}");
}
