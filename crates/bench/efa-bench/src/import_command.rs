//! `efa-bench import`, and reading files of any origin.

use std::path::{Path, PathBuf};

use bench_record::failure::{Failure, plain};
use bench_record::{Results, Run};
use bench_report::import::{Format, detect, is_name_of_tool, read};
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

/// Reads the files, then prints or writes the result.
pub(crate) fn run(args: &ImportArgs) -> Result<(), Failure> {
    let of_file = |file: &PathBuf| import(file, &text_of(file)?, args.format, args.size);
    let mut runs = args.files.iter().map(of_file).collect::<Result<Vec<Run>, Failure>>()?;
    tell_apart(args.files.iter().map(PathBuf::as_path).zip(&mut runs).collect());
    if let Some(name) = &args.name {
        runs.iter_mut().for_each(|run| run.name.clone_from(name));
    }
    let results = result_file::imported(runs);
    match &args.json {
        Some(path) => output::write(path, &output::json(&results)?),
        None => {
            let texts: Vec<String> = results.runs.iter().map(output::text).collect();
            output::print(&texts.join("\n"))
        }
    }
}

/// Loads a result file, or the output of a tool that can be imported.
pub(crate) fn load(file: &Path) -> Result<Results, Failure> {
    let text = text_of(file)?;
    // A run may be called "iperf 3".
    if output::is_own(&text) || detect(&text).is_none() {
        return output::parse(&text).map_err(|reason| failed(file, reason));
    }
    Ok(result_file::imported(vec![import(file, &text, None, None)?]))
}

/// Adds the file to the name of each run that is named after its tool, if a run of another file has
/// the same name: nobody knows whether one machine measured both. Names that a user gave are left
/// alone.
pub(crate) fn tell_apart(runs: Vec<(&Path, &mut Run)>) {
    let named: Vec<(&Path, String)> =
        runs.iter().map(|(file, run)| (*file, run.name.clone())).collect();
    for (file, run) in runs {
        let is_namesake = |(other, name): &&(&Path, String)| *other != file && *name == run.name;
        let others: Vec<&Path> =
            named.iter().filter(is_namesake).map(|(other, _)| *other).collect();
        if run.source == "imported" && is_name_of_tool(&run.name) && !others.is_empty() {
            let is_stem_alone = others.iter().all(|other| other.file_stem() != file.file_stem());
            let stem = file.file_stem().filter(|_| is_stem_alone);
            let name = stem.unwrap_or(file.as_os_str()).to_string_lossy();
            run.name = format!("{} ({name})", run.name);
        }
    }
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
    let text = String::from_utf8(bytes).map_err(|_| failed(file, "it is not text".to_owned()))?;
    // Some editors put a mark of the byte order in front.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn failed(file: &Path, reason: String) -> Failure {
    Failure::Input { path: file.display().to_string(), reason }
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;

    use super::*;

    fn file(folder: &Path, name: &str, text: &str) -> PathBuf {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("write");
        path
    }

    fn own_file(name: &str) -> String {
        let run = Run::new(name, Benchmark::Latency, Vec::new());
        output::json(&Results::of(vec![run], Vec::new())).expect("JSON")
    }

    /// The name of a run does not make a result file one of iperf3.
    #[test]
    fn a_result_file_is_one_whatever_its_runs_are_called() {
        let folder = tempfile::tempdir().expect("folder");
        let path = file(folder.path(), "own.json", &own_file("iperf 3.16"));
        assert_eq!(load(&path).expect("a result file").runs[0].name, "iperf 3.16");
    }

    #[test]
    fn a_mark_of_the_byte_order_is_skipped() {
        let folder = tempfile::tempdir().expect("folder");
        let path = file(folder.path(), "own.json", &format!("\u{feff}{}", own_file("mine")));
        assert_eq!(load(&path).expect("a result file").runs[0].name, "mine");
    }

    /// Two adapters are two fabrics, each with its own figures.
    #[test]
    fn imported_files_of_one_tool_are_called_by_their_files() {
        let run = |name: &str| {
            let run = Run::new(name, Benchmark::Latency, Vec::new());
            Run { source: "imported".to_owned(), ..run }
        };
        let names = |files: &[(&str, &str)]| -> Vec<String> {
            let mut runs: Vec<Run> = files.iter().map(|(_, name)| run(name)).collect();
            tell_apart(files.iter().map(|(file, _)| Path::new(*file)).zip(&mut runs).collect());
            runs.into_iter().map(|run| run.name).collect()
        };
        let two = [("nicA.txt", "perftest"), ("x/nicB.txt", "perftest"), ("osu.txt", "OSU")];
        assert_eq!(names(&two), ["perftest (nicA)", "perftest (nicB)", "OSU"]);
        let alike = [("a/out.txt", "perftest"), ("b/out.txt", "perftest")];
        assert_eq!(names(&alike), ["perftest (a/out.txt)", "perftest (b/out.txt)"]);
        // The runs are in one file, or were given this name.
        assert_eq!(names(&[("a.json", "OSU"), ("a.json", "OSU")]), ["OSU", "OSU"]);
        assert_eq!(names(&[("a.json", "mine"), ("b.json", "mine")]), ["mine", "mine"]);
    }
}
