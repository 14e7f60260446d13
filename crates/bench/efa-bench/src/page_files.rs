//! `efa-bench report`: result files in, a page out.

use std::path::{Path, PathBuf};

use bench_record::failure::Failure;
use bench_record::{Machine, Results};
use bench_report::figures::Model;
use bench_report::page::{self, Pages};
use bench_report::{output, paper};
use clap::Args;
use report::Page;

use crate::{import_command, result_file};

/// Makes one report of result files.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Result files that --json wrote, or output of a tool that `import` reads; without any: the
    /// published figures.
    files: Vec<PathBuf>,
    /// The report: a folder gets index.html, index.md and index-plots/ with a plot per SVG file;
    /// "NAME.md" Markdown and NAME-plots/ beside it; everything else is an HTML file.
    #[arg(short, long, default_value = "page/index.html")]
    output: PathBuf,
    /// Leave out the published figures.
    #[arg(long)]
    no_paper: bool,
    /// Show what a model of a NIC says beside the published figures: the file of
    /// `netsim nic --json FILE`.
    #[arg(long, value_name = "FILE", conflicts_with = "no_paper")]
    model: Option<PathBuf>,
}

/// Reads the files and writes the report. Files that cannot be read are named after the report was
/// written.
pub(crate) fn run(args: &ReportArgs) -> Result<(), Failure> {
    let model = args.model.as_deref().map(Model::read).transpose()?;
    let (mut results, left_out) = load(&args.files)?;
    if args.no_paper {
        results.runs.retain(|run| run.source != "published");
    } else if !results.runs.iter().any(|run| run.source == "published") {
        // A plan's file already holds them.
        results.runs.extend(paper::runs());
    }
    if results.runs.is_empty() {
        return Err(Failure::Usage("no result file was given".to_owned()));
    }
    let beside = paper_file(&args.output);
    write(&page::pages(&results, model.as_ref(), &beside), &args.output)?;
    match left_out.as_slice() {
        [] => Ok(()),
        files => {
            let (path, reasons) = files_and_reasons(files);
            let written = args.output.display();
            let reason = format!("{reasons}; {written} has the other files");
            Err(Failure::Input { path, reason })
        }
    }
}

/// A file that could not be read, and the reason.
type Unread = (PathBuf, String);

fn files_and_reasons(files: &[Unread]) -> (String, String) {
    let (first, others) =
        files.split_first().map_or((None, files), |(first, rest)| (Some(first), rest));
    let mut reasons = first.map_or_else(String::new, |(_, reason)| reason.clone());
    for (path, reason) in others {
        reasons += &format!("; nor {}: {reason}", path.display());
    }
    (first.map_or_else(String::new, |(path, _)| path.display().to_string()), reasons)
}

/// Loads all runs of the files, with the machines that measured them, and the files that cannot be
/// read; fails if none can be read.
fn load(files: &[PathBuf]) -> Result<(Results, Vec<Unread>), Failure> {
    let (mut read, mut unread): (Vec<Results>, Vec<Unread>) = (Vec::new(), Vec::new());
    let mut paths: Vec<&Path> = Vec::new();
    for file in files {
        match import_command::load(file) {
            Ok(results) => {
                read.push(results);
                paths.push(file);
            }
            Err(Failure::Input { reason, .. }) => unread.push((file.clone(), reason)),
            Err(error) => return Err(error),
        }
    }
    if read.is_empty() && !unread.is_empty() {
        let (path, reason) = files_and_reasons(&unread);
        return Err(Failure::Input { path, reason });
    }
    let runs = read
        .iter_mut()
        .zip(paths)
        .flat_map(|(results, file)| results.runs.iter_mut().map(move |run| (file, run)));
    import_command::tell_apart(runs.collect());
    let all = united(read);
    Ok((all.unwrap_or_else(|| result_file::results(Vec::new(), Vec::new())), unread))
}

/// Unites all runs of these files; `None` if there are no files. If several machines measured, the
/// names of runs include the machine, because their figures are no repetitions of one measurement.
fn united(mut files: Vec<Results>) -> Option<Results> {
    let machines = machines(&files);
    if machines.len() > 1 {
        files.iter_mut().for_each(|file| name_machine(file, &machines));
    }
    // A machine that imported a file has not measured it.
    let main = files.iter().position(|file| file.measured_on().is_some()).unwrap_or(0);
    let mut all = Results { runs: Vec::new(), warnings: Vec::new(), ..files.get(main)?.clone() };
    for file in files {
        let is_another = |machine: &Machine| {
            let mut known = std::iter::once(&all.host).chain(&all.other_hosts);
            known.all(|host| host.machine().as_ref() != Some(machine))
        };
        if file.measured_on().is_some_and(|machine| is_another(&machine)) {
            all.other_hosts.push(file.host);
        }
        all.runs.extend(file.runs);
        all.warnings.extend(file.warnings);
    }
    if machines.len() > 1 {
        let names: Vec<String> = machines.iter().map(Machine::to_string).collect();
        all.warnings.push(format!("measured on several machines: {}", names.join("; ")));
    }
    Some(all)
}

/// Returns the machines on which something in these files was measured, as far as they are known.
fn machines(files: &[Results]) -> Vec<Machine> {
    report::distinct(files.iter().filter_map(Results::measured_on))
}

/// Adds the machine of a file to the names of what was measured there; if machines share a name,
/// their whole description.
fn name_machine(file: &mut Results, machines: &[Machine]) {
    let Some(own) = file.measured_on() else { return };
    let is_alone = machines.iter().filter(|other| other.name == own.name).count() == 1;
    let name = if is_alone { own.name } else { own.to_string() };
    for run in file.runs.iter_mut().filter(|run| run.source == "measured") {
        run.name = format!("{} on {name}", run.name);
    }
}

