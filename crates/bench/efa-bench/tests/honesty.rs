//! Nothing is said that was not measured: without an answer there is no percentile, and without
//! figures there is no verdict.

use std::path::Path;

use crate::common::{Ended, Words, assert_fails, command, efa_bench, points_of, read_json};
use serde_json::Value;

/// A rate that no machine reaches.
const TOO_FAST: &str = "500000000";

fn local(words: impl Words, json: &Path) -> Ended {
    let json = json.to_str().expect("utf-8");
    let manner = ["--fabric", "tcp", "--no-host-checks", "--json", json];
    efa_bench([&["local"], &words.words()[..], &manner].concat())
}

#[test]
fn a_saturated_open_loop_has_no_percentile_and_breaks_its_limits() {
    let folder = tempfile::tempdir().expect("folder");
    let json = folder.path().join("r.json");
    let measure = format!("open_loop --rate {TOO_FAST} -t 0.1 -w 0.1 --blocks 1");
    let limit = ["--assert", "open_loop p99 < 30us"];
    let output = local([&measure.words()[..], &limit].concat(), &json);
    let errors = output.errors();
    assert_eq!(output.status.code(), Some(11), "{errors}");
    assert!(errors.contains("not measured"), "{errors}");
    let point = &read_json(&json)["runs"][0]["points"][0];
    let found = &point["open_loop"];
    // Requests of the warm-up were in the way of all others until the end.
    assert!(found["unposted"].as_u64() > Some(40_000_000), "{found}");
    assert!(found["response"].is_null() && found["service"].is_null(), "{found}");
    assert!(point["times"].is_null() && point["blocks"].is_null(), "{point}");
    let text = output.text();
    let row = text.lines().find(|line| line.trim_start().starts_with("64 ")).expect("a row");
    assert!(row.split_whitespace().filter(|cell| *cell == "-").count() >= 6, "{row}");
    assert!(!row.contains(" 0.00"), "{row}");
}

#[test]
fn requests_that_were_never_posted_count_with_their_age() {
    let folder = tempfile::tempdir().expect("folder");
    let json = folder.path().join("r.json");
    let measure = format!("open_loop --rate {TOO_FAST} -t 0.1 -w 0 --blocks 1");
    let output = local(measure, &json);
    output.assert_done();
    let found = read_json(&json)["runs"][0]["points"][0]["open_loop"].clone();
    // Nearly all are given up after four windows, when the youngest is that old.
    let p50_us = found["response"]["p50_us"].as_f64().expect("a median");
    assert!(p50_us > 390_000.0, "{found}");
}

#[test]
fn calls_that_were_due_and_not_done_count_with_their_age() {
    let folder = tempfile::tempdir().expect("folder");
    let json = folder.path().join("r.json");
    for workload in ["rpc", "kv", "piggyback", "log", "2pc"] {
        let measure = format!("{workload} --rate {TOO_FAST} -t 0.5 -w 0 -d 4");
        let output = local(format!("{measure} --blocks 1 -s 64"), &json);
        output.assert_done();
        let point = read_json(&json)["runs"][0]["points"][0].clone();
        let actions = point["work"]["actions"].as_array().expect("actions").clone();
        let count = |name: &str| actions.iter().filter_map(|own| own[name].as_u64()).sum::<u64>();
        // Of 250 million that were due.
        assert!(count("calls") > 0, "{workload}: {actions:?}");
        assert!(count("unended") > 100_000_000, "{workload}: {actions:?}");
        // The rate counts what was done.
        let rate = point["work"]["mcalls_per_s"].as_f64().expect("a rate");
        assert!(rate < 200.0, "{workload}: {rate}");
        // Most were never begun: half of them are older than half of the window.
        let p50_us = point["operation_time"]["p50_us"].as_f64().expect("a median");
        assert!(p50_us > 200_000.0, "{workload}: {p50_us}");
    }
}

