//! A scenario file, and the scenarios that result from settings.

use crate::command::record::Point;
use crate::command::setting::{self, Chosen};
use anyhow::{Context, Result, anyhow};
use netsim::Scenario;
use std::fs;
use std::path::Path;

/// A scenario as it is in its file.
#[derive(Debug)]
pub(crate) struct Source {
    /// Name of the file, for messages and commands.
    file: String,
    text: String,
}

impl Source {
    /// Reads a scenario file. Errors name the file's own lines.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let file = path.display().to_string();
        let text = fs::read_to_string(path).with_context(|| file.clone())?;
        Self::new(&file, &text)
    }

    /// Creates a scenario from a name and its text.
    pub(crate) fn new(file: &str, text: &str) -> Result<Self> {
        Scenario::parse_in(text, folder_of(file)).with_context(|| file.to_owned())?;
        Ok(Self { file: file.to_owned(), text: text.to_owned() })
    }

    /// Returns the scenario with some fields set, and a point without runs.
    pub(crate) fn point(&self, chosen: &[Chosen<'_>]) -> Result<(Scenario, Point)> {
        let mut point = Point {
            file: self.file.clone(),
            settings: chosen.iter().map(|chosen| chosen.to_choice()).collect(),
            scenario: setting::apply(&self.text, chosen).with_context(|| self.file.clone())?,
            ..Point::default()
        };
        // The line would be one of a text that nobody has seen.
        let scenario = Scenario::parse_in(&point.scenario, folder_of(&self.file));
        let scenario = scenario.map_err(|error| {
            let (file, name) = (&self.file, point.name());
            anyhow!("{file} with {name}: {}: {}", error.field, error.problem)
        })?;
        scenario.title().clone_into(&mut point.title);
        point.network = scenario.network();
        Ok((scenario, point))
    }
}

/// Returns the folder of a scenario file's data files.
fn folder_of(file: &str) -> &Path {
    Path::new(file).parent().unwrap_or_else(|| Path::new(""))
}
