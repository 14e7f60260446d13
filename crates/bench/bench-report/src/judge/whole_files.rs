//! Two result files as a user has them, from their text to the exit code.

use clap::{Args, FromArgMatches};
use serde_json::{Value, json};

use super::*;

/// Compares two result files with these options.
fn compare(base: &Results, new: &Results, options: &[&str]) -> Result<Judged, String> {
    let command = CompareArgs::augment_args(clap::Command::new("compare"));
    let words = [&["compare", "a", "b"], options].concat();
    let matches = command.try_get_matches_from(words).map_err(|error| error.to_string())?;
    let args = CompareArgs::from_arg_matches(&matches).map_err(|error| error.to_string())?;
    judge(&args, base, new).map_err(|failure| failure.to_string())
}

/// A result file of runs.
fn file(runs: &Value) -> Results {
    let host = json!({"name": "h", "kernel": "", "cpu": "", "cores": 2, "clock_read_ns": 1.0,
        "environment": {}});
    let file = json!({"schema": "efa-bench/2", "tool": "", "libfabric": "", "date": "",
        "command": "", "host": host, "warnings": [], "runs": runs});
    output::parse(&file.to_string()).expect("a result file")
}

/// A complete run of one point.
fn run_of(benchmark: &str, point: &Value) -> Value {
    json!({"name": "x", "source": "measured", "benchmark": benchmark, "endpoint": "rdm",
        "operation": "send", "command": "", "complete": true, "points": [point]})
}

/// Returns a point with nothing but its size and this value.
fn point(name: &str, value: Value) -> Value {
    let mut point = json!({"size_bytes": 64, "depth": 1, "validated": 0});
    point[name] = value;
    point
}

fn goodput(gbit_per_s: f64) -> Value {
    json!({"mb_per_s": gbit_per_s * 125.0, "gbit_per_s": gbit_per_s, "mmsg_per_s": gbit_per_s})
}

/// A stream with its blocks.
fn stream(blocks: &[f64]) -> Value {
    let middle = report::middle(blocks).expect("blocks");
    let mut point = point("bandwidth", goodput(middle));
    point["blocks"] = json!(blocks);
    point
}

/// Compares two files of one run each; returns the exit code, the table and the reason.
fn compared(base: &Value, new: &Value) -> (u8, String) {
    let [base, new] = [base, new].map(|run| file(&json!([run])));
    let Judged { text, verdict } = compare(&base, &new, &[]).expect("something in common");
    match verdict {
        Ok(()) => (0, text),
        Err(failure) => (failure.exit_code(), format!("{text}{failure}")),
    }
}

/// With a threshold that is not a finite number, nothing would ever change.
#[test]
fn a_threshold_is_a_number_with_an_end() {
    let of = |gbit| file(&json!([run_of("bandwidth", &stream(&[gbit]))]));
    let (fast, slow) = (of(10.0), of(1.0));
    let compare = |percent: &str| compare(&fast, &slow, &["--threshold", percent]);
    for percent in ["nan", "inf", "-1", "1001", "5%"] {
        assert!(compare(percent).is_err(), "{percent}");
    }
    assert!(compare("50").expect("judged").verdict.is_err());
    assert!(compare("1000").expect("judged").verdict.is_ok());
}

/// The move of a processor may make one of two figures half as good as the other.
#[test]
fn what_was_measured_while_the_cores_moved_is_not_judged() {
    let at = |gbit, phase| {
        let mut point = stream(&[gbit]);
        point["cores"] = json!({"phase": phase, "round_trip_ns": 112.0});
        run_of("bandwidth", &point)
    };
    for (one, other) in [("changed", "changed"), ("near", "changed"), ("changed", "far")] {
        let (code, text) = compared(&at(10.0, one), &at(5.0, other));
        assert_eq!(code, 12, "{one}, {other}: {text}");
        assert!(text.contains(&format!("inconclusive: cores {one}")), "{text}");
    }
    assert_eq!(compared(&at(10.0, "near"), &at(5.0, "near")).0, 11);
    let moved = at(10.0, "changed");
    assert_eq!(compared(&moved, &moved).0, 0, "a file and itself");
}

