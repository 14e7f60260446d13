//! Soft-EFA under fire: what was promised of it, tried on real sockets and a real kernel's routing.
//!
//! `fire run` makes hosts and switches of network namespaces, lets real processes talk across them
//! and breaks what can break. Each experiment yields records; docs/RELIABILITY.md is made of those.
#![forbid(unsafe_code)]

mod args;
mod clock;
mod confine;
mod crew;
mod dice;
mod document;
mod experiments;
mod interrupt;
mod machine;
mod network;
mod peer;
mod programme;
mod record;
mod say;
mod stale;
mod tool;
mod witness;

use std::process::ExitCode;

use args::Command;

fn main() -> ExitCode {
    let result = match args::parse() {
        Command::Run(args) => programme::run(&args),
        Command::List => {
            programme::list();
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
            say::say!("fire: {error:#}");
            ExitCode::FAILURE
        }
    }
}
