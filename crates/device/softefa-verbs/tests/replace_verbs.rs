//! The versioned `libibverbs.so.1` and `libefa.so.1` in place of the system's.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod common;

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{Run, library};

const LISTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/abi");

/// The directory of the versioned libraries, made from the present sources.
fn replacements() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let beside = library().parent().unwrap();
        let status = nested_cargo::command()
            .args(["run", "--quiet", "--package", "xtask", "--", "replace-verbs"])
            .arg(beside)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .unwrap();
        assert!(status.success(), "the versioned libraries cannot be made");
        beside.join("replace-verbs")
    })
}

/// A symbol of a library, with the version node it is in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Symbol {
    name: String,
    /// Empty for one without a version, as the nodes are themselves.
    node: String,
}

/// What a library exports, version nodes included.
fn exports(library: &Path) -> BTreeSet<Symbol> {
    let options = ["--dynamic", "--defined-only", "--with-symbol-versions"];
    let output = Command::new("nm").args(options).arg(library).output().unwrap();
    assert!(output.status.success(), "nm {}: install binutils", library.display());
    let table = String::from_utf8(output.stdout).unwrap();
    let symbols = table.lines().filter_map(|line| line.split_whitespace().last());
    symbols
        .map(|symbol| {
            let (name, node) = symbol.split_once('@').unwrap_or((symbol, ""));
            Symbol { name: name.to_owned(), node: node.trim_start_matches('@').to_owned() }
        })
        .collect()
}

/// The checked-in list for a library.
fn listed(library: &str) -> BTreeSet<Symbol> {
    let text = std::fs::read_to_string(format!("{LISTS}/{library}.symbols")).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (node, name) = line.split_once(' ').unwrap();
            Symbol { name: name.trim_start_matches('*').to_owned(), node: node.to_owned() }
        })
        .collect()
}

fn system_library(name: &str) -> PathBuf {
    let option = format!("-print-file-name={name}");
    let output = Command::new("cc").arg(option).output().unwrap();
    let path = PathBuf::from(String::from_utf8(output.stdout).unwrap().trim());
    assert!(path.is_absolute(), "the system has no {name} (.ci/setup run)");
    path
}

#[test]
fn tables_are_those_of_the_lists() {
    for name in ["libibverbs", "libefa"] {
        let exported = exports(&replacements().join(format!("{name}.so.1")));
        let versioned = exported.into_iter().filter(|symbol| !symbol.node.is_empty());
        assert_eq!(versioned.collect::<BTreeSet<_>>(), listed(name), "{name}");
    }
}

/// Symbols that the adapter lacks would come from the system's library, and crash with our objects.
#[test]
fn every_public_function_is_ours() {
    let adapter = exports(library());
    // A private symbol, although it is in the public header.
    let hidden = ["ibv_query_gid_type", "ibv_wr_opcode_str"].map(str::to_owned);
    let names = ["libibverbs", "libefa"].into_iter().flat_map(listed).map(|symbol| symbol.name);
    for name in names.chain(hidden) {
        let symbol = Symbol { name, node: String::new() };
        assert!(adapter.contains(&symbol), "the adapter does not define {}", symbol.name);
    }
}

/// rdma-core's own libraries, the system's or those in `RDMA_CORE_LIBRARIES` (the `lib` of a build
/// of any release), find all symbols that they take from libibverbs.
#[test]
fn provider_libraries_load() {
    let program = common::compile("providers", &["-ldl"]).unwrap_or_else(|error| panic!("{error}"));
    let dirs = match std::env::var_os("RDMA_CORE_LIBRARIES") {
        Some(dir) => vec![PathBuf::from(dir)],
        None => {
            let beside = system_library("libibverbs.so.1").parent().unwrap().to_owned();
            vec![beside.join("libibverbs")]
        }
    };
    let files = dirs.iter().flat_map(|dir| std::fs::read_dir(dir).unwrap());
    let files = files.map(|file| file.unwrap().path().to_str().unwrap().to_owned());
    let providers: Vec<String> = files.filter(|file| file.contains("-rdmav")).collect();
    assert!(!providers.is_empty(), "no provider libraries in {dirs:?} (.ci/setup run)");
    let paths: Vec<&str> = providers.iter().map(String::as_str).collect();
    let env = [("LD_LIBRARY_PATH", replacements().as_os_str())];
    let run = common::run(&program, &paths, &env);
    let said = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success() && said.is_empty(), "of {}: {said}", paths.len());
}