/// A time below zero is no improvement, and neither is none at all.
#[test]
fn a_time_that_is_none_is_no_improvement() {
    let latency = |p50_us: f64| {
        let times = json!({"min_us": 0.5, "p50_us": p50_us, "p99_us": 9.0, "max_us": 10.0});
        let latency = json!({"mean_us": 5.0, "distribution": times});
        run_of("latency", &point("latency", latency))
    };
    for (base, new) in [(5.0, 0.0), (0.0, 5.0)] {
        let (code, text) = compared(&latency(base), &latency(new));
        assert_eq!(code, 12, "{base} to {new}: {text}");
        assert!(text.contains("inconclusive: no time"), "{text}");
    }
    let text = serde_json::to_string(&file(&json!([latency(5.0)]))).expect("JSON");
    for odd in ["-9.0", "1e300"] {
        let text = text.replace("\"p50_us\":5.0", &format!("\"p50_us\":{odd}"));
        let error = output::parse(&text).expect_err("no time");
        assert!(error.contains("x latency has at 64 bytes a p50 of"), "{error}");
    }
}

/// A run that ended early is not the same as one that has measured everything.
#[test]
fn a_run_that_ended_early_is_said_to_have_and_not_the_same() {
    let whole = run_of("bandwidth", &stream(&[10.0]));
    let mut cut = whole.clone();
    (cut["complete"], cut["error"]) = (false.into(), "the other side went away".into());
    for (base, new, of) in [(&whole, &cut, "second"), (&cut, &whole, "first")] {
        let (code, text) = compared(base, new);
        let line = format!("INCOMPLETE: x bandwidth of the {of} file: the other side went away\n");
        assert!(code == 12 && text.contains(&line), "{code}: {text}");
    }
    cut["points"] = json!([stream(&[1.0])]);
    assert_eq!(compared(&whole, &cut).0, 11, "what regressed did");
}

#[test]
fn warnings_of_both_files_are_shown() {
    let mut busy = file(&json!([run_of("bandwidth", &stream(&[10.0]))]));
    busy.warnings.push("other programs\nused the processors".to_owned());
    let quiet = file(&json!([run_of("bandwidth", &stream(&[10.0]))]));
    let judged = compare(&quiet, &busy, &[]).expect("judged");
    let line = "warning of the second file: other programs\u{fffd}used the processors\n";
    assert!(judged.text.contains(line) && judged.verdict.is_ok(), "{}", judged.text);
}

/// A figure that collapsed is not passed over with exit code 0.
#[test]
fn whatever_collapsed_is_seen() {
    let connections = |per_s: f64| {
        let found = json!({"count": 500, "per_s": per_s, "parts": []});
        run_of("connections", &point("connections", found))
    };
    let unreliable = |lost: u64| {
        let mut stream = stream(&[10.0]);
        stream["bandwidth"]["messages"] = 100_000.into();
        stream["lost"] = lost.into();
        run_of("bandwidth", &stream)
    };
    let answered = |answered_per_s: f64| {
        let times = json!({"min_us": 1.0, "p50_us": 5.0, "p99_us": 9.0, "max_us": 10.0});
        let found = json!({"arrivals": "fixed", "offered_per_s": 1000.0,
            "answered_per_s": answered_per_s, "unposted": 0, "response": times, "service": times});
        run_of("open_loop", &point("open_loop", found))
    };
    for (base, new, figure) in [
        (connections(22_988.0), connections(50.0), "connections /s"),
        (unreliable(0), unreliable(5_000_000), "delivered %"),
        (answered(920.0), answered(9.2), "answered /s"),
    ] {
        let (code, text) = compared(&base, &new);
        let row = text.lines().find(|line| line.contains(figure)).expect(&text);
        assert!(code == 11 && row.contains("REGRESSED"), "{text}");
        assert_eq!(compared(&base, &base).0, 0, "{figure}");
    }
    // A few of many are noise, and a fabric that loses nothing has no row.
    assert_eq!(compared(&unreliable(0), &unreliable(100)).0, 0);
    assert!(!compared(&unreliable(0), &unreliable(0)).1.contains("delivered"));
}

