//! Results as JSON: what `run`, `sweep` and `paper` write and `compare` reads. The format is
//! described in docs/SIMULATOR.md; a change that readers notice raises the number in [`FORMAT`].

use crate::command::setting::Choice;
use anyhow::{Context, Result, ensure};
use netsim::{Outcome, Samples, Summary};
use report::shell_word;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    pub(crate) title: String,
    /// The scenario's file.
    pub(crate) file: String,
    /// Fields that were set, in order.
    pub(crate) settings: Vec<Choice>,
    /// Text of the scenario, with the settings.
    pub(crate) scenario: String,
    pub(crate) runs: Vec<Run>,
}

/// One run of one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) seed: u64,
    pub(crate) flows: usize,
    /// Flows that ended well.
    pub(crate) done: usize,
    /// Packets lost for any cause.
    pub(crate) lost_packets: u64,
    /// Statistics of the flows that ended well.
    pub(crate) summary: Option<Summary>,
    /// Fingerprint of everything that happened, hexadecimal.
    pub(crate) digest: Option<String>,
    /// A rule that was broken, or what else kept it from ending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
    /// Everything; left out where many runs are together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) outcome: Option<Outcome>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) samples: Option<Samples>,
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
    /// What tells it from others of the same scenario; the title when nothing was set.
    pub(crate) fn name(&self) -> String {
        if self.settings.is_empty() {
            return self.title.clone();
        }
        let settings: Vec<String> =
            self.settings.iter().map(|(field, value)| format!("{field}={value}")).collect();
        settings.join(" ")
    }

    /// The command that runs it again.
    pub(crate) fn command(&self, seed: Option<u64>) -> String {
        let mut words = vec!["netsim run".to_owned(), shell_word(&self.file)];
        let set =
            |(field, value): &Choice| format!("--set {}", shell_word(&format!("{field}={value}")));
        words.extend(self.settings.iter().map(set));
        words.extend(seed.map(|seed| format!("--seed {seed}")));
        words.join(" ")
    }

    /// Runs that broke, and why, with the command that repeats each.
    pub(crate) fn errors(&self) -> impl Iterator<Item = String> {
        self.runs.iter().filter_map(|run| {
            let error = run.error.as_ref()?;
            Some(format!("{error}; repeat it with: {}", self.command(Some(run.seed))))
        })
    }

    /// The same, and runs in which not all flows ended well.
    pub(crate) fn failures(&self) -> impl Iterator<Item = String> {
        let open = self.runs.iter().filter(|run| run.done < run.flows).map(|run| {
            let (done, flows, again) = (run.done, run.flows, self.command(Some(run.seed)));
            format!("{done} of {flows} flows ended well; repeat it with: {again}")
        });
        self.errors().chain(open)
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.runs.iter().all(|run| run.error.is_none() && run.done == run.flows)
    }
}

impl Run {
    pub(crate) fn of(outcome: Outcome, samples: Option<Samples>) -> Self {
        Self {
            seed: outcome.seed,
            flows: outcome.flows.len(),
            done: outcome.done(),
            lost_packets: outcome.lost_packets(),
            summary: outcome.summary(),
            digest: Some(format!("{:016x}", outcome.digest)),
            error: None,
            outcome: Some(outcome),
            samples,
        }
    }

    pub(crate) fn failed(seed: u64, error: String) -> Self {
        Self {
            seed,
            flows: 0,
            done: 0,
            lost_packets: 0,
            summary: None,
            digest: None,
            error: Some(error),
            outcome: None,
            samples: None,
        }
    }
}

/// This command as a shell would take it.
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
            scenario: String::new(),
            runs: Vec::new(),
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
