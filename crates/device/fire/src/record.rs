//! Records: what was tried, how often, and with which result. Each is a line of JSON.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The result of one case of an experiment.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) experiment: String,
    pub(crate) case: String,
    /// The number of trials, in `unit`.
    pub(crate) times: u64,
    pub(crate) unit: String,
    /// The number of failures.
    pub(crate) failed: u64,
    /// What was observed, in words and figures.
    pub(crate) result: String,
    /// The failures, each with the command that repeats it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) failures: Vec<String>,
    /// Figures by name; the names contain their units.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) figures: BTreeMap<String, f64>,
    pub(crate) form: String,
    pub(crate) seed: u64,
    /// Processors that other programs kept busy when the case began.
    pub(crate) others_load: f64,
    pub(crate) seconds: f64,
    pub(crate) date: String,
    pub(crate) system: String,
    /// Whether trials add up over runs.
    #[serde(default)]
    pub(crate) adds_up: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) plots: Vec<Plot>,
}

/// A plot of a case.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Plot {
    pub(crate) title: String,
    pub(crate) description: String,
    pub(crate) x: String,
    pub(crate) y: String,
    pub(crate) lines: Vec<Line>,
}

/// A line of a plot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) name: String,
    /// Whether it marks a moment or a bound that was not measured.
    #[serde(default)]
    pub(crate) is_mark: bool,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The number of failures that a record keeps: the first ones say what is wrong.
const FAILURES_KEPT: usize = 5;
/// The only case of an experiment that was aborted, until a run completes it.
const UNFINISHED: &str = "did not come to its end";

impl Record {
    pub(crate) fn new(case: impl Into<String>, unit: &str) -> Self {
        Self { case: case.into(), unit: unit.to_owned(), ..Self::default() }
    }

    /// Creates the record of an experiment that was aborted, and why.
    pub(crate) fn unfinished(reason: &str) -> Self {
        let mut record = Self::new(UNFINISHED, "tries");
        record.count_trial(Some(reason.to_owned()));
        record.result = reason.to_owned();
        record
    }

    /// Counts one trial, and its failure if there was one.
    pub(crate) fn count_trial(&mut self, failure: Option<String>) {
        self.times += 1;
        if let Some(failure) = failure {
            self.fail(failure);
        }
    }

    pub(crate) fn fail(&mut self, failure: String) {
        self.failed += 1;
        if self.failures.len() < FAILURES_KEPT {
            self.failures.push(failure);
        }
    }

    pub(crate) fn set_figure(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), (value * 1000.0).round() / 1000.0);
    }

    fn is_same_case(&self, other: &Self) -> bool {
        self.experiment == other.experiment && self.case == other.case
    }

    /// Returns this record combined with an earlier one of the same case.
    fn after(mut self, earlier: &Self) -> Self {
        if self.adds_up {
            if earlier.failed > 0 && self.failed == 0 {
                self.result.clone_from(&earlier.result);
            }
            let failures = earlier.failures.iter().cloned().chain(self.failures);
            self.failures = failures.take(FAILURES_KEPT).collect();
            self.times += earlier.times;
            self.failed += earlier.failed;
            self.seconds = ((self.seconds + earlier.seconds) * 10.0).round() / 10.0;
            for (name, value) in &earlier.figures {
                *self.figures.entry(name.clone()).or_default() += value;
            }
        }
        self
    }
}

/// Reads all records of a file; none if there is no file.
///
/// # Errors
/// The file cannot be read, or a line is no record.
pub(crate) fn read(path: &Path) -> Result<Vec<Record>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let line = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .with_context(|| format!("{}: line {number} is no record", path.display()))
    };
    (1..).zip(text.lines()).map(line).collect()
}

/// Merges new records into a file: each replaces the earlier one of its case or adds to it. An
/// experiment that completed this time loses its unfinished case.
///
/// # Errors
/// The file cannot be read or written.
pub(crate) fn merge(path: &Path, new: &[Record]) -> Result<()> {
    let merged = merged(read(path)?, new);
    let line = |record: &Record| serde_json::to_string(record).map(|line| line + "\n");
    let lines: String = merged.iter().map(line).collect::<Result<_, _>>()?;
    report::write_atomic(path, lines.as_bytes())?;
    Ok(())
}

