//! One line of text per event of a queue pair (docs/TRACE.md), for people who want to know why.
//!
//! A line is written at once and whole, so that the last one before a crash is there and lines of
//! several processes do not mix. That costs a system call per event: a trace is for finding
//! out, not for measuring.

mod packet;
mod sink;
mod words;

use std::fmt::{self, Write};
use std::sync::Arc;

use crate::completion::Sender;
use crate::host;

pub use crate::address::PeerName;
pub use crate::config::trace::{TraceEvent, TraceSpec, TraceTarget};
pub use packet::{TraceLine, trace_lines};

pub(crate) use crate::config::trace::Events;
pub(crate) use sink::Sink;
#[cfg(test)]
pub(crate) use words::op_name;
pub(crate) use words::{AckText, DataText};

/// The trace of one queue pair.
#[derive(Debug)]
pub(crate) struct Tracer {
    sink: Arc<Sink>,
    events: Events,
    /// Name of the device and number of the queue pair.
    local: String,
    line: String,
}

impl Tracer {
    pub(crate) fn new(sink: &Arc<Sink>, events: Events, device: &str, qpn: u32) -> Self {
        let local = format!("{device}:{qpn}");
        Self { sink: Arc::clone(sink), events, local, line: String::new() }
    }

    /// The user wants to see such events.
    pub(crate) fn wants(&self, event: TraceEvent) -> bool {
        self.events.has(event)
    }

    /// Writes a line, if the user wants it.
    pub(crate) fn write(
        &mut self,
        event: TraceEvent,
        peer: Option<Sender>,
        rest: fmt::Arguments<'_>,
    ) {
        if !self.wants(event) {
            return;
        }
        self.line.clear();
        let (time_ns, name, local) = (host::epoch_ns(), event.name(), &self.local);
        // Writing to a string does not fail.
        let _ = write!(self.line, "{time_ns} {name} {local} ");
        let _ = match peer {
            Some(peer) => writeln!(self.line, "{peer} {rest}"),
            None => writeln!(self.line, "- {rest}"),
        };
        self.sink.write(self.line.as_bytes());
    }
}
