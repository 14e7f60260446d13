//! `softefa trace`: the events of a run and their times, as a page or as tables.
//!
//! ```text
//! trace   -> Line --+
//! capture -> Packets+-> Log -> QueuePair: messages, paths, faults -> tables, Data -> page
//! ```

mod bins;
mod data;
mod drawn;
mod flows;
mod input;
mod line;
mod log;
mod messages;
mod packets;
mod page;
mod queue_pair;
mod sent;
mod tables;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::args::TraceArgs;
use crate::eprint::eprint_line;
use crate::failure::Failure;
use log::{Log, Window};
use queue_pair::QueuePair;

/// Writes the page, or prints the tables.
///
/// # Errors
/// A file cannot be read or has no events, or the page cannot be written.
pub(crate) fn trace(args: &TraceArgs) -> Result<u8, Failure> {
    let window = Window { from: args.from, to: args.to };
    let output = args.html.then(|| output(args)).transpose()?;
    let log = Log::read(&args.files, window)?;
    let queue_pairs = queue_pair::queue_pairs(&log);
    let Some(output) = output else { return print(&log, &queue_pairs) };
    let names: Vec<String> =
        args.files.iter().map(|file| name(file).display().to_string()).collect();
    let html = page::page(&log, &queue_pairs, &names.join(", "), window);
    if output.as_os_str() == "-" {
        return write(&html);
    }
    report::write_atomic(&output, html.as_bytes())
        .map_err(|error| Failure::new(error.to_string()))?;
    for what in page::unread(&log) {
        eprint_line!("softefa: {}", what.replace('`', ""));
    }
    eprint_line!("softefa: {} of {} events", output.display(), log.events.len());
    Ok(0)
}

/// Returns the path of the page, which is never that of an input.
fn output(args: &TraceArgs) -> Result<PathBuf, Failure> {
    let output = match &args.output {
        Some(output) => output.clone(),
        None => args.files[0].with_extension("html"),
    };
    let same = |file: &&PathBuf| match (fs::canonicalize(file), fs::canonicalize(&output)) {
        (Ok(file), Ok(output)) => file == output,
        _ => false,
    };
    match args.files.iter().find(same) {
        Some(file) => Err(Failure::new(format!(
            "the page would take the place of {}; name another file with -o",
            file.display()
        ))),
        None => Ok(output),
    }
}

/// Returns the last part of a path.
fn name(file: &Path) -> &Path {
    file.file_name().map_or(file, Path::new)
}

fn print(log: &Log, queue_pairs: &[QueuePair]) -> Result<u8, Failure> {
    for what in page::unread(log) {
        eprint_line!("softefa: {}", what.replace('`', ""));
    }
    let [_, last_ns] = log.span_ns();
    let mut text = page::summary(log, queue_pairs) + "\n";
    let tables = [
        tables::events(queue_pairs),
        tables::paths(queue_pairs),
        tables::faults(log, queue_pairs),
        tables::longest_table(queue_pairs, last_ns),
    ];
    for table in tables.into_iter().filter(|table| !table.rows.is_empty()) {
        text += &format!("\n{}\n{}", table.caption, table.text());
    }
    write(&text)
}

fn write(text: &str) -> Result<u8, Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        // The reader has seen enough (`softefa trace run.trace | head`).
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("standard output: {error}")))
        }
        _ => Ok(0),
    }
}
