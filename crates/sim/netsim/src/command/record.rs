//! Results as JSON, which `run`, `sweep` and `paper` write and `compare` reads. The format is
//! described in docs/SIMULATOR.md; a change that readers notice raises the number in [`FORMAT`].

use crate::command::setting::Choice;
use anyhow::{Context, Result, ensure};
use netsim::{Bound, Figures, Outcome, Samples, Scenario, SizeClass, Summary};
use report::shell_word;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::slice;

pub(crate) const FORMAT: &str = "netsim-results/1";

/// A result file.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    pub(crate) format: String,
    /// Version of the program.
    pub(crate) netsim: String,
    /// The command that wrote it.
    pub(crate) command: String,
    pub(crate) points: Vec<Point>,
}

/// A scenario with all its runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) title: String,
    /// The scenario's file.
    pub(crate) file: String,
    /// Fields that were set, in order.
    pub(crate) settings: Vec<Choice>,
    /// Text of the scenario, with the settings.
    pub(crate) scenario: String,
    /// Description of its network in a line.
    #[serde(default)]
    pub(crate) network: String,
    pub(crate) runs: Vec<Run>,
    /// Bounds of the scenario, when the runs were judged.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) expected: Vec<Expected>,
}

/// A figure of a point's runs beside the scenario's bounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Expected {
    pub(crate) figure: String,
    /// Value over the runs: their mean, or the worst, as the name says.
    pub(crate) value: Option<f64>,
    pub(crate) least: Option<f64>,
    pub(crate) most: Option<f64>,
    /// Description of how it misses its bounds.
    pub(crate) missed: Option<String>,
}

impl Expected {
    pub(crate) fn of(bound: &Bound) -> Self {
        let Bound { figure, mean, most, least, .. } = *bound;
        Self { figure: figure.to_owned(), value: mean, least, most, missed: bound.missed() }
    }
}

/// One run of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) flows: usize,
    /// Number of flows that ended well.
    pub(crate) done: usize,
    /// Packets lost for any cause.
    pub(crate) lost_packets: u64,
    /// Statistics of the flows that ended well.
    pub(crate) summary: Option<Summary>,
    /// Slowdown by transfer size, where there are several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) by_size: Vec<SizeClass>,
    /// Fingerprint of everything that happened, hexadecimal.
    pub(crate) digest: Option<String>,
    /// Reason why the run did not end: a violated rule, or another error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Complete outcome; left out where many runs are together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Samples>,
    /// Figures that its scenario may expect something of; not in files, because they follow from
    /// the outcome.
    #[serde(skip)]
    pub(crate) figures: Option<Figures>,
}

impl Results {
    pub(crate) fn new(points: Vec<Point>) -> Self {
        Self {
            format: FORMAT.to_owned(),
            netsim: env!("CARGO_PKG_VERSION").to_owned(),
            command: command_line(),
            points,
        }
    }

    pub(crate) fn json(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Reads a result file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let there = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("{there}"))?;
        let format: Format = serde_json::from_str(&text)
            .with_context(|| format!("{there} is not a result file of netsim"))?;
        let found = format.format;
        ensure!(found == FORMAT, "{there} has the format {found}; this program reads {FORMAT}");
        serde_json::from_str(&text).with_context(|| format!("{there}"))
    }
}

/// The part of a result file that no version changes.
#[derive(Deserialize)]
struct Format {
    format: String,
}

impl Point {
    /// Returns the name that distinguishes it from others of the same scenario; the title when
    /// nothing was set.
    pub(crate) fn name(&self) -> String {
        if self.settings.is_empty() {
            return self.title.clone();
        }
        let settings: Vec<String> =
            self.settings.iter().map(|(field, value)| format!("{field}={value}")).collect();
        settings.join(" ")
    }

    /// Returns the command that runs it again.
    pub(crate) fn command(&self, seed: Option<u64>) -> String {
        let seed = seed.map(|seed| format!("--seed {seed}"));
        self.words("netsim run").into_iter().chain(seed).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that makes the same runs of it again.
    pub(crate) fn sweep_command(&self) -> String {
        let seeds: Vec<String> = self.runs.iter().map(|run| run.seed.to_string()).collect();
        let seeds = format!("--seeds {}", seeds.join(","));
        self.words("netsim sweep").into_iter().chain([seeds]).collect::<Vec<_>>().join(" ")
    }

    /// Returns a command with its file and settings.
    fn words(&self, command: &str) -> Vec<String> {
        let set =
            |(field, value): &Choice| format!("--set {}", shell_word(&format!("{field}={value}")));
        let words = [command.to_owned(), shell_word(&self.file)].into_iter();
        words.chain(self.settings.iter().map(set)).collect()
    }
}

impl Run {
    pub(crate) fn of(scenario: &Scenario, outcome: Outcome, samples: Option<Samples>) -> Self {
        Self {
            figures: Some(scenario.figures(&outcome)),
            seed: outcome.seed,
            flows: outcome.flows.len(),
            done: outcome.done(),
            lost_packets: outcome.lost_packets(),
            summary: outcome.summary(),
            by_size: netsim::by_size(slice::from_ref(&outcome)),
            digest: Some(format!("{:016x}", outcome.digest)),
            error: None,
            outcome: Some(outcome),
            samples,
        }
    }

    /// Returns whether all of its flows ended well, and there was one.
    pub(crate) fn is_complete(&self) -> bool {
        self.error.is_none() && self.flows > 0 && self.done == self.flows
    }

    pub(crate) fn failed(seed: u64, error: String) -> Self {
        Self {
            seed,
            flows: 0,
            done: 0,
            lost_packets: 0,
            summary: None,
            by_size: Vec::new(),
            digest: None,
            error: Some(error),
            outcome: None,
            samples: None,
            figures: None,
        }
    }
}

/// Returns this command as a shell would take it.
pub(crate) fn command_line() -> String {
    let words = std::env::args_os().skip(1).map(|word| shell_word(&word.to_string_lossy()));
    ["netsim".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_what_a_shell_takes() {
        let settings = vec![("transport.kind".to_owned(), "tcp".to_owned())];
        let point = Point {
            title: "t".to_owned(),
            file: "it's.toml".to_owned(),
            settings,
            ..Point::default()
        };
        let command = point.command(Some(3));
        assert_eq!(command, "netsim run 'it'\\''s.toml' --set transport.kind=tcp --seed 3");
        assert_eq!(point.name(), "transport.kind=tcp");
    }

    #[test]
    fn other_files_are_refused_by_their_format() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "{\"format\": \"netsim-results/0\", \"strange\": 1}").unwrap();
        let error = format!("{:#}", Results::read(&path).unwrap_err());
        assert!(error.contains("netsim-results/0") && error.contains(FORMAT), "{error}");
        fs::write(&path, "{}").unwrap();
        assert!(format!("{:#}", Results::read(&path).unwrap_err()).contains("not a result file"));
        let results = Results::new(vec![]);
        fs::write(&path, results.json().unwrap()).unwrap();
        assert_eq!(Results::read(&path).unwrap(), results);
    }
}
