//! The subcommands: they run scenarios, keep results, and show them.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod interrupt;
pub(crate) mod judge;
pub(crate) mod nic;
pub(crate) mod page;
pub(crate) mod paper;
pub(crate) mod pool;
pub(crate) mod record;
pub(crate) mod run;
pub(crate) mod series;
pub(crate) mod setting;
pub(crate) mod source;
pub(crate) mod sweep;

use anyhow::{Context, Error, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// The verdict of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// All is as it should be.
    Good,
    /// It ran, but some result is not as expected.
    Bad,
}

impl Verdict {
    fn of(good: bool) -> Self {
        if good { Self::Good } else { Self::Bad }
    }
}

/// Refuses to replace a file that is there already.
pub(crate) fn ensure_free(path: &Path, force: bool) -> Result<()> {
    let device = path.metadata().is_ok_and(|there| !there.is_file() && !there.is_dir());
    ensure!(force || device || !path.exists(), "{} exists; --force replaces it", path.display());
    Ok(())
}

/// Refuses to write two results into one file.
pub(crate) fn ensure_different(a: Option<&PathBuf>, b: Option<&PathBuf>) -> Result<()> {
    if let Some((a, _)) = a.zip(b).filter(|(a, b)| a == b) {
        bail!("{} cannot be two results; give them different names", a.display());
    }
    Ok(())
}

/// Prints text that ends with its line, or is part of one.
pub(crate) fn print(text: &str) -> Result<()> {
    report::print(text).context("standard output")
}

/// Prints a line.
pub(crate) fn print_line(line: &str) -> Result<()> {
    print(&format!("{line}\n"))
}

/// Makes all steps, of which none keeps another from being made: tables and files of one result.
/// Prints what went wrong, but for the last error, which is the result.
pub(crate) fn all_of(steps: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let mut errors: Vec<Error> = steps.into_iter().filter_map(Result::err).collect();
    let last = errors.pop();
    for error in errors {
        report::say(format_args!("netsim: error: {error:#}"));
    }
    last.map_or(Ok(()), Err)
}

/// Writes a text as a whole, or leaves the file as it was.
pub(crate) fn write_text(path: &Path, text: Result<String>) -> Result<()> {
    Ok(report::write_atomic(path, text?.as_bytes())?)
}

/// Returns whether a path stands for the terminal ("-").
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}
