//! The `softefa` command: runs unmodified programs on software network adapters.
//!
//! `softefa run` prepares a private directory (sysfs tree, counters), preloads the verbs library
//! into the program, and stays as its parent: it passes signals on, returns its exit code, collects
//! the counters of all processes of the run and tidies up.
#![forbid(unsafe_code)]

mod args;
mod background;
mod counters;
mod devices;
mod doctor;
mod eprint;
mod failure;
mod fault;
mod gateway;
mod info;
mod launch;
mod library;
mod outputs;
mod pcap;
mod process;
mod program;
mod publish;
mod run;
mod run_dir;
mod supervise;
mod top;
mod trace;
mod wake;

use std::process::ExitCode;

use args::Command;
use eprint::eprint_line;

fn main() -> ExitCode {
    let command = supervise::keep_children().and_then(|()| args::parse());
    let result = command.and_then(|command| match command {
        None => Ok(0),
        Some(Command::Run(args)) => run::run(&args),
        Some(Command::Info(args)) => info::info(&args),
        Some(Command::Top(args)) => top::top(&args),
        Some(Command::Pcap(args)) => pcap::pcap(&args),
        Some(Command::Trace(args)) => trace::trace(&args),
        Some(Command::Fault(args)) => fault::fault(&args.action),
        Some(Command::Doctor(args)) => doctor::doctor(&args),
        Some(Command::Gateway(args)) => gateway::gateway(&args),
    });
    match result {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            eprint_line!("softefa: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
