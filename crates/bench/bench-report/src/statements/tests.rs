//! Verdicts follow the figures.

use bench_record::cores::Cores;
use bench_record::spec::Benchmark;
use bench_record::{
    Bandwidth, Collective, Distribution, FabricRecord, Latency, PlanRecord, Point, Results, Run,
};

use super::*;

fn times(us: f64) -> Distribution {
    Distribution {
        min_us: us,
        p50_us: us,
        p90_us: Some(us),
        p99_us: us,
        p999_us: Some(us),
        p9999_us: Some(us),
        max_us: us,
    }
}

fn run(benchmark: Benchmark, provider: &str, domain: &str, points: Vec<Point>) -> Run {
    let fabric = FabricRecord {
        provider: provider.to_owned(),
        domain: domain.to_owned(),
        ..FabricRecord::default()
    };
    Run { fabric: Some(fabric), ..Run::new(domain, benchmark, points) }
}

/// Returns a run with the median at each of the sizes.
fn latency(domain: &str, us: &[(usize, f64)]) -> Run {
    let point = |(size, us): &(usize, f64)| {
        let latency =
            Latency { round_trips: Some(1), mean_us: *us, distribution: Some(times(*us)) };
        Point { latency: Some(latency), ..Point::new(*size, 1) }
    };
    run(Benchmark::Latency, "mpi", domain, us.iter().map(point).collect())
}

fn goodput(domain: &str, pairs: usize, mb: &[(usize, u64)]) -> Run {
    let point = |(size, mb): &(usize, u64)| {
        let bytes = mb * 1_000_000;
        let bandwidth = Bandwidth::new(bytes / *size as u64, bytes, 1.0);
        Point { bandwidth: Some(bandwidth), ..Point::new(*size, 64) }
    };
    let mut run = run(Benchmark::Bandwidth, "mpi", domain, mb.iter().map(point).collect());
    run.method.threads = pairs;
    run
}

fn kernel(test: &str, domain: &str, us: f64) -> Run {
    let collective = Collective {
        ranks: 2,
        operations: Some(1),
        mean_us: us,
        bus_gbit_per_s: None,
        overlap_percent: None,
        alone_us: None,
    };
    let point = Point {
        collective: Some(collective),
        operation_time: Some(times(us)),
        ..Point::new(1 << 18, 1)
    };
    Run { test: test.to_owned(), ..run(Benchmark::Collective, "mpi", domain, vec![point]) }
}

fn of_plan(name: &str, runs: Vec<Run>) -> Results {
    let mut results = Results::of(runs, Vec::new());
    results.plan = Some(PlanRecord {
        comparisons: Vec::new(),
        name: name.to_owned(),
        scale: 1.0,
        steps: 1,
        steps_done: 1,
        skipped: Vec::new(),
        failed: Vec::new(),
        complete: true,
    });
    results
}

/// Returns the row of the statement that has `words` in it.
fn row(results: &Results, words: &str) -> [String; 2] {
    let table = table(results).expect("a study's table");
    let row = table.rows.into_iter().find(|row| row[0].contains(words)).expect("the statement");
    [row[1].clone(), row[3].clone()]
}

#[test]
fn only_a_studys_plan_has_statements() {
    assert!(table(&Results::of(Vec::new(), Vec::new())).is_none());
    assert!(table(&of_plan("quick", Vec::new())).is_none());
    for study in STUDIES {
        let table = table(&of_plan(study.plan, Vec::new())).expect("a table");
        assert_eq!(table.rows.len(), study.statements.len());
        for row in table.rows {
            assert!(["not measured", "cannot be told"].contains(&row[1].as_str()), "{row:?}");
        }
    }
}

#[test]
fn latencies_hold_partly_where_some_sizes_are_behind() {
    let tcp = || latency("ucx:tcp", &[(8, 6.0), (8192, 9.0), (1 << 20, 50.0)]);
    let judge = |us: &[(usize, f64)]| {
        row(&of_plan("ucx", vec![tcp(), latency("ucx:ud_v", us)]), "UCX over UD has a lower")
    };
    let [verdict, evidence] = judge(&[(8, 2.0), (8192, 8.0), (1 << 20, 500.0)]);
    assert_eq!(verdict, "holds", "long messages are not what it is about");
    assert!(evidence.contains("8 B 2.000 µs and 6.000 (3.00 times)"), "{evidence}");
    assert_eq!(judge(&[(8, 2.0), (8192, 10.0)])[0], "holds partly");
    assert_eq!(judge(&[(8, 7.0), (8192, 10.0)])[0], "does not hold");
    assert_eq!(judge(&[(64, 1.0)])[0], "not measured", "no size of both");
}

