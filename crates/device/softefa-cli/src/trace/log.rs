//! The events of one or several files, in the order of time.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use softefa::trace::TraceEvent;

use super::input::{Input, Rest};
use super::line::Line;
use crate::failure::Failure;

/// The most events that are read, each of which takes about 150 bytes of memory.
const EVENTS_MAX: usize = 16_000_000;

/// An event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    /// Nanoseconds since the first event.
    pub(super) at_ns: u64,
    /// The offset of its text.
    begin: usize,
    len: u32,
    /// The index of its queue pair.
    pub(super) queue_pair: u32,
    pub(super) kind: TraceEvent,
}

/// The part of the time that is read, since the first event.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Window {
    pub(super) from: Option<Duration>,
    pub(super) to: Option<Duration>,
}

impl Window {
    fn has(self, at_ns: u64) -> bool {
        let at = Duration::from_nanos(at_ns);
        self.from.is_none_or(|from| at >= from) && self.to.is_none_or(|to| at < to)
    }

    /// Returns true if the window limits the time.
    pub(super) fn is_set(self) -> bool {
        self.from.is_some() || self.to.is_some()
    }
}

/// The events that were read.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The time of the first event of the files, since 1970.
    pub(super) begins_ns: u64,
    pub(super) events: Vec<Event>,
    /// The names of the queue pairs.
    pub(super) queue_pairs: Vec<String>,
    /// The contents of the files besides events.
    pub(super) rest: Rest,
    /// The number of events before and behind the window.
    pub(super) outside: u64,
    /// There are more events than were read.
    pub(super) is_full: bool,
    /// At least one file is a capture.
    pub(super) has_capture: bool,
    words: String,
}

impl Log {
    /// Reads all files.
    ///
    /// # Errors
    /// A file cannot be read or has no events, or none is in the window.
    pub(super) fn read(paths: &[PathBuf], window: Window) -> Result<Self, Failure> {
        let inputs = paths.iter().map(|path| Input::open(path));
        let inputs = inputs.collect::<Result<Vec<Input>, Failure>>()?;
        let begins_ns = inputs.iter().map(Input::begins_ns).min().unwrap_or_default();
        let mut log = Self { begins_ns, ..Self::default() };
        let mut places = HashMap::new();
        for (mut input, path) in inputs.into_iter().zip(paths) {
            log.add(&mut input, window, &mut places).map_err(|error| failure(path, &error))?;
        }
        if log.events.is_empty() {
            return Err(Failure::new(
                "no event is in the time between --from and --to, which count in seconds from the first event",
            ));
        }
        log.events.sort_by_key(|event| event.at_ns);
        Ok(log)
    }

    fn add(
        &mut self,
        input: &mut Input,
        window: Window,
        places: &mut HashMap<String, u32>,
    ) -> io::Result<()> {
        while let Some(text) = input.next()? {
            let Some(line) = Line::parse(&text) else { continue };
            // If there are several processes, one may have been a little earlier than the one that
            // wrote first.
            let at_ns = line.time_ns.saturating_sub(self.begins_ns);
            if !window.has(at_ns) {
                self.outside += 1;
                continue;
            }
            if self.events.len() == EVENTS_MAX {
                self.is_full = true;
                break;
            }
            self.push(at_ns, &line, places);
        }
        let Rest { lines, packets, is_cut } = input.rest();
        self.rest.lines += lines;
        self.rest.packets += packets;
        self.rest.is_cut |= is_cut;
        self.has_capture |= input.is_capture();
        Ok(())
    }

    fn push(&mut self, at_ns: u64, line: &Line<'_>, places: &mut HashMap<String, u32>) {
        let queue_pair = places.get(line.local).copied().unwrap_or_else(|| {
            let place = u32::try_from(self.queue_pairs.len()).unwrap_or(u32::MAX);
            self.queue_pairs.push(line.local.to_owned());
            places.insert(line.local.to_owned(), place);
            place
        });
        let begin = self.words.len();
        self.words.push_str(line.what);
        // A line is shorter than that limit.
        let len = u32::try_from(line.what.len()).unwrap_or(u32::MAX);
        self.events.push(Event { at_ns, begin, len, queue_pair, kind: line.event });
    }

    /// Returns the other queue pair and what happened.
    pub(super) fn words(&self, event: &Event) -> &str {
        &self.words[event.begin..event.begin + event.len as usize]
    }

    /// Returns the times of the first and the last event that were read.
    pub(super) fn span_ns(&self) -> [u64; 2] {
        let at = |event: Option<&Event>| event.map_or(0, |event| event.at_ns);
        [at(self.events.first()), at(self.events.last())]
    }
}

fn failure(path: &Path, error: &io::Error) -> Failure {
    Failure::new(format!("{} cannot be read: {error}", path.display()))
}
