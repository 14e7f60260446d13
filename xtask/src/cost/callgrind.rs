//! Programs, run as they are or under callgrind.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};

/// Counts the instructions that a program executes, and returns its output.
pub(super) fn count(program: &Command, worst_code: i32) -> Result<(u64, Output)> {
    count_with(&[], program, worst_code)
}

/// Counts the instructions of `functions` of a program, and of what they call.
pub(super) fn count_within(program: &Command, functions: &[&str]) -> Result<u64> {
    let toggles = functions.iter().map(|function| format!("--toggle-collect={function}"));
    let options: Vec<String> = toggles.chain(["--collect-atstart=no".to_owned()]).collect();
    count_with(&options, program, 0).map(|(count, _)| count)
}

fn count_with(options: &[String], program: &Command, worst_code: i32) -> Result<(u64, Output)> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).args(options);
    command.arg(program.get_program()).args(program.get_args());
    let set = program.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(set);
    if let Some(folder) = program.get_current_dir() {
        command.current_dir(folder);
    }
    let said = output(&mut command, worst_code)?;
    let report = String::from_utf8_lossy(&said.stderr);
    let count = report.lines().find_map(|line| line.split_once("Collected : ")?.1.parse().ok());
    let count = count.with_context(|| format!("callgrind said no count:\n{report}"))?;
    Ok((count, said))
}

/// Returns the output of a program, which must end with `worst_code` or less.
pub(super) fn output(command: &mut Command, worst_code: i32) -> Result<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("starting {program}"))?;
    ensure!(
        output.status.code().is_some_and(|code| code <= worst_code),
        "{program} ended with {}:\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output)
}
