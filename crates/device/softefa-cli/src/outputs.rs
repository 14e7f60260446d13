//! The files that a run writes, which are checked before the program starts.

use std::path::{Path, PathBuf};

use rustix::fs::Access;
use softefa::Config;
use softefa::trace::{TraceSpec, TraceTarget};

use crate::args::RunArgs;
use crate::eprint::eprint_line;
use crate::failure::Failure;

/// Checks the files that the options name, and warns about existing ones.
///
/// # Errors
/// A file cannot be written, or two options name the same.
pub(crate) fn check(args: &RunArgs, config: &Config) -> Result<(), Failure> {
    let trace = match &config.trace {
        Some(TraceSpec { target: TraceTarget::File(path), .. }) => Some(path),
        _ => None,
    };
    trace.map_or(Ok(()), |path| check_trace(path))?;
    check_outputs(args)?;
    let all = [("--counters", args.counters.as_ref()), ("--pcap", args.pcap.as_ref())];
    check_distinct(&[all[0], all[1], ("--trace", trace)])?;
    // The trace of an enclosing run is shared with it.
    if args.trace.is_some() {
        trace.into_iter().for_each(|path| note_earlier(path));
    }
    Ok(())
}

/// Notes that a trace has events of an earlier run: two runs in one trace look like one, which may
/// be intended for the two ends of a connection.
fn note_earlier(path: &Path) {
    if path.metadata().is_ok_and(|meta| meta.is_file() && meta.len() > 0) {
        let path = path.display();
        eprint_line!(
            "softefa: {path} has an earlier trace, and this run adds to it; remove it to begin anew"
        );
    }
}

/// Checks that no two options name the same file, because each is written by one writer only.
fn check_distinct(all: &[(&str, Option<&PathBuf>)]) -> Result<(), Failure> {
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in all {
        let Some((path, file)) = path.and_then(|path| Some((path, file(path)?))) else { continue };
        if let Some((other, _)) = seen.iter().find(|(_, known)| *known == file) {
            let path = path.display();
            return Err(Failure::new(format!(
                "{other} and {option} name the same file, {path}; give each its own"
            )));
        }
        seen.push((option, file));
    }
    Ok(())
}

/// Returns the file that a path leads to, which may not exist yet; `None` for devices and pipes,
/// which several may write to.
fn file(path: &Path) -> Option<PathBuf> {
    if path.exists() {
        return path.canonicalize().ok().filter(|path| path.is_file());
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or_else(|| Path::new(".")).canonicalize().ok()?;
    Some(folder.join(path.file_name()?))
}

/// Each process opens a trace when it opens its device; this checks beforehand whether that is
/// possible.
fn check_trace(path: &Path) -> Result<(), Failure> {
    let failed = |why: &dyn std::fmt::Display| {
        Failure::new(format!("--trace {}: {why}; name a file that can be written", path.display()))
    };
    if path.as_os_str().is_empty() {
        return Err(failed(&"no file is named"));
    }
    if path.is_dir() {
        return Err(failed(&"it is a folder"));
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let place = if path.exists() { path } else { folder.unwrap_or_else(|| Path::new(".")) };
    rustix::fs::access(place, Access::WRITE_OK)
        .map_err(|error| failed(&std::io::Error::from(error)))
}

/// Checks that no option names standard output, which is the program's.
fn check_outputs(args: &RunArgs) -> Result<(), Failure> {
    let is_stdout = |path: &Option<PathBuf>| path.as_deref() == Some(Path::new("-"));
    let refuse = |what| Err(Failure::new(format!("{what}; standard output is the program's")));
    if is_stdout(&args.counters) {
        return refuse("--counters -: name a file, or print them to standard error with --stats");
    }
    if is_stdout(&args.pcap) {
        return refuse("--pcap -: name a file, or write to a pipe with: softefa pcap -w -");
    }
    Ok(())
}
