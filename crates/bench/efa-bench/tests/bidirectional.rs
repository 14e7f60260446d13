//! Streams in both directions at once, between real processes.

use crate::common::{assert_fails, efa_bench, on_soft_efa, on_soft_efa_with, points, points_of};
use serde_json::Value;

const SHORT: [&str; 9] = ["-s", "1,64,4096", "-d", "16", "-t", "0.1", "-w", "0.02", "-q"];

/// Both directions carried something, and the point is their sum.
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
    for more in [&["--blocks", "2"][..], &["--validate"], &["--threads", "2", "--endpoints", "2"]] {
        let mut all = vec!["bidirectional", "--fabric", "sockets:tcp"];
        all.extend(SHORT);
        all.extend(more);
        let points = points_of(&all);
        assert_eq!(points.len(), 3, "{points:?}");
        for point in &points {
            check(point);
            let is_checked = point["validated"].as_u64() > Some(0);
            assert_eq!(is_checked, more == ["--validate"], "{point}");
        }
    }
}

#[test]
fn both_directions_are_counted_on_soft_efa() {
    for (fabric, options) in
        [("verbs:srd", &[][..]), ("libfabric:efa", &[]), ("verbs:rc", &["--roce"])]
    {
        let mut all = vec!["bidirectional", "--fabric", fabric, "--validate"];
        all.extend(SHORT);
        let (output, packets) = on_soft_efa_with(options, &all);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{fabric}: {said}");
        let points = points(&output);
        assert_eq!(points.len(), 3, "{points:?}");
        points.iter().for_each(check);
        assert!(packets > 0, "{fabric}: the device sent nothing");
    }
}

/// A sender that never had to wait took no message, so that its peer waited for ever.
#[test]
fn deep_streams_over_sockets_do_not_starve_each_other() {
    for fabric in ["sockets:tcp", "sockets:udp"] {
        let all = ["bidirectional", "--fabric", fabric, "-s", "64", "-t", "0.2", "-q"];
        let points = points_of(&all);
        let lost = points[0]["lost"].as_u64().expect("a count");
        assert!(lost == 0 || fabric == "sockets:udp", "{fabric}: {lost} lost");
    }
}

/// Each side has posted as many receives as the other one has sends, and no more.
#[test]
fn neither_side_waits_for_the_other_for_ever() {
    let all = ["bidirectional", "--fabric", "verbs:srd", "-s", "8192", "-d", "64"];
    let few = ["--rx-depth", "2", "-t", "0.1", "-q"];
    let (output, _) = on_soft_efa(&[&all[..], &few].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    points(&output).iter().for_each(check);
}

#[test]
fn the_table_has_each_direction() {
    let mut all = vec!["local", "bidirectional", "--fabric", "sockets:tcp", "--no-host-checks"];
    all.extend(&SHORT[..8]);
    let output = efa_bench(&all);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let words = ["to server Gbit/s", "to client Gbit/s", "both directions together"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    assert_fails(&efa_bench(&["local", "bidirectional", "-n", "5"]), 2, &["--iterations"]);
}
