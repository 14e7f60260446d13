//! Results as JSON, CSV and a table on the terminal.

use std::borrow::Cow;
use std::path::Path;

use bench_record::failure::Failure;
use bench_record::{FabricRecord, Point, Results, Run, SCHEMA, SCHEMA_BEFORE};
use report::{Table, without_controls};
use serde_json::Value;

use crate::{kinds, sound};

mod csv;
mod terminal;

pub use self::csv::csv;
pub use self::terminal::{for_terminal, text};

/// Reads a result file.
pub fn read(path: &Path) -> Result<Results, Failure> {
    let failed = |reason: String| Failure::Input { path: path.display().to_string(), reason };
    let text =
        std::fs::read_to_string(path).map_err(|e| failed(bench_record::failure::plain(&e)))?;
    parse(&text).map_err(failed)
}

/// Reads the text of a result file. Runs of a benchmark, or with another word, that this release
/// does not know are left out, with a warning among those of the file.
///
/// # Errors
/// The reason why the text is no result file.
pub fn parse(text: &str) -> Result<Results, String> {
    let mut value: Value = serde_json::from_str(text).map_err(|e| {
        format!(
            "it is not JSON ({e}), nor the output of a tool that can be imported: give a file that \
             --json wrote, or name the tool to `efa-bench import --as`"
        )
    })?;
    match value.get("schema").and_then(|s| s.as_str()) {
        Some(SCHEMA | SCHEMA_BEFORE) => {}
        Some(other) => {
            return Err(format!("its schema is {other}, this efa-bench reads {SCHEMA}"));
        }
        None => return Err("it is no efa-bench result: it has no schema".to_owned()),
    }
    show(&mut value);
    let Some(Value::Array(runs)) = value.get_mut("runs").map(Value::take) else {
        return Err("it is damaged: it has no runs".to_owned());
    };
    value["runs"] = Value::Array(Vec::new());
    let mut results: Results =
        serde_json::from_value(value).map_err(|e| format!("it is damaged: {e}"))?;
    let count = runs.len();
    for own in runs {
        match run(own)? {
            Read::Known(run) => results.runs.push(*run),
            Read::Newer(warning) => results.warnings.push(warning),
        }
    }
    match (count, results.runs.len(), results.warnings.last()) {
        (1.., 0, Some(last)) => Err(format!("it has no run that can be read: {last}")),
        _ => Ok(results),
    }
}

/// Makes all strings of a file safe to show.
fn show(value: &mut Value) {
    match value {
        Value::String(text) => {
            if let Cow::Owned(plain) = without_controls(text) {
                *text = plain;
            }
        }
        Value::Array(all) => all.iter_mut().for_each(show),
        Value::Object(all) => all.values_mut().for_each(show),
        _ => {}
    }
}

/// A run of a file.
enum Read {
    Known(Box<Run>),
    /// A run with a word that this release does not know, with the warning about it.
    Newer(String),
}

fn run(value: Value) -> Result<Read, String> {
    let word = |name: &str| value[name].as_str().unwrap_or("?").to_owned();
    let (name, benchmark) = (word("name"), word("benchmark"));
    let run: Run = match serde_json::from_value(value) {
        Ok(run) => run,
        Err(error) if error.to_string().starts_with("unknown variant") => {
            let error = error.to_string();
            // The list of expected words is long, so it is left out.
            let what = error.split(", expected").next().unwrap_or_default();
            return Ok(Read::Newer(format!(
                "{name} {benchmark} is left out: {what}, so a newer efa-bench made it"
            )));
        }
        Err(error) => return Err(format!("it is damaged: {error}")),
    };
    match run.points.iter().find_map(|point| sound::check(point).err()) {
        Some(odd) => Err(format!("it is damaged: {name} {benchmark} has {odd}")),
        None => Ok(Read::Known(Box::new(run))),
    }
}

/// Returns whether a text is a result file, whatever its strings look like.
pub fn is_own(text: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Head {
        schema: String,
    }
    let head = serde_json::from_str::<Head>(text);
    head.is_ok_and(|head| head.schema.starts_with("efa-bench/"))
}

/// The JSON text of a result file.
pub fn json(results: &Results) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(results)
        .map_err(|e| Failure::Check(format!("cannot encode the results: {e}")))?;
    Ok(text + "\n")
}

/// The files that results go to.
#[derive(Debug, Clone, Copy)]
pub struct Outputs<'a> {
    /// The result file.
    pub json: Option<&'a Path>,
    /// The file for a table of all points.
    pub csv: Option<&'a Path>,
    /// The file for a report.
    pub html: Option<&'a Path>,
    /// Whether the tables on the terminal are left out.
    pub quiet: bool,
}

/// Writes the files, then prints the tables, unless standard output is one of the files. A file
/// that cannot be written does not keep the others from being written, because a long measurement
/// may be lost otherwise. Returns the first failure.
pub fn deliver(results: &Results, outputs: &Outputs<'_>) -> Result<(), Failure> {
    let to_stdout = |path: Option<&Path>| path == Some(Path::new("-"));
    let mut written = Vec::new();
    if let Some(path) = outputs.json {
        written.push(json(results).and_then(|text| write(path, &text)));
    }
    if let Some(path) = outputs.csv {
        written.push(write(path, &csv(&results.runs)));
    }
    if let Some(path) = outputs.html {
        let page = crate::page::page(results, Vec::new(), None);
        written.push(write(path, &report::html(&page)));
    }
    if !outputs.quiet && ![outputs.json, outputs.csv, outputs.html].into_iter().any(to_stdout) {
        let texts: Vec<String> = results.runs.iter().map(text).collect();
        written.push(print(&texts.join("\n")));
    }
    written.into_iter().collect()
}

