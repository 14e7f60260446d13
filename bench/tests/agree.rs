//! The comparison with other tools, from the command line to the table, with few messages: that it
//! runs is what is tested, not what it finds.

use std::path::Path;
use std::process::Command;

#[test]
fn every_tool_gives_a_figure() {
    let softefa = Path::new(env!("CARGO_BIN_EXE_bench")).with_file_name("softefa");
    if !softefa.is_file() || !softefa.with_file_name("efa-bench").is_file() {
        assert!(std::env::var_os("CI").is_none(), "build the workspace first: no {softefa:?}");
        eprintln!("SKIPPED: no {} or no efa-bench beside it: cargo build", softefa.display());
        return;
    }
    let file = std::env::temp_dir().join(format!("agree-{}.json", std::process::id()));
    let output = Command::new(env!("CARGO_BIN_EXE_bench"))
        .args(["agree", "--short", "--rounds", "1", "--softefa"])
        .arg(&softefa)
        .arg("--json")
        .arg(&file)
        .output()
        .expect("bench starts");
    let said = String::from_utf8_lossy(&output.stderr);
    let rounds = std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{e}: {said}"));
    std::fs::remove_file(&file).expect("its own file");
    let rounds: serde_json::Value = serde_json::from_str(&rounds).expect("JSON");
    let rows = rounds["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 5, "{rounds}");
    for row in rows {
        for tool in ["ours", "reference"] {
            assert!(row[tool][0].as_f64().is_some_and(|figure| figure > 0.0), "{row}");
        }
    }
    let table = String::from_utf8_lossy(&output.stdout);
    assert!(table.contains("ib_send_lat") && table.contains("within 5 %"), "{table}");
}