#[test]
fn a_window_without_a_call_has_no_times() {
    let folder = tempfile::tempdir().expect("folder");
    let json = folder.path().join("r.json");
    // The first is due at once, in the warm-up, and the second after a second.
    let measure = "rpc --rate 1 --arrivals fixed -t 0.02 -w 0.6 --blocks 1 -d 1";
    let limit = ["--assert", "rpc p99 < 30us"];
    let output = local([&measure.words()[..], &limit].concat(), &json);
    assert_eq!(output.status.code(), Some(11), "{}", output.errors());
    let point = &read_json(&json)["runs"][0]["points"][0];
    assert!(point["operation_time"].is_null(), "{point}");
    let text = output.text();
    assert!(text.lines().any(|line| line.trim_start().starts_with("32 ")), "no row: {text}");
}

/// Writes a result with blocks as given.
fn with_blocks(base: &Value, blocks: &[f64], path: &Path) -> String {
    let mut results = base.clone();
    let point = &mut results["runs"][0]["points"][0];
    point["blocks"] = blocks.into();
    let mut sorted = blocks.to_vec();
    sorted.sort_by(f64::total_cmp);
    point["latency"]["distribution"]["p50_us"] = sorted[sorted.len() / 2].into();
    std::fs::write(path, results.to_string()).expect("write");
    path.display().to_string()
}

#[test]
fn a_comparison_that_cannot_tell_says_so() {
    let folder = tempfile::tempdir().expect("folder");
    let path = |name: &str| folder.path().join(name);
    let output = local("latency -s 8 -n 50 -q", &path("base.json"));
    output.assert_done();
    let base = read_json(path("base.json"));
    let file = |name: &str, blocks: &[f64]| with_blocks(&base, blocks, &path(name));
    let compare = |first: &str, second: &str| efa_bench(format!("compare {first} {second}"));
    let noisy = file("a.json", &[7950.0, 6.3, 7900.0, 7960.0, 6.4]);
    let quiet = file("b.json", &[6.34, 6.33, 6.35, 6.36, 6.32]);
    let output = compare(&noisy, &quiet);
    assert_fails(&output, 12, &["inconclusive", "--runs"]);
    let text = output.text();
    assert!(text.contains("1 inconclusive"), "{text}");
    // The same, to within the noise: all of the interval says so.
    let like = file("c.json", &[6.31, 6.36, 6.33, 6.37, 6.34]);
    assert!(compare(&quiet, &like).status.success());
    assert!(compare(&noisy, &noisy).status.success(), "a file and itself");
    // What is worse for sure is worse, whatever else cannot be told.
    let worse = file("d.json", &[8.0, 8.1, 8.2, 8.1, 8.0]);
    assert_fails(&compare(&quiet, &worse), 11, &["1 figures regressed"]);
}

#[test]
fn several_runs_are_values_of_one_point() {
    let folder = tempfile::tempdir().expect("folder");
    let json = folder.path().join("r.json");
    let measure = "latency -s 8,16 -n 50 --blocks 2 --runs 3";
    let output = local(measure, &json);
    let errors = output.errors();
    output.assert_done();
    // Two points, two blocks, three sessions.
    assert!(errors.contains("[12/12]"), "{errors}");
    let results = read_json(&json);
    let runs = results["runs"].as_array().expect("runs");
    assert_eq!((runs.len(), &runs[0]["method"]["runs"]), (1, &3.into()));
    for point in runs[0]["points"].as_array().expect("points") {
        // Blocks of another phase of the machine are measured and left out.
        let counted = point["blocks"].as_array().map_or(0, Vec::len);
        let left_out = point["cores"]["left_out"].as_array().map_or(0, Vec::len);
        assert_eq!(counted + left_out, 3, "{point}");
        assert!(point["interval"].is_object(), "{point}");
    }
    assert_fails(&local("latency --runs 0", &json), 2, &["--runs 0"]);
}

