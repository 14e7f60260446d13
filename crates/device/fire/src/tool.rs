//! Programs of the system that do one thing: `ip`, `tc`, `nft`, `mount`.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs `program` with the words of `line`; its standard output.
///
/// # Errors
/// It cannot be started or fails; the message has the command and what it said.
pub(crate) fn run(program: &str, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    run_words(program, &words)
}

/// As [`run`], for words with spaces in them.
///
/// # Errors
/// As [`run`].
pub(crate) fn run_words(program: &str, words: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{program} cannot be started; install it"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let said = said.trim().lines().collect::<Vec<_>>().join("; ");
    ensure!(output.status.success(), "{program} {}: {said} ({})", words.join(" "), output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Whether `program` is in `PATH`.
pub(crate) fn is_there(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
