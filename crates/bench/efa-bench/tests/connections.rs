//! Connections that are opened, used once and closed, between real processes.

use crate::common::{assert_fails, efa_bench, on_soft_efa_with, points_of};
use serde_json::Value;

const SHORT: &str = "-n 30 --blocks 2";
/// The manner for libfabric, whose connections take a tenth of a second: at least one is opened.
const BRIEF: &str = "-t 0.2 -w 0.01 --blocks 1";
const PARTS: [&str; 4] = ["open", "connect", "first message", "close"];

/// Checks that as many connections were opened as were requested (`None`: a time was), each with
/// all its parts, none of which is longer than the whole.
fn check(points: &[Value], count: Option<u64>, what: &str) {
    let [point] = points else { panic!("{what}: {points:?}") };
    let own = &point["connections"];
    let found = own["count"].as_u64().expect("a count");
    assert!(count.map_or(found > 0, |count| found == count), "{what}: {point}");
    assert!(own["per_s"].as_f64() > Some(0.0), "{what}: {point}");
    assert!(own["client_cpu_us"].as_f64() > Some(0.0), "{what}: {point}");
    let parts = own["parts"].as_array().expect("parts");
    let names: Vec<&str> = parts.iter().filter_map(|part| part["name"].as_str()).collect();
    assert_eq!(names, PARTS, "{what}");
    let longest = |times: &Value| times["max_us"].as_f64().expect("a time");
    for part in &parts[..3] {
        assert!(
            longest(&part["distribution"]) <= longest(&point["operation_time"]),
            "{what}: {point}"
        );
    }
}

#[test]
fn connections_come_and_go_on_sockets_and_libfabric() {
    for fabric in ["libfabric:tcp", "libfabric:shm"] {
        let all = format!("connections --fabric {fabric} -q {BRIEF}");
        check(&points_of(&all), None, fabric);
    }
    let all = "connections --fabric sockets:tcp --threads 3 --events -q";
    check(&points_of(format!("{all} {SHORT}")), Some(90), "three threads");
}

#[test]
fn connections_come_and_go_on_soft_efa() {
    for (fabric, options, limit, count) in [
        ("verbs:srd", "", SHORT, Some(30)),
        ("verbs:rc", "--roce", SHORT, Some(30)),
        ("libfabric:efa", "", BRIEF, None),
    ] {
        let all = format!("connections --fabric {fabric} -q {limit}");
        let (output, packets) = on_soft_efa_with(options, &all);
        check(&output.points(), count, fabric);
        // A tenth more than asked for, or 100, for warming up.
        let floor = count.map_or(0, |count| 2 * (count + 100));
        assert!(packets > floor, "{fabric}: {packets} packets");
    }
}

#[test]
fn connections_by_the_clock_are_timed_from_when_they_were_due() {
    let all = "connections --fabric sockets:tcp --rate 200 -t 0.3 -q";
    let points = points_of(format!("{all} -w 0.05 --blocks 1"));
    let own = &points[0]["connections"];
    assert!((1..=90).contains(&own["count"].as_u64().expect("a count")), "{own}");
    assert_eq!(points[0]["rate_per_s"], 200);
}

#[test]
fn a_table_and_a_line_say_what_a_connection_takes() {
    let all = "local connections --fabric sockets:tcp --no-host-checks";
    let output = efa_bench(format!("{all} {SHORT}"));
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    assert!(output.status.success(), "{err}");
    let words = ["connections/s", "open p50", "connect p50", "first message p50", "close p50"];
    assert!(words.iter().all(|word| out.contains(word)), "{out}");
    assert!(err.contains(" /s, p50 "), "{err}");
    let refused = "local connections --fabric sockets:udp -n 1";
    assert_fails(&efa_bench(refused), 2, &["reliable"]);
}
