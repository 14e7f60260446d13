//! `efa-bench import`, and reading a file whoever wrote it.

use std::path::{Path, PathBuf};

use bench_record::failure::{Failure, plain};
use bench_record::{Results, Run};
use bench_report::import::{Format, detect, read};
use bench_report::output;
use clap::Args;

use crate::result_file;

/// Turns the output of other tools into a result file.
#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Files with what the tools printed.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The tool that wrote them; default: told by their titles.
    #[arg(long = "as", value_name = "TOOL")]
    format: Option<Format>,
    /// What reports call it: "UCX", "MPI"; default: the tool's name.
    #[arg(long)]
    name: Option<String>,
    /// Message size in bytes, for tools that do not print it (sockperf).
    #[arg(long, value_name = "BYTES")]
    size: Option<usize>,
    /// The result file; "-" is standard output. Without it a table is printed.
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Reads, then prints or writes.
pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let runs: Result<Vec<Run>, Failure> = args
        .files
        .iter()
        .map(|file| {
            let mut run = import(file, &text_of(file)?, args.format, args.size)?;
            if let Some(name) = &args.name {
                run.name.clone_from(name);
            }
            Ok(run)
        })
        .collect();
    let results = result_file::results(runs?, Vec::new());
    match &args.json {
        Some(path) => output::write(path, &output::json(&results)?),
        None => {
            let texts: Vec<String> = results.runs.iter().map(output::text).collect();
            output::print(&texts.join("\n"))
        }
    }
}

/// A result file, or the output of a tool that can be imported.
pub(crate) fn load(file: &Path) -> Result<Results, Failure> {
    let text = text_of(file)?;
    if detect(&text).is_none() {
        return output::parse(&text).map_err(|reason| failed(file, reason));
    }
    Ok(result_file::results(vec![import(file, &text, None, None)?], Vec::new()))
}

fn import(
    file: &Path,
    text: &str,
    format: Option<Format>,
    size_bytes: Option<usize>,
) -> Result<Run, Failure> {
    let mut run = read(text, format, size_bytes).map_err(|reason| failed(file, reason))?;
    run.command = format!("efa-bench import {}", file.display());
    Ok(run)
}

fn text_of(file: &Path) -> Result<String, Failure> {
    let bytes = std::fs::read(file).map_err(|error| failed(file, plain(&error)))?;
    String::from_utf8(bytes).map_err(|_| failed(file, "it is not text".to_owned()))
}

fn failed(file: &Path, reason: String) -> Failure {
    Failure::Input { path: file.display().to_string(), reason }
}
