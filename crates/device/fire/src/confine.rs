//! Starts a program with something missing.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::process::{Resource, Rlimit, Signal, set_parent_process_death_signal, setrlimit};

use crate::args::ConfineArgs;

mod filter;

/// Replaces this process by the program; returns only when that fails.
///
/// # Errors
/// A resource cannot be taken away, or the program cannot be started.
pub(crate) fn run(args: &ConfineArgs) -> Result<()> {
    // The death signal outlives exec. `softefa` passes it on, so that its program ends, too.
    set_parent_process_death_signal(Some(Signal::TERM)).context("no signal at the end of fire")?;
    // Opened now, because descriptors or system calls may be missing later.
    let open = |path: &PathBuf| {
        let file = OpenOptions::new().write(true).open(path);
        file.with_context(|| format!("cannot open {}", path.display()))
    };
    let mut mark = args.mark.as_ref().map(open).transpose()?;
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
    if let Some(mark) = &mut mark {
        mark.write_all(b"confined").context("the mark cannot be written")?;
    }
    let error = Command::new(program).args(words).exec();
    if let Some(mark) = &mark {
        mark.set_len(0).context("the mark cannot be taken back")?;
    }
    Err(error).with_context(|| program.to_string_lossy().into_owned())
}
