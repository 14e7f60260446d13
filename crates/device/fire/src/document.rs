//! RELIABILITY.md and its plots, from the records.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use report::{Axis, Chart, Page, Scale, Section, Series, Stroke, markdown_files, wrapped};

use crate::experiments::{ALL, Experiment};
use crate::output::eprint_line;
use crate::record::{self, Plot, Record};

const STEM: &str = "RELIABILITY";

const SUMMARY: &str = "This page says which faults were tried, how often, and with which result, on real \
                       sockets and with a real kernel's routing. `make fire` writes it; do not edit it.";
const LEGEND: &str = "*Others* are the processors that other programs kept busy when a case began. Figures in \
                       milliseconds are meaningful only if that number is near 0. The short form (CI) tries \
                       every case only a few times and judges no times.";

/// Writes the document of the records in `path` into the directory `into`.
///
/// # Errors
/// There are no records, or a file cannot be written.
pub(crate) fn write(path: &Path, into: &Path) -> Result<()> {
    let records = record::read(path)?;
    ensure!(
        !records.is_empty(),
        "{} holds no record; 'fire run --record' makes it",
        path.display()
    );
    let plots: Vec<&Plot> = records.iter().flat_map(|record| &record.plots).collect();
    let dir = into.join(format!("{STEM}-plots"));
    if dir.is_dir() {
        fs::remove_dir_all(&dir).with_context(|| dir.display().to_string())?;
    }
    fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    // Only the plots of this page are taken: its text would show every point as a row of a table.
    let pictures = Page {
        sections: plots
            .iter()
            .map(|plot| Section { chart: Some(chart(plot)), ..Section::default() })
            .collect(),
        ..Page::default()
    };
    for (name, text) in markdown_files(&pictures, STEM).into_iter().skip(1) {
        report::write_atomic(&into.join(name), text.as_bytes())?;
    }
    let text = report::markdown(&page(&records));
    report::write_atomic(&into.join(format!("{STEM}.md")), text.as_bytes())?;
    eprint_line!("{} records, {} plots written to {}", records.len(), plots.len(), into.display());
    Ok(())
}

fn chart(plot: &Plot) -> Chart {
    let axis = |label: &str| Axis { label: label.to_owned(), scale: Scale::Linear };
    let series = plot.lines.iter().enumerate().map(|(look, line)| Series {
        name: line.name.clone(),
        look,
        stroke: if line.is_mark { Stroke::Dotted } else { Stroke::Solid },
        points: line.points.clone(),
    });
    Chart {
        title: plot.title.clone(),
        description: plot.description.clone(),
        x: axis(&plot.x),
        y: axis(&plot.y),
        series: series.collect(),
    }
}

fn page(records: &[Record]) -> Page {
    let failed: u64 = records.iter().map(|record| record.failed).sum();
    let distinct = |of: fn(&Record) -> &String| {
        let mut values: Vec<String> = records.iter().map(of).cloned().collect();
        values.dedup();
        values.sort();
        values.dedup();
        values
    };
    let systems = distinct(|record| &record.system).into_iter();
    let facts = systems.map(|system| ("system".to_owned(), system)).chain([
        ("dates".to_owned(), distinct(|record| &record.date).join(", ")),
        ("cases".to_owned(), records.len().to_string()),
        ("failures".to_owned(), failed.to_string()),
    ]);
    let mut next_plot = 1;
    let sections = ALL.iter().filter_map(|experiment| {
        let of = |record: &&Record| record.experiment == experiment.name;
        let records: Vec<&Record> = records.iter().filter(of).collect();
        (!records.is_empty()).then(|| section(experiment, &records, &mut next_plot))
    });
    Page {
        title: "Reliability".to_owned(),
        summary: vec![wrapped(SUMMARY, "", ""), wrapped(LEGEND, "", "")],
        facts: facts.collect(),
        sections: sections.collect(),
        ..Page::default()
    }
}

fn section(experiment: &Experiment, records: &[&Record], next_plot: &mut usize) -> Section {
    let mut text: Vec<String> = vec![wrapped(experiment.about, "", "")];
    for plot in records.iter().flat_map(|record| &record.plots) {
        text.push(format!("![{}. {}]({STEM}-plots/{next_plot}.svg)", plot.title, plot.description));
        *next_plot += 1;
    }
    let cases: Vec<String> = records.iter().map(|record| case(record)).collect();
    text.push(cases.join("\n"));
    Section { title: capitalised(experiment.what), text, ..Section::default() }
}

/// An item of the list of cases, with its failures below it.
fn case(record: &Record) -> String {
    let failed = match record.failed {
        0 => "none failed".to_owned(),
        failed => format!("**{failed}** failed"),
    };
    let item = format!(
        "**{}**: {}. {} {}, {failed}; {} form, others {:.1}, {:.0} s.",
        record.case.replace('*', "\\*"),
        result(record).trim_end_matches('.'),
        record.times,
        record.unit,
        record.form,
        record.others_load,
        record.seconds,
    );
    let failures = record.failures.iter().map(|failure| wrapped(failure, "  * ", "    "));
    std::iter::once(wrapped(&item, "* ", "  ")).chain(failures).collect::<Vec<_>>().join("\n")
}

/// Returns the result, with the inputs of fuzzers that add up over runs.
fn result(record: &Record) -> String {
    match record.figures.get("inputs").filter(|_| record.adds_up) {
        Some(inputs) => format!("{}; {:.1} million inputs", record.result, inputs / 1e6),
        None => record.result.clone(),
    }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Line;

    #[test]
    fn every_case_and_every_plot_is_in_the_document() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("record.jsonl");
        let line = Line { points: vec![(0.0, 1.0), (1.0, 2.0)], ..Line::default() };
        let plot = Plot { title: "Goodput".to_owned(), lines: vec![line], ..Plot::default() };
        let mut record = Record::new("one case", "tries");
        record.experiment = ALL[0].name.to_owned();
        record.plots = vec![plot];
        record.count_trial(Some("it broke".to_owned()));
        record::merge(&path, &[record]).expect("written");
        write(&path, dir.path()).expect("a document");
        let text = fs::read_to_string(dir.path().join("RELIABILITY.md")).expect("text");
        for part in [
            "* **one case**: ",
            "**1** failed",
            "\n  * it broke",
            "(RELIABILITY-plots/1.svg)",
            "1 tries",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        let is_long =
            |line: &&str| line.chars().count() > report::COLUMNS && !line.starts_with("![");
        assert_eq!(text.lines().find(is_long), None);
        assert!(dir.path().join("RELIABILITY-plots/1.svg").is_file());
        assert!(write(&dir.path().join("nothing"), dir.path()).is_err());
    }
}
