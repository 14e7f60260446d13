//! `efa-bench report`: result files in, a page out.

use std::path::{Path, PathBuf};

use bench_record::Results;
use bench_record::failure::Failure;
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

/// Reads and writes. What cannot be read is named after the others were written.
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

/// A file that could not be read, and why.
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

/// All runs of the files, with the machine of the first, and the files that cannot be read; a
/// failure when that is all of them.
fn load(files: &[PathBuf]) -> Result<(Results, Vec<Unread>), Failure> {
    let (mut all, mut unread): (Option<Results>, Vec<Unread>) = (None, Vec::new());
    for file in files {
        let results = match import_command::load(file) {
            Ok(results) => results,
            Err(Failure::Input { reason, .. }) => {
                unread.push((file.clone(), reason));
                continue;
            }
            Err(error) => return Err(error),
        };
        match &mut all {
            None => all = Some(results),
            Some(first) => {
                first.runs.extend(results.runs);
                first.warnings.extend(results.warnings);
            }
        }
    }
    if all.is_none() && !unread.is_empty() {
        let (path, reason) = files_and_reasons(&unread);
        return Err(Failure::Input { path, reason });
    }
    Ok((all.unwrap_or_else(|| result_file::results(Vec::new(), Vec::new())), unread))
}

/// What the page with the figures of the papers is called beside that of what was measured.
fn paper_file(out: &Path) -> String {
    match out.file_stem().map(|stem| stem.to_string_lossy()) {
        Some(stem) if !is_folder(out) && stem != "index" => format!("{stem}-{PAPER}"),
        _ => PAPER.to_owned(),
    }
}

/// The page with the figures of the papers, in a folder.
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

/// Everything into a folder; answers the page of what was measured.
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

/// The Markdown file, and its plots in a folder beside it.
fn markdown(page: &Page, file: &Path) -> Result<(), Failure> {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    for (name, content) in report::markdown_files(page, &stem) {
        output::write(&file.with_file_name(name), &content)?;
    }
    Ok(())
}
