//! Project chores: `cargo xtask tidy`, `cargo xtask book`, `cargo xtask consumers`,
//! `cargo xtask replace-verbs`, `cargo xtask abi-lists`, `cargo xtask api`, `cargo xtask licences`,
//! `cargo xtask cost`, `cargo xtask device-cost`, `cargo xtask own-cost`.
#![forbid(unsafe_code)]

mod abi_lists;
mod api;
mod book;
mod consumers;
mod cost;
mod licences;
mod markdown;
mod replace_verbs;
mod tidy;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail, ensure};
use cost::Build;

const USAGE: &str = "usage: cargo xtask tidy                 check the rules of the project
       cargo xtask book                 check the links of the book that 'make docs' has built
       cargo xtask consumers RESULTS    write docs/CONSUMERS.md from recorded results
       cargo xtask replace-verbs DIR    make versioned libibverbs.so.1 and libefa.so.1 below DIR
       cargo xtask abi-lists CHECKOUT   write the lists that is made from, from a checkout of rdma-core
       cargo xtask api                  compare the public API of the crate srd with the record
       cargo xtask licences             check licences, sources and duplicates of all dependencies
       cargo xtask licences --texts FILE  and write what must come along with the programs
       cargo xtask cost NETSIM          compare a release build's instructions per packet with the record
       cargo xtask cost --quick NETSIM  the same of a debug build and a part of the scenario
       cargo xtask device-cost          compare the instructions of a message of softefa with the record
       cargo xtask device-cost --quick  the same of the debug build
       cargo xtask own-cost             compare the instructions of efa-bench's loops with the record
       cargo xtask own-cost --quick     the same of the debug build, shorter";

fn main() -> ExitCode {
    match dispatch() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["tidy"] => run_tidy(),
        ["book"] => book::check(&root()),
        ["consumers", results] => {
            consumers::write(Path::new(results), &root().join("docs/CONSUMERS.md"))
        }
        ["replace-verbs", dir] => replace_verbs::make(&root(), Path::new(dir)),
        ["abi-lists", checkout] => {
            abi_lists::write(Path::new(checkout), &root().join(replace_verbs::LISTS))
        }
        ["api"] => api::check(&root()),
        ["licences"] => licences::check(&root(), None),
        ["licences", "--texts", file] => licences::check(&root(), Some(Path::new(file))),
        ["cost", netsim] => check_netsim(netsim, Build::Release),
        ["cost", "--quick", netsim] => check_netsim(netsim, Build::Debug),
        ["device-cost"] => cost::check_device(&root(), Build::Release),
        ["device-cost", "--quick"] => cost::check_device(&root(), Build::Debug),
        ["own-cost"] => cost::check_efa_bench(&root(), Build::Release),
        ["own-cost", "--quick"] => cost::check_efa_bench(&root(), Build::Debug),
        ["--help" | "-h" | "help"] => {
            println!("{USAGE}");
            Ok(())
        }
        _ => bail!("unknown chore '{}'; {USAGE}", words.join(" ")),
    }
}

fn check_netsim(netsim: &str, build: Build) -> Result<()> {
    cost::check_netsim(&root(), &std::path::absolute(netsim)?, build)
}

fn run_tidy() -> Result<()> {
    let findings = tidy::check(&root())?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    ensure!(findings.is_empty(), "{} findings", findings.len());
    println!("tidy: no findings");
    Ok(())
}

/// Returns the root of the workspace: this crate lives one level below it.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

#[cfg(test)]
mod tests {
    /// The rules hold for this very checkout; the same as `cargo xtask tidy`.
    #[test]
    fn workspace_is_tidy() {
        let findings = super::tidy::check(&super::root()).unwrap();
        let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), lines.join("\n"));
    }
}
