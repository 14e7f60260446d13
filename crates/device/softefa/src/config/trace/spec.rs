//! The specification of a trace by a user.

use std::path::PathBuf;

use super::event::Events;
use crate::config::ConfigError;

/// The target of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TraceTarget {
    /// Standard error of the program.
    Stderr,
    /// A file, to which all processes append; `%p` in it stands for the process id.
    File(PathBuf),
}

/// A trace and the events in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceSpec {
    /// The target of the trace.
    pub target: TraceTarget,
    events: Events,
}

impl TraceSpec {
    /// Makes a trace. The target `1`, `-` or `stderr` is standard error, everything else is a file.
    /// The trace has all kinds of events, or those in the list `events`, separated by commas.
    ///
    /// # Errors
    /// [`ConfigError::TraceEvent`] for a kind that does not exist.
    pub fn new(target: &str, events: Option<&str>) -> Result<Self, ConfigError> {
        let target = match target {
            "1" | "-" | "stderr" => TraceTarget::Stderr,
            file => TraceTarget::File(file.into()),
        };
        Ok(Self { target, events: events.map_or(Ok(Events::ALL), str::parse)? })
    }

    /// Returns target and events in the form that [`TraceSpec::new`] parses.
    #[must_use]
    pub fn to_texts(&self) -> (String, String) {
        let target = match &self.target {
            TraceTarget::Stderr => "stderr".to_owned(),
            TraceTarget::File(path) => path.display().to_string(),
        };
        (target, self.events.names())
    }

    pub(crate) fn events(&self) -> Events {
        self.events
    }
}
