//! Streams in both directions at once, between real processes.

use crate::common::{assert_fails, efa_bench, on_soft_efa, on_soft_efa_with, points_of};
use serde_json::Value;

const SHORT: &str = "-s 1,64,4096 -d 16 -t 0.1 -w 0.02";

/// Checks that both directions carried something, and that the point is their sum.
fn check(point: &Value) {
    let gbit = |place: &Value| place["gbit_per_s"].as_f64().expect("a goodput");
    let [there, back] = ["to_server", "to_client"].map(|way| gbit(&point["both_ways"][way]));
    assert!(there > 0.0 && back > 0.0, "{point}");
    let sum = gbit(&point["bandwidth"]);
    assert!((sum / (there + back) - 1.0).abs() < 1e-9, "{point}");
    assert_eq!(point["lost"], 0, "{point}");
}

#[test]
fn both_directions_are_counted_on_sockets() {
    for more in ["--blocks 2", "--validate", "--threads 2 --endpoints 2"] {
        let points = points_of(format!("bidirectional --fabric sockets:tcp {SHORT} -q {more}"));
        assert_eq!(points.len(), 3, "{points:?}");
        for point in &points {
            check(point);
            let is_checked = point["validated"].as_u64() > Some(0);
            assert_eq!(is_checked, more == "--validate", "{point}");
        }
    }
}

#[test]
fn both_directions_are_counted_on_soft_efa() {
    for (fabric, options) in [("verbs:srd", ""), ("libfabric:efa", ""), ("verbs:rc", "--roce")] {
        let all = format!("bidirectional --fabric {fabric} --validate {SHORT} -q");
        let (output, packets) = on_soft_efa_with(options, all);
        let points = output.points();
        assert_eq!(points.len(), 3, "{points:?}");
        points.iter().for_each(check);
        assert!(packets > 0, "{fabric}: the device sent nothing");
    }
}

/// A sender that never has to wait takes messages, too, so that its peer does not wait for ever.
#[test]
fn deep_streams_over_sockets_do_not_starve_each_other() {
    for fabric in ["sockets:tcp", "sockets:udp"] {
        let all = format!("bidirectional --fabric {fabric} -s 64 -t 0.2 -q");
        let points = points_of(&all);
        let lost = points[0]["lost"].as_u64().expect("a count");
        assert!(lost == 0 || fabric == "sockets:udp", "{fabric}: {lost} lost");
    }
}

/// Each side has posted as many receives as the other one has sends, and no more.
#[test]
fn neither_side_waits_for_the_other_for_ever() {
    let all = "bidirectional --fabric verbs:srd -s 8192 -d 64 --rx-depth 2 -t 0.1 -q";
    let (output, _) = on_soft_efa(all);
    output.points().iter().for_each(check);
}

#[test]
fn the_table_has_each_direction() {
    let all = "local bidirectional --fabric sockets:tcp --no-host-checks";
    let output = efa_bench(format!("{all} {SHORT}"));
    let text = output.text();
    let words = ["to server Gbit/s", "to client Gbit/s", "both directions together"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_fails(&efa_bench("local bidirectional -n 5"), 2, &["--iterations"]);
}