fn merged(mut all: Vec<Record>, new: &[Record]) -> Vec<Record> {
    let is_over = |earlier: &Record| {
        let is_same = |record: &&Record| record.experiment == earlier.experiment;
        let mut current = new.iter().filter(is_same).peekable();
        current.peek().is_some() && current.all(|record| record.case != UNFINISHED)
    };
    all.retain(|earlier| earlier.case != UNFINISHED || !is_over(earlier));
    for record in new {
        match all.iter_mut().find(|earlier| earlier.is_same_case(record)) {
            Some(earlier) => *earlier = record.clone().after(earlier),
            None => all.push(record.clone()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_replaces_itself_or_adds_up() {
        let record =
            |case: &str, times, adds_up| Record { times, adds_up, ..Record::new(case, "tries") };
        let all = merged(
            vec![record("a", 5, false), record("b", 5, true)],
            &[record("b", 7, true), record("a", 1, false), record("c", 2, false)],
        );
        let times: Vec<_> = all.iter().map(|r| (r.case.as_str(), r.times)).collect();
        assert_eq!(times, [("a", 1), ("b", 12), ("c", 2)]);
    }

    /// The unfinished case is removed.
    #[test]
    fn an_experiment_that_goes_through_came_to_its_end() {
        let of = |experiment: &str, record: Record| Record {
            experiment: experiment.to_owned(),
            ..record
        };
        let stopped = |experiment| of(experiment, Record::unfinished("no memory"));
        let earlier = || vec![stopped("links"), of("links", Record::new("flaps", "tries"))];
        let cases = |all: Vec<Record>| -> Vec<String> {
            let name = |record: Record| format!("{}: {}", record.experiment, record.case);
            all.into_iter().map(name).collect()
        };
        let flaps = of("links", Record::new("flaps", "tries"));
        assert_eq!(cases(merged(earlier(), &[flaps])), ["links: flaps"]);
        let unfinished = format!("links: {UNFINISHED}");
        let again = merged(earlier(), &[stopped("links")]);
        assert_eq!((again.len(), again.iter().map(|record| record.times).sum::<u64>()), (2, 1));
        assert!(cases(again).contains(&unfinished));
        let others = merged(earlier(), &[of("soak", Record::new("grows", "tries"))]);
        assert!(cases(others).contains(&unfinished));
    }

    /// Failures that add up keep their descriptions.
    #[test]
    fn failures_that_add_up_keep_their_words() {
        let record = |result: &str, failures: &[&str]| {
            let mut record = Record { adds_up: true, ..Record::new("fuzz", "CPU seconds") };
            failures.iter().for_each(|failure| record.count_trial(Some((*failure).to_owned())));
            Record { result: result.to_owned(), ..record }
        };
        let add = |earlier: &Record, new: Record| merged(vec![earlier.clone()], &[new]).remove(0);
        let crash = record("a crash", &["one", "two"]);
        let clean = add(&crash, record("no crash", &[]));
        assert_eq!((clean.failed, clean.result.as_str()), (2, "a crash"));
        assert_eq!(clean.failures, ["one", "two"]);
        let more = add(&clean, record("another crash", &["three", "four", "five", "six"]));
        assert_eq!((more.failed, more.result.as_str()), (6, "another crash"));
        assert_eq!(more.failures, ["one", "two", "three", "four", "five"]);
        let still_clean = add(&record("no crash", &[]), record("clean", &[]));
        assert_eq!((still_clean.result.as_str(), still_clean.failures.len()), ("clean", 0));
    }

    #[test]
    fn records_survive_their_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("record.jsonl");
        // An experiment that was interrupted before it tried anything has no records.
        merge(&path, &[]).expect("written");
        assert!(read(&path).expect("read").is_empty());
        let mut record = Record::new("a", "tries");
        record.count_trial(None);
        record.count_trial(Some("no".to_owned()));
        merge(&path, &[record]).expect("written");
        let all = read(&path).expect("read");
        assert_eq!((all.len(), all[0].times, all[0].failed), (1, 2, 1));
    }
}