/// A latency beside a thousandth of the load is not the same, and neither is no figure.
#[test]
fn other_loads_and_no_figures_are_not_judged() {
    let beside = |gbit_per_s: f64| {
        let times = json!({"min_us": 0.5, "p50_us": 5.0, "p99_us": 9.0, "max_us": 10.0});
        let mut point = point("latency", json!({"mean_us": 5.0, "distribution": times}));
        point["load"] = goodput(gbit_per_s);
        run_of("sat_latency", &point)
    };
    let (code, text) = compared(&beside(10.0), &beside(0.01));
    assert!(code == 12 && text.contains("loads of 10.00 and 0.01"), "{text}");
    assert_eq!(compared(&beside(10.0), &beside(9.5)).0, 0);
    let nothing = run_of("bandwidth", &point("lost", 0.into()));
    let (code, text) = compared(&nothing, &nothing);
    assert!(code == 12 && text.contains("NO FIGURE: x bandwidth 64 B"), "{text}");
}

/// By the p99 of one block each, seven of nine pairs of the same would have regressed.
#[test]
fn a_tail_is_judged_by_the_tails_of_all_blocks() {
    let latency = |p99_us: f64, tails: &[f64]| {
        let times = json!({"min_us": 0.5, "p50_us": 5.0, "p99_us": p99_us, "max_us": 1000.0});
        let mut point = point("latency", json!({"mean_us": 5.0, "distribution": times}));
        point["blocks"] = json!([5.0, 5.1, 4.9, 5.0, 5.0]);
        point["p99_blocks"] = json!(tails);
        run_of("latency", &point)
    };
    let (code, text) = compared(&latency(9.0, &[]), &latency(30.0, &[]));
    assert!(code == 12 && text.contains("no p99 of each block"), "{text}");
    assert_eq!(compared(&latency(9.0, &[]), &latency(9.5, &[])).0, 0);
    // The block in the middle by its median has any tail.
    let (quiet, noisy) = ([9.0, 9.1, 9.2, 9.3, 30.0], [9.0, 9.4, 9.2, 30.0, 31.0]);
    let mut other = latency(30.0, &noisy);
    other["points"][0]["blocks"][0] = 5.05.into();
    let (code, text) = compared(&latency(9.0, &quiet), &other);
    assert!(code == 12 && !text.contains("REGRESSED"), "{text}");
    let mut worse = latency(30.0, &[29.0, 30.0, 31.0, 30.5, 29.5]);
    worse["points"][0]["blocks"][0] = 5.05.into();
    let (code, text) = compared(&latency(9.0, &[9.0, 9.1, 9.2, 9.3, 9.4]), &worse);
    assert!(code == 11 && text.contains("p99 us  REGRESSED"), "{text}");
}

/// Two and two blocks of one thing look like a regression once in three times.
#[test]
fn two_blocks_tell_no_change() {
    let stream = |blocks: &[f64]| run_of("bandwidth", &stream(blocks));
    let (code, text) = compared(&stream(&[10.0, 10.1]), &stream(&[9.0, 9.1]));
    assert!(code == 12 && text.contains("inconclusive: of 2 blocks"), "{text}");
    let (four, less) = ([10.0, 10.1, 10.2, 10.0], [9.0, 9.1, 9.0, 9.1]);
    assert_eq!(compared(&stream(&four), &stream(&less)).0, 11);
    assert_eq!(compared(&stream(&[10.0, 10.1]), &stream(&[10.0, 10.05])).0, 0);
}
