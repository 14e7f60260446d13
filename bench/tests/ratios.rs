//! The table of ratios and of floors, from the command line to text and JSON, with few messages:
//! that it runs is what is tested, not what it finds.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Mutex;

use serde_json::Value;

const COLUMNS: usize = 120;

fn bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.args(arguments).output().expect("bench starts")
}

/// Runs it once with few messages and answers the rows that it wrote, its table, and what else it
/// said.
fn rows(name: &str, arguments: &[&str]) -> (Vec<Value>, String, String) {
    let file = std::env::temp_dir().join(format!("{name}-{}.json", std::process::id()));
    let file_text = file.to_str().expect("UTF-8");
    let fixed = ["--short", "--rounds", "1", "--json", file_text];
    let output = bench(&[arguments, &fixed].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {said}"));
    std::fs::remove_file(&file).expect("its own file");
    let document: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(document["version"], 2, "{document}");
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    for line in table.lines().filter(|line| !line.starts_with("all rounds")) {
        assert!(line.chars().count() <= COLUMNS, "wider than a terminal: {line}");
    }
    (document["rows"].as_array().expect("rows").clone(), table, said.into_owned())
}

fn has_figure(row: &Value, side: &str) -> bool {
    row[side][0].as_f64().is_some_and(|figure| figure > 0.0)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// The softefa command, when it and what is beside it are built.
fn softefa() -> Option<PathBuf> {
    let softefa = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("softefa");
    let is_built = softefa.is_file() && softefa.with_file_name("efa-bench").is_file();
    if !is_built {
        assert!(std::env::var_os("CI").is_none(), "build the workspace first: no {softefa:?}");
        eprintln!("SKIPPED: no {} or no efa-bench beside it: cargo build", softefa.display());
    }
    is_built.then_some(softefa)
}

#[track_caller]
fn assert_all_have_figures(wire: &str) {
    // The C programs are compiled into one folder.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _guard = ONE_AT_A_TIME.lock();
    let Some(softefa) = softefa() else { return };
    let softefa = softefa.to_str().expect("UTF-8");
    let (rows, table, said) = rows(wire, &["--wire", wire, "--softefa", softefa]);
    let what: Vec<&str> = rows.iter().filter_map(|row| row["what"].as_str()).collect();
    for wanted in ["ib_send_lat 64 B", "fi_pingpong 64 B", "ib_send_bw 8 KiB", "RDMA READ 1 MiB"] {
        assert!(what.contains(&wanted) && table.contains(wanted), "no {wanted}: {table}");
    }
    for row in rows {
        let is_mpi = row["what"].as_str().is_some_and(|what| what.starts_with("Open MPI"));
        if is_mpi && !(is_installed("mpicc") && is_installed("mpirun")) {
            eprintln!("SKIPPED: {}: no Open MPI here", row["what"]);
            continue;
        }
        if row["what"] == "rdma_cm connections" && !is_installed("cmtime") {
            eprintln!("SKIPPED: {}: no rdmacm-utils here", row["what"]);
            continue;
        }
        // Nothing stands beside connections.
        let is_alone = row["what"] == "rdma_cm connections";
        assert!(has_figure(&row, "ours"), "{row}\n{said}");
        assert_eq!(has_figure(&row, "reference"), !is_alone, "{row}\n{said}");
    }
}

#[test]
fn every_row_of_the_default_wire_has_figures() {
    assert_all_have_figures("auto");
}

#[test]
fn every_row_of_udp_has_figures() {
    assert_all_have_figures("udp");
}

#[test]
fn floors_need_no_program() {
    let (floors, table, _) = rows("floor", &["floor", "--softefa", "/nobody"]);
    assert_eq!(floors.len(), 6, "{table}");
    for row in &floors {
        assert!(has_figure(row, "ours"), "{row}");
    }
    let (rings, table, _) = rows("ring", &["floor", "--wire", "auto", "--rows", "8 KiB"]);
    assert_eq!((rings.len(), &rings[0]["unit"]), (1, &"Gbit/s".into()), "{table}");
}

#[test]
fn a_row_that_nobody_has_is_told_in_words() {
    let output = bench(&["--rows", "warp", "--softefa", "/nobody"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("'warp'") && said.contains("udp ib_send_lat 64 B UDP ping-pong"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_measured_stands_as_such_beside_the_others() {
    let arguments = ["--rows", "udp ib_send_lat", "--softefa", "/nobody"];
    let (rows, table, _) = rows("nobody", &arguments);
    assert!(rows[0]["ours"].as_array().is_some_and(Vec::is_empty), "{rows:?}");
    assert_eq!((&rows[0]["verdict"], &rows[0]["passes"]), (&"none".into(), &false.into()));
    assert!(has_figure(&rows[0], "reference") && table.contains("none"), "{table}");
}
