//! `--set` refuses fields and values that are given twice, and settings that change nothing.

mod common;

use common::{SCENARIO, netsim, with_file};
use std::fs;

/// Asserts that a command is refused before it prints anything, with these parts in its message.
fn refused(text: &str, args: &[&str], parts: &[&str]) {
    let folder = with_file(text);
    fs::write(folder.path().join("b.toml"), text).expect("a file");
    let output = netsim(folder.path(), args);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
    assert!(output.stdout.is_empty(), "{args:?}");
    assert!(parts.iter().all(|part| said.contains(part)), "{args:?}: {said}");
}

/// The last setting once counted, and the first one was shown.
#[test]
fn a_field_that_is_set_twice_is_refused() {
    let twice = ["--set", "transport.paths=4", "--set", "transport.paths=16"];
    for command in ["run", "sweep"] {
        let args = [&[command, "s.toml"][..], &twice].concat();
        refused(SCENARIO, &args, &["transport.paths is set twice, to 4 and to 16"]);
    }
    let args = ["sweep", "s.toml", "--set", "transport.paths=4,16,4"];
    refused(SCENARIO, &args, &["transport.paths=4 is there twice"]);
    let args = ["sweep", "s.toml", "--set", "workload.bytes=64KB,64000"];
    refused(SCENARIO, &args, &["workload.bytes: 64KB and 64000 are the same value"]);
    let slurm = [&["sweep", "s.toml", "--out", "d", "--slurm", "2"][..], &twice].concat();
    refused(SCENARIO, &slurm, &["transport.paths is set twice"]);
}

/// All points were once the same.
#[test]
fn a_setting_that_no_point_uses_is_refused() {
    let tcp = ["--set", "transport.kind=tcp", "--set", "transport.paths=4"];
    for command in ["run", "sweep"] {
        let args = [&[command, "s.toml"][..], &tcp].concat();
        refused(SCENARIO, &args, &["transport.paths changes nothing", "no flow uses srd"]);
    }
    let roce = ["sweep", "s.toml", "--set", "transport.roce.retries=1,2"];
    refused(SCENARIO, &roce, &["transport.roce.retries changes nothing", "no flow uses roce"]);
    let rack = ["sweep", "s.toml", "--set", "transport.tcp.rack=true,false"];
    refused(SCENARIO, &rack, &["transport.tcp.rack changes nothing", "no flow uses tcp or dctcp"]);
    let named = SCENARIO.replace("permutation]]", "permutation]]\ntransport = \"srd\"");
    let kinds = ["sweep", "s.toml", "--set", "transport.kind=srd,tcp"];
    refused(&named, &kinds, &["transport.kind changes nothing", "every workload names its own"]);
    // Some of the points use it.
    let folder = with_file(SCENARIO);
    let both = ["--set", "transport.kind=srd,tcp", "--set", "transport.paths=4", "-q"];
    let output = netsim(folder.path(), &[&["sweep", "s.toml"][..], &both].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The limit was once checked when all of them had been made, in gigabytes and minutes.
#[test]
fn too_many_combinations_are_refused_before_they_are_made() {
    let seven: Vec<String> =
        (1..=7).map(|level| format!("transport.a{level}=0,1,2,3,4,5,6,7,8,9")).collect();
    let mut args = vec!["sweep", "s.toml", "--seeds", "1,2"];
    seven.iter().for_each(|setting| args.extend(["--set", setting.as_str()]));
    refused(SCENARIO, &args, &["20000000 runs; at most 1000000"]);
}

/// Its points once had the same names, and all runs were made twice.
#[test]
fn a_scenario_that_is_named_twice_is_refused() {
    refused(SCENARIO, &["sweep", "s.toml", "b.toml", "s.toml"], &["s.toml is named twice"]);
    refused(SCENARIO, &["sweep", "s.toml", "./s.toml"], &["s.toml and ./s.toml are one file"]);
}