/// Writes a file whole or not at all; "-" is standard output.
pub fn write(path: &Path, content: &str) -> Result<(), Failure> {
    if path == Path::new("-") {
        return print(content);
    }
    report::write_atomic(path, content.as_bytes())
        .map_err(|e| Failure::Output { path: e.path.display().to_string(), reason: e.reason })
}

/// Prints to standard output; a closed pipe is no failure, a full disk is one.
pub fn print(text: &str) -> Result<(), Failure> {
    report::print(text).map_err(|error| Failure::Output {
        path: "standard output".to_owned(),
        reason: bench_record::failure::plain(&error),
    })
}

/// The table of one run; the unit is in every heading.
pub fn table(run: &Run) -> Table {
    (kinds::of(run.benchmark).table)(run)
}

/// Returns the first row of each point in the table of its run; `None` for a point without a row.
pub(crate) fn first_rows(run: &Run) -> Vec<Option<usize>> {
    let mut alone = Run { points: Vec::new(), ..run.clone() };
    let mut rows = 0;
    let first = |point: &Point| {
        alone.points = vec![point.clone()];
        let own = table(&alone).rows.len();
        rows += own;
        (own > 0).then(|| rows - own)
    };
    run.points.iter().map(first).collect()
}

/// Renders a fabric for the terminal.
pub fn fabric(found: &FabricRecord) -> String {
    let mtu = found.mtu_bytes.map_or_else(|| "not told".to_owned(), |m| format!("{m} B"));
    let longest = match found.max_message_bytes {
        usize::MAX => "any length".to_owned(),
        bytes => format!("{bytes} B"),
    };
    format!(
        "provider {}, domain {}\nMTU {mtu}, messages up to {longest}, inject up to {} B, depth {} and \
         {}\n\n{}\n",
        found.provider,
        found.domain,
        found.inject_bytes,
        found.tx_depth,
        found.rx_depth,
        found.text.trim_end()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_survive_their_own_json() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("r.json");
        // The published latencies have few digits and survive exactly.
        let runs: Vec<Run> = crate::paper::runs().into_iter().take(3).collect();
        let results = Results::of(runs, Vec::new());
        write(&path, &json(&results).expect("encode")).expect("write");
        let again = read(&path).expect("read");
        assert!(json(&again).expect("encode") == json(&results).expect("encode"));
    }

    /// A file that cannot be written does not keep the others from being written.
    #[test]
    fn a_file_that_cannot_be_written_costs_no_other() {
        let folder = tempfile::tempdir().expect("tempdir");
        let table = folder.path().join("r.csv");
        let runs: Vec<Run> = crate::paper::runs().into_iter().take(1).collect();
        let (json, csv) = (Some(Path::new("/dev/full")), Some(table.as_path()));
        let outputs = Outputs { json, csv, html: None, quiet: true };
        let failure = deliver(&Results::of(runs, Vec::new()), &outputs).expect_err("no room");
        let is_named = failure.to_string().contains("/dev/full");
        assert!(failure.exit_code() == 10 && is_named, "{failure}");
        assert!(table.exists());
    }

    /// A word of a newer release costs no more than the run that it is in.
    #[test]
    fn a_run_of_a_newer_release_is_left_out_alone() {
        let run = |name| Run::new(name, bench_record::spec::Benchmark::Latency, Vec::new());
        let both = json(&Results::of(vec![run("old"), run("new")], Vec::new())).expect("JSON");
        let (first, second) = both.split_once("\"new\"").expect("the second run");
        let newer = |text: &str| text.replace("\"latency\"", "\"telepathy\"");
        let results = parse(&format!("{first}\"new\"{}", newer(second))).expect("one run");
        assert_eq!((results.runs.len(), results.runs[0].name.as_str()), (1, "old"));
        assert_eq!(
            results.warnings,
            [
                "new telepathy is left out: unknown variant `telepathy`, so a newer efa-bench made it"
            ]
        );
        let error = parse(&newer(&both)).expect_err("none is known");
        assert!(error.contains("a newer efa-bench made it"), "{error}");
        // A missing field is no new word.
        let damaged = both.replace("\"points\"", "\"punkte\"");
        assert!(parse(&damaged).is_err_and(|error| error.contains("damaged")));
    }

    /// A name could colour the terminal, and an SVG that contains it would be no XML.
    #[test]
    fn names_tell_a_terminal_nothing() {
        let run = Run::new("a\u{1b}[31mb\u{0}", bench_record::spec::Benchmark::Latency, Vec::new());
        let text = json(&Results::of(vec![run], Vec::new())).expect("JSON");
        assert_eq!(parse(&text).expect("a file").runs[0].name, "a\u{fffd}[31mb\u{fffd}");
    }

    #[test]
    fn foreign_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().expect("tempdir");
        let path = folder.path().join("r.json");
        for (content, reason) in [
            ("nonsense", "not JSON"),
            ("{}", "no schema"),
            ("{\"schema\":\"efa-bench/99\"}", "efa-bench/99"),
            ("{\"schema\":\"efa-bench/1\"}", "damaged"),
        ] {
            std::fs::write(&path, content).expect("write");
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(reason), "{content}: {error}");
        }
    }
}
