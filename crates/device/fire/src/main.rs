//! Soft-EFA under fire: what was promised of it, tried on real sockets and a real kernel's routing.
//!
//! `fire run` makes hosts and switches of network namespaces, lets real processes talk across them
//! and breaks what can break. Each experiment yields records; docs/RELIABILITY.md is made of those.
#![forbid(unsafe_code)]

mod args;
mod clock;
mod confine;
mod document;
mod experiments;
mod interrupt;
mod machine;
mod network;
mod output;
mod peer;
mod process;
mod record;
mod rng;
mod runner;
mod stale;
mod stalls;
mod tool;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let result = match args::parse() {
        Command::Run(args) => runner::run(&args),
        Command::List => {
            runner::list();
            Ok(true)
        }
        Command::Document(args) => document::write(&args.record, &args.into).map(|()| true),
        Command::Peer(args) => peer::run(&args).map(|()| true),
        Command::Confine(args) => confine::run(&args).map(|()| true),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            output::eprint_line!("fire: {error:#}");
            ExitCode::FAILURE
        }
    }
}
