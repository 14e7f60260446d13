//! System programs with a single purpose: `ip`, `tc`, `nft`, `mount`.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

/// Runs `program` with the words of `line` and returns its standard output.
///
/// # Errors
/// The program cannot be started or fails; the message contains the command and its standard error.
pub(crate) fn run(program: &str, line: &str) -> Result<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    run_words(program, &words)
}

/// Like [`run`], for words with spaces in them.
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

/// Returns the same command, changed to end when this process is killed.
pub(crate) fn ending_with_fire(command: &Command) -> Command {
    let mut ending = Command::new(this_program());
    ending.args(["confine", "--"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => ending.env(name, value),
            None => ending.env_remove(name),
        };
    }
    ending
}

/// Returns a path of this executable that stays valid when the file is rebuilt.
pub(crate) fn this_program() -> String {
    format!("/proc/{}/exe", std::process::id())
}

/// Returns whether `program` is in `PATH`.
pub(crate) fn is_installed(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