/// Returns the name of the page with the figures of the papers, beside the page of the
/// measurements.
fn paper_file(out: &Path) -> String {
    match out.file_stem().map(|stem| stem.to_string_lossy()) {
        Some(stem) if !is_folder(out) && stem != "index" => format!("{stem}-{PAPER}"),
        _ => PAPER.to_owned(),
    }
}

/// The name of the page with the figures of the papers, in a folder.
pub(crate) const PAPER: &str = "paper.html";

fn is_folder(out: &Path) -> bool {
    out.is_dir() || out.as_os_str().to_string_lossy().ends_with('/')
}

fn write(pages: &Pages, out: &Path) -> Result<(), Failure> {
    if is_folder(out) {
        let main = folder(pages, out)?;
        return output::print(&format!("report: {}\n", main.display()));
    }
    let is_markdown = out.extension().is_some_and(|e| e.eq_ignore_ascii_case("md"));
    let write_one = |page: &Page, file: &Path| match is_markdown {
        true => markdown(page, file),
        false => output::write(file, &report::html(page)),
    };
    write_one(&pages.main, out)?;
    if out == Path::new("-") {
        return Ok(());
    }
    if let Some(paper) = &pages.paper {
        let file = out.with_file_name(paper_file(out));
        write_one(paper, &if is_markdown { file.with_extension("md") } else { file })?;
    }
    output::print(&format!("report: {}\n", out.display()))
}

/// Writes everything into a folder; returns the path of the page of the measurements.
pub(crate) fn folder(pages: &Pages, out: &Path) -> Result<PathBuf, Failure> {
    let index = out.join("index.html");
    for (page, file) in
        [(Some(&pages.main), index.clone()), (pages.paper.as_ref(), out.join(PAPER))]
    {
        let Some(page) = page else { continue };
        output::write(&file, &report::html(page))?;
        markdown(page, &file.with_extension("md"))?;
    }
    Ok(index)
}

/// Writes the Markdown file, and its plots in a folder beside it.
fn markdown(page: &Page, file: &Path) -> Result<(), Failure> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    for (name, content) in report::markdown_files(page, &stem) {
        output::write(&file.with_file_name(name), &content)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bench_record::spec::Benchmark;
    use bench_record::{Bandwidth, Point, Run};
    use bench_report::shown::Shown;

    use super::*;

    /// A file of one stream, and one that was published.
    fn file(host: &str, cores: usize, gbit_per_s: f64) -> Results {
        let bandwidth = Bandwidth::new(1, (gbit_per_s * 1e9 / 8.0) as u64, 1.0);
        let point = Point {
            bandwidth: Some(bandwidth),
            blocks: vec![gbit_per_s; 3],
            ..Point::new(8192, 256)
        };
        let measured = Run::new("TCP", Benchmark::Bandwidth, vec![point.clone()]);
        let source = "published".to_owned();
        let published = Run { source, ..Run::new("EFA", Benchmark::Bandwidth, vec![point]) };
        let mut results = Results::of(vec![measured, published], Vec::new());
        (results.host.name, results.host.cores) = (host.to_owned(), cores);
        results
    }

    fn shown(files: Vec<Results>) -> Vec<(String, usize)> {
        let runs = Shown::of(&united(files).expect("files").runs).runs;
        let of = |run: &Run| (run.name.clone(), run.points[0].blocks.len());
        runs.iter().filter(|run| run.source == "measured").map(of).collect()
    }

    /// The blocks of two machines are two measurements, each called by its machine.
    #[test]
    fn figures_of_two_machines_have_names_of_their_own() {
        let found = shown(vec![file("db1", 8, 9.0), file("db2", 8, 5.0)]);
        assert_eq!(found, [("TCP on db1".to_owned(), 3), ("TCP on db2".to_owned(), 3)]);
        let found = shown(vec![file("vm", 8, 9.0), file("vm", 2, 5.0)]);
        let names = ["TCP on vm (8 cores)", "TCP on vm (2 cores)"].map(str::to_owned);
        assert_eq!(found, names.map(|name| (name, 3)));
        let all = united(vec![file("db1", 8, 9.0), file("db2", 8, 5.0)]).expect("files");
        assert!(all.warnings[0].ends_with("db1 (8 cores); db2 (8 cores)"), "{:?}", all.warnings);
        assert_eq!(all.runs[1].name, "EFA", "published elsewhere");
        assert_eq!((all.host.name.as_str(), all.other_hosts[0].name.as_str()), ("db1", "db2"));
    }

    /// If the first file was imported, its machine has not measured the second.
    #[test]
    fn the_machine_is_that_of_a_file_that_was_measured() {
        let mut imported = file("desk", 4, 9.0);
        imported.runs.iter_mut().for_each(|run| run.source = "imported".to_owned());
        let all = united(vec![imported, file("db1", 8, 5.0)]).expect("files");
        assert_eq!((all.host.name.as_str(), all.other_hosts.len(), all.runs.len()), ("db1", 0, 4));
    }

    #[test]
    fn figures_of_one_machine_are_one_measurement() {
        let found = shown(vec![file("db1", 8, 9.0), file("db1", 8, 5.0)]);
        assert_eq!(found, [("TCP".to_owned(), 6), ("TCP".to_owned(), 6)]);
        // The second file does not say where it was measured.
        let found = shown(vec![file("db1", 8, 9.0), file("", 0, 5.0)]);
        assert_eq!(found[0].0, "TCP");
    }
}
