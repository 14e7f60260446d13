//! Floors, and the plans that set everything beside them and beside other tools: from the command
//! line to the table, with little of each. The tests check that all of it runs, not what it finds.

use serde_json::Value;

use crate::common::{Words, assert_fails, efa_bench, points_of, softefa};

const COLUMNS: usize = 100;

/// Runs a round of a built-in plan, as short as can be; returns what it compared, and its table.
fn round(plan: &str, more: &[&str]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("utf-8");
    let softefa = softefa().to_str().expect("utf-8");
    let fixed = format!("plan {plan} --rounds 1 --scale 0.01 --quiet --softefa {softefa}");
    let fixed = format!("{fixed} --out {out}");
    let output = efa_bench([&fixed.words()[..], more].concat());
    let said = output.errors();
    let text = std::fs::read(folder.path().join("results.json"));
    let text = text.unwrap_or_else(|e| panic!("{plan}: {e}: {said}"));
    let results: Value = serde_json::from_slice(&text).expect("JSON");
    let table = output.text();
    let rows = results["plan"]["comparisons"].as_array().cloned().unwrap_or_default();
    assert!(results["plan"]["failed"].is_null(), "{plan}: {}\n{said}", results["plan"]["failed"]);
    for line in table.lines().take_while(|line| !line.starts_with("warning")) {
        assert!(line.chars().count() <= COLUMNS, "wider than a terminal: {line}");
    }
    (rows, table)
}

fn has_figure(row: &Value, side: &str) -> bool {
    row[side][0]["figure"].as_f64().is_some_and(|figure| figure > 0.0)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// Says loudly what is not tried because a program is missing.
fn is_missing(what: &str, programs: &[&str]) -> bool {
    let missing = programs.iter().find(|program| !is_installed(program));
    assert!(missing.is_none() || std::env::var_os("CI").is_none(), "{what}: no {missing:?}");
    if let Some(program) = missing {
        eprintln!("SKIPPED: {what}: {program} is not installed");
    }
    missing.is_some()
}

/// A row of each kind: floors, perftest on both devices and wires, a tool whose set-up is taken
/// out, our own benchmarks, MPI, and a server that goes on for ever.
const KINDS: &str = "udp): ib_send_lat,rc write 8 b,rc send 64 b,16 b,open mpi 64,rdma_cm";

#[test]
fn every_kind_of_row_beside_a_floor_has_figures() {
    if is_missing("the plan floors", &["ib_send_lat", "ib_write_lat", "fi_pingpong", "cmtime"]) {
        return;
    }
    let (rows, table) = round("floors", &["--only", KINDS]);
    assert!(rows.len() >= 9, "{table}");
    for row in rows {
        let what = row["what"].as_str().unwrap_or_default();
        if what.starts_with("Open MPI") && is_missing(what, &["mpicc", "mpirun"]) {
            continue;
        }
        assert!(has_figure(&row, "ours") && table.contains(what), "{row}\n{table}");
        // Nothing stands beside connections.
        assert_eq!(has_figure(&row, "reference"), what != "rdma_cm connections", "{row}");
    }
    for word in ["UDP (--wire udp)", "libfabric shm", "≤ 1.35 x", "bare memory"] {
        assert!(table.contains(word), "no {word}: {table}");
    }
}

#[test]
fn every_tool_that_must_agree_has_a_figure() {
    if is_missing("the plan agree", &["ib_send_lat", "ib_send_bw", "fi_pingpong"]) {
        return;
    }
    let (rows, table) = round("agree", &[]);
    assert_eq!(rows.len(), 5, "{table}");
    for row in rows {
        assert!(has_figure(&row, "ours") && has_figure(&row, "reference"), "{row}\n{table}");
    }
    assert!(table.contains("ib_send_lat") && table.contains("± 5 %"), "{table}");
}

#[test]
fn a_part_of_a_plan_is_what_is_compared_and_what_stands_beside_it() {
    let (rows, table) = round("floors", &["--only", "udp): rdma read"]);
    assert_eq!(rows.len(), 1, "{table}");
    assert!(has_figure(&rows[0], "ours") && has_figure(&rows[0], "reference"), "{rows:?}");
    let plan = "plan floors --dry-run --only warp";
    let output = efa_bench(plan);
    assert_eq!(output.status.code(), Some(2));
    let said = output.errors();
    assert!(
        said.contains("'warp'") && said.contains("\n  UDP (--wire udp): ib_send_lat"),
        "{said}"
    );
    assert_fails(&efa_bench("plan quick --dry-run --rounds 2"), 2, &["--rounds"]);
}

#[test]
fn floors_are_measured_by_the_options_of_any_fabric() {
    for floor in ["floor:memory", "floor:udp"] {
        let common = format!("--fabric {floor} -s 8,1024 --blocks 2 -t 0.02");
        let points = points_of(format!("latency {common}"));
        assert!(points.iter().all(|point| point["latency"]["mean_us"].as_f64() > Some(0.0)));
        let points = points_of(format!("bandwidth {common}"));
        assert!(points.iter().all(|point| point["bandwidth"]["mmsg_per_s"].as_f64() > Some(0.0)));
        assert_eq!(points.len(), 2);
        // One of two may have been measured with the processors elsewhere.
        assert!(points[0]["blocks"].as_array().is_some_and(|blocks| !blocks.is_empty()));
    }
}

#[test]
fn what_a_floor_has_not_is_refused() {
    for (arguments, words) in [
        ("local rpc --fabric floor:udp", &["latency and bandwidth"][..]),
        ("local bandwidth --fabric floor:memory -d 8", &["--depth"]),
        ("local latency --fabric floor:memory --events", &["--events"]),
        ("local latency --fabric floor:memory -s 9000", &["9000 B", "8192 B"]),
        ("run latency --fabric floor:udp -H ::1", &["efa-bench local"]),
        ("info floor:udp", &["efa-bench local"]),
        ("local latency --fabric floor:tape", &["floor:memory"]),
    ] {
        assert_fails(&efa_bench(arguments), 2, words);
    }
}