/// Nothing that a program could take from the system's libraries is missing in ours.
#[test]
fn everything_the_system_exports_is_there() {
    for name in ["libibverbs.so.1", "libefa.so.1"] {
        let ours = exports(&replacements().join(name));
        let has = |symbol: &str, node: &str| {
            ours.contains(&Symbol { name: symbol.into(), node: node.into() })
        };
        for Symbol { name: symbol, node } in exports(&system_library(name)) {
            let present = has(&symbol, &node) || has(&symbol, "") && has(&node, "");
            assert!(present, "{symbol}@{node} of {name} is missing");
        }
    }
}

/// Runs the program that finds its functions by name. `preload` may be empty.
fn run_by_name(libraries: &[&str], preload: &Path, debug: &str) -> Run {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let compile = || common::compile("byname", &["-ldl"]).unwrap_or_else(|error| panic!("{error}"));
    let env = [
        ("LD_LIBRARY_PATH", replacements().as_os_str()),
        ("LD_PRELOAD", preload.as_os_str()),
        ("LD_DEBUG", OsStr::new(debug)),
    ];
    common::run(PROGRAM.get_or_init(compile), libraries, &env)
}

/// With a preload, as under `softefa run`, and without: then the libraries load the adapter.
#[test]
fn functions_are_found_by_name() {
    for names in [["libibverbs.so.1", "libefa.so.1"], ["libibverbs.so", "libefa.so"]] {
        for preload in [library(), Path::new("")] {
            let run = run_by_name(&names, preload, "");
            let said = String::from_utf8_lossy(&run.output.stderr);
            assert!(run.output.status.success() && said.is_empty(), "{names:?}: {said}");
            assert!(run.counter("tx_pkts") > 0, "{names:?}: the device was never touched");
        }
    }
}

/// An adapter of another release may lack functions: calls fail like unsupported functions, with
/// null where they return a pointer. Without any adapter a message says so.
#[test]
fn what_the_adapter_lacks_is_refused() {
    let program = common::compile("lacking", &["-ldl"]).unwrap_or_else(|error| panic!("{error}"));
    let dir = tempfile::tempdir().unwrap();
    let versioned = dir.path().join("replace-verbs");
    std::fs::create_dir(&versioned).unwrap();
    let library = versioned.join("libibverbs.so.1");
    std::fs::copy(replacements().join("libibverbs.so.1"), &library).unwrap();
    let adapter = dir.path().join("libsoftefa_verbs.so");
    let empty = ["-shared", "-nostdlib", "-x", "c", "/dev/null", "-Wl,-soname,libsoftefa_verbs.so"];
    let made = Command::new("cc").args(empty).arg("-o").arg(&adapter).status().unwrap();
    assert!(made.success());
    // Cargo's directory would lead to the adapter that was built.
    let env = [("LD_LIBRARY_PATH", OsStr::new(""))];
    let run = || common::run(&program, &[library.to_str().unwrap()], &env).output;
    let with = run();
    assert!(with.status.success(), "{}", String::from_utf8_lossy(&with.stderr));
    std::fs::remove_file(&adapter).unwrap();
    let without = run();
    let said = String::from_utf8_lossy(&without.stderr);
    assert!(!without.status.success());
    assert!(said.contains("libsoftefa_verbs.so") && said.lines().count() == 1, "{said}");
}

/// A library that is preloaded from elsewhere is the only adapter of the process: two would not
/// know each other's queue pairs.
#[test]
fn a_process_has_one_adapter() {
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy.so");
    std::fs::copy(library(), &copy).unwrap();
    let run = run_by_name(&["libibverbs.so.1", "libefa.so.1"], &copy, "files");
    let loaded = String::from_utf8_lossy(&run.output.stderr);
    assert!(run.output.status.success(), "{loaded}");
    let is_adapter = |line: &&str| line.contains("copy.so") || line.contains("softefa_verbs.so");
    let inits = loaded.lines().filter(|line| line.contains("calling init: "));
    let adapters: BTreeSet<&str> =
        inits.filter(is_adapter).filter_map(|line| line.rsplit(' ').next()).collect();
    assert_eq!(adapters.into_iter().collect::<Vec<_>>(), [copy.to_str().unwrap()]);
}