#[test]
fn options_that_do_nothing_are_refused_in_one_line() {
    for (words, says) in [
        ("local latency -d 4", "--depth is not for this benchmark"),
        ("local ping_pong --no-histogram", "--no-histogram is not for this"),
        ("local rma --rx-depth 9", "--rx-depth is not for this"),
        ("local bandwidth --load-size 9", "it is for sat_latency"),
        ("local bandwidth --arrivals fixed", "--arrivals is not for this"),
        ("local barrier --sizes 9", "--sizes is not for this benchmark"),
        ("local latency -n 9 -w 9", "--warmup does nothing with --iterations"),
        ("local kv --arrivals fixed", "--arrivals does nothing without --rate"),
        ("run latency -H h --no-pin", "--no-pin is for local"),
        ("mpi latency -d 4", "--depth is not for this test: it is for bandwidth"),
        ("mpi barrier -s 4", "--sizes is not for this test"),
        ("local latency -s 64KB", "`64KB` is not a number above 0: write 64K"),
        ("local rpc --keys 3GiB", "write 3G"),
        ("local rpc --rate 2000000000", "--rate 2000000000: give 1000000000"),
    ] {
        assert_fails(&efa_bench(words), 2, &[says]);
    }
    // One of two benchmarks reads it.
    let quick = "local quick -s 8 -n 9 -d 2 -q --fabric tcp";
    assert!(efa_bench(quick).status.success());
}

#[test]
fn one_bad_file_does_not_keep_the_others_from_the_report() {
    let folder = tempfile::tempdir().expect("folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let sample =
        |name: &str| format!("{}/../bench-report/tests/samples/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(file("bad.json"), "{\"schema\":\"other/2\"}").expect("write");
    let good = sample("ib_send_lat.json");
    let page = file("page.md");
    let files =
        format!("report {} {good} {} --no-paper -o {page}", file("bad.json"), file("none.json"));
    let output = efa_bench(&files);
    assert_fails(&output, 10, &["bad.json", "other/2", "none.json", "page.md has the other files"]);
    let text = std::fs::read_to_string(&page).expect("a page");
    assert!(text.contains("perftest"), "{text}");
    // Nothing at all is no page.
    let output = efa_bench(format!("report {} -o {}", file("bad.json"), file("x.md")));
    assert_fails(&output, 10, &["bad.json"]);
    assert!(!folder.path().join("x.md").exists());
}

#[test]
fn no_command_overwrites_the_result_of_another_by_default() {
    let folder = tempfile::tempdir().expect("folder");
    let plan = folder.path().join("p.toml");
    let text = "[defaults]\nblocks = 1\nduration = 0.02\n[[fabric]]\nfabric = 'tcp'\n[[step]]\n\
        benchmark = 'latency'\nsizes = 8\n";
    std::fs::write(&plan, text).expect("write");
    let here = |line: &str| Ended::of(command(line).current_dir(folder.path()));
    let output = here("plan p.toml -q");
    output.assert_done();
    let results = folder.path().join("report/results.json");
    let index = folder.path().join("report/index.html");
    let before =
        (std::fs::read(&results).expect("a result"), std::fs::read(&index).expect("a page"));
    let sample =
        format!("{}/../bench-report/tests/samples/ib_send_lat.json", env!("CARGO_MANIFEST_DIR"));
    assert!(here(&format!("report {sample} --no-paper")).status.success());
    assert_fails(&here("plan p.toml -q"), 2, &["report holds the result", "--force"]);
    let after =
        (std::fs::read(&results).expect("a result"), std::fs::read(&index).expect("a page"));
    assert!(before == after, "the plan's result was overwritten");
    assert!(here("plan p.toml -q --force").status.success());
}

/// They are neither cut silently nor written out of bounds.
#[test]
fn more_operations_than_a_block_of_mpi_has_room_for_are_refused() {
    let output = efa_bench("mpi bidirectional -n 3000000 -d 1 -s 1");
    assert_fails(&output, 2, &["--iterations 3000000", "--blocks"]);
}

/// Two points of one place were one for several sessions, and two for a table.
#[test]
fn an_order_is_measured_once() {
    let times = "-t 0.02 --blocks 1 --runs 2";
    let points = points_of(format!("bandwidth --fabric tcp -s 64 --order kept,kept {times}"));
    assert_eq!(points.len(), 1, "{points:?}");
}
