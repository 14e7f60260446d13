//! Runs scenarios of a datacenter in virtual time.
#![forbid(unsafe_code)]

mod cli;
mod command;

use clap::Parser;
use cli::{Cli, Command};
use command::Verdict;
use mimalloc::MiMalloc;
use std::process::ExitCode;

/// An allocator that keeps memory in huge pages where the system has them on request. Thousands of
/// hosts lie in hundreds of megabytes, of which every event touches other places: with small pages
/// most of a run's time goes into finding out where they are.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Run(args) => command::run::run(&args),
        Command::Sweep(args) => command::sweep::run(&args),
        Command::Check(args) => command::check::run(&args),
        Command::Paper(args) => command::paper::run(&args),
        Command::Compare(args) => command::compare::run(&args),
        Command::Nic(args) => command::nic::run(&args),
    };
    match result {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Err(error) => {
            report::say(format_args!("netsim: error: {error:#}"));
            ExitCode::from(2)
        }
    }
}