/// A latency with the cores near is not compared with one with the cores far.
#[test]
fn near_cores_are_no_evidence_against_far_ones() {
    let at = |mut run: Run, places: &[f64]| {
        for (point, ns) in run.points.iter_mut().zip(places) {
            point.cores = Some(Cores::between(*ns, *ns));
        }
        run
    };
    let judge = |places: [f64; 2]| {
        let tcp = at(latency("ucx:tcp", &[(8, 6.0), (8192, 9.0)]), &[530.0, 530.0]);
        let own = at(latency("ucx:ud_v", &[(8, 2.0), (8192, 10.0)]), &places);
        row(&of_plan("ucx", vec![tcp, own]), "UCX over UD has a lower")
    };
    assert_eq!(judge([530.0, 530.0])[0], "holds partly");
    let [verdict, evidence] = judge([530.0, 110.0]);
    assert!(verdict == "holds" && !evidence.contains("8192 B"), "{verdict}: {evidence}");
    let [verdict, evidence] = judge([110.0, 110.0]);
    assert_eq!(verdict, "cannot be told");
    assert!(evidence.contains("near for one") && !evidence.contains("times"), "{evidence}");
    let kernels = |ns| {
        let rc = at(kernel("nas-is", "ucx:rc_v", 100.0), &[ns]);
        let tcp = at(kernel("nas-is", "mpi:tcp", 900.0), &[530.0]);
        row(&of_plan("rdmaoe", vec![rc, tcp]), "NAS")[0].clone()
    };
    assert_eq!([kernels(530.0), kernels(110.0)], ["holds", "cannot be told"]);
}

#[test]
fn ten_times_is_more_than_ahead() {
    let judge = |mb: u64| {
        let runs =
            vec![goodput("ucx:tcp", 1, &[(1 << 20, 100)]), goodput("ucx:srd", 1, &[(1 << 20, mb)])];
        row(&of_plan("ucx", runs), "ten times")[0].clone()
    };
    assert_eq!([judge(1000), judge(300), judge(90)], ["holds", "holds partly", "does not hold"]);
}

#[test]
fn several_pairs_are_held_against_one() {
    let judge = |[tcp, rc]: [u64; 2]| {
        let of = |domain: &str, pairs, mb| goodput(domain, pairs, &[(1024, mb)]);
        let runs = vec![
            of("mpi:tcp", 1, 100),
            of("mpi:tcp", 2, tcp),
            of("ucx:rc_v", 1, 100),
            of("ucx:rc_v", 2, rc),
        ];
        row(&of_plan("rdmaoe", runs), "Several pairs")
    };
    let [verdict, evidence] = judge([180, 100]);
    assert_eq!(verdict, "holds");
    assert!(evidence.contains("1.80 times the goodput of one over TCP, 1.00 times"), "{evidence}");
    assert_eq!(judge([180, 180])[0], "holds partly");
    assert_eq!(judge([100, 180])[0], "does not hold");
}

#[test]
fn kernels_are_judged_by_their_mean() {
    let judge = |is_us: f64, ft_us: f64| {
        let runs = vec![
            kernel("nas-is", "mpi:tcp", 900.0),
            kernel("nas-is", "ucx:rc_v", is_us),
            kernel("nas-ft", "mpi:tcp", 900.0),
            kernel("nas-ft", "ucx:rc_v", ft_us),
        ];
        row(&of_plan("rdmaoe", runs), "NAS")[0].clone()
    };
    assert_eq!(judge(100.0, 900.0), "holds", "nine and one: three on average");
    assert_eq!(judge(300.0, 900.0), "holds partly");
    assert_eq!(judge(900.0, 900.0), "does not hold");
}

#[test]
fn each_wire_has_its_verdict() {
    let over = |wire, us| Run { wire: Some(wire), ..latency("ucx:ud_v", &[(8, us)]) };
    let runs = vec![latency("ucx:tcp", &[(8, 6.0)]), over(Wire::Udp, 7.0), over(Wire::Shm, 1.0)];
    let results = of_plan("ucx", runs);
    let row = table(&results).expect("a table").rows.swap_remove(0);
    assert_eq!(row[1..3], ["does not hold", "holds"]);
    let text = text(&results).expect("text");
    assert!(text.contains("does not hold over UDP, holds in memory"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}
