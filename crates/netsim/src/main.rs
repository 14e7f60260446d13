//! netsim: runs scenarios of a datacenter in virtual time.
#![forbid(unsafe_code)]

mod cli;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use cli::{Cli, Command, RunArgs};
use netsim::{Outcome, Scenario, table};
use std::fs;
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let Command::Run(args) = Cli::parse().command;
    match run(&args) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("netsim: error: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// False when some flow did not end well, or the runs miss what the scenario expects.
fn run(args: &RunArgs) -> Result<bool> {
    if let Some(path) = args.json.as_deref().filter(|path| !is_stdout(path)) {
        let there = path.display();
        ensure!(args.force || !path.exists(), "{there} exists; --force replaces it");
    }
    let file = args.scenario.display();
    let text = fs::read_to_string(&args.scenario).with_context(|| format!("{file}"))?;
    let scenario = Scenario::parse(&text).with_context(|| format!("{file}"))?;
    let seeds = args.seed.map_or_else(|| scenario.seeds().to_vec(), |seed| vec![seed]);
    let mut outcomes = Vec::with_capacity(seeds.len());
    for seed in seeds {
        let outcome = scenario.run(seed).with_context(|| {
            format!("broken rule; repeat it with: netsim run {file} --seed {seed}")
        })?;
        outcomes.push(outcome);
    }
    write(args, &scenario, &outcomes)?;
    let missed = scenario.missed(&outcomes);
    missed.iter().for_each(|line| eprintln!("netsim: missed: {line}"));
    Ok(missed.is_empty() && outcomes.iter().all(Outcome::is_complete))
}

fn write(args: &RunArgs, scenario: &Scenario, outcomes: &[Outcome]) -> Result<()> {
    let json = || -> Result<String> {
        let runs = serde_json::to_value(outcomes)?;
        let summaries: Vec<_> = outcomes.iter().map(Outcome::summary).collect();
        let page = serde_json::json!({
            "title": scenario.title(),
            "summaries": summaries,
            "runs": runs,
        });
        Ok(serde_json::to_string_pretty(&page)? + "\n")
    };
    if args.json.as_deref().is_some_and(is_stdout) {
        print!("{}", json()?);
        return Ok(());
    }
    if let Some(path) = &args.json {
        report::write_atomic(path, json()?.as_bytes())?;
    }
    println!("{}", scenario.title());
    print!("{}", table(scenario.title(), outcomes).text());
    Ok(())
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
