//! Starts a program with something missing.

use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::args::ConfineArgs;

mod filter;

/// Becomes the program; returns only when that fails.
///
/// # Errors
/// What is to be missing cannot be taken away, or the program cannot be started.
pub(crate) fn run(args: &ConfineArgs) -> Result<()> {
    for dir in &args.cgroup {
        let file = dir.join("cgroup.procs");
        std::fs::write(&file, std::process::id().to_string())
            .with_context(|| format!("cannot join {}", file.display()))?;
    }
    if let Some(most) = args.nofile {
        setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: Some(most) })
            .context("the limit of open files cannot be set")?;
    }
    if args.seccomp {
        filter::apply()?;
    }
    let (program, words) = args.program.split_first().context("no program")?;
    let error = Command::new(program).args(words).exec();
    Err(error).with_context(|| program.to_string_lossy().into_owned())
}
