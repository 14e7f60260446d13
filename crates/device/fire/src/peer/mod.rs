//! One end of a connection, as a process of its own.
//!
//! It reads commands as lines on standard input and writes events as lines of JSON to standard
//! output. It ends with its standard input or with its parent, so that no experiment leaves one
//! behind.
//!
//! | command | then |
//! |---|---|
//! | `peer WORDS` | this is the other end, as its `hello` says |
//! | `go` | traffic begins |
//! | `stop` | no more is begun; `ended` follows when nothing is under way |
//! | `quit` | everything is taken down, `report` follows |

mod descriptors;
mod endpoint;
mod guest;
mod ledger;
mod pattern;
mod series;
mod srd;
mod tcp;

use std::io::{BufRead, Write};
use std::sync::mpsc::{self, Receiver};

use anyhow::{Context, Result};
use rustix::process::{Signal, set_parent_process_death_signal};
use serde_json::Value;

use crate::args::{PeerArgs, Transport};

pub(crate) fn run(args: &PeerArgs) -> Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    let commands = commands();
    match args.transport {
        Transport::Srd => srd::run(args, &commands),
        Transport::Tcp => tcp::run(args, &commands),
    }
}

/// Returns the lines of standard input; the channel closes at its end.
fn commands() -> Receiver<String> {
    let (to, from) = mpsc::channel();
    std::thread::spawn(move || {
        let lines = std::io::stdin().lock().lines();
        lines.map_while(Result::ok).try_for_each(|line| to.send(line))
    });
    from
}

/// Writes an event to the experiment.
fn emit(event: &Value) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{event}").and_then(|()| out.flush()).context("nobody listens any more")
}
