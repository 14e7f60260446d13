//! What a workload's operations came to, at one thread of the client.

use bench_record::{ReceiverCount, Span};

use super::incast;
use crate::bench::RoundTrips;

/// Times by name.
pub(crate) type Times = Vec<(&'static str, RoundTrips)>;

/// The bytes and messages that crossed the fabric, headers included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Messages of both directions.
    pub(crate) messages: u64,
    /// READs of the peer's memory.
    pub(crate) reads: u64,
    /// Bytes of all of them.
    pub(crate) bytes: u64,
    /// Parts of files or flows among those messages, and their bytes without headers.
    pub(crate) chunks: u64,
    pub(crate) content_bytes: u64,
}

/// The outcome of one thread's operations within the window.
#[derive(Debug)]
pub(crate) struct Calls {
    /// Times of the operations of each kind, from start (or when due) to end.
    pub(crate) times: Times,
    /// Times of a part of each operation.
    pub(crate) parts: Times,
    /// Ages of those that were due and not done when the window closed, and of such parts (open
    /// loop).
    pub(crate) unended: Times,
    pub(crate) unended_parts: Times,
    /// The window, by a clock that all threads share.
    pub(crate) span: Span,
    /// Processor time of this thread, and of the process.
    pub(crate) cpu_ns: u64,
    pub(crate) process_cpu_ns: u64,
    pub(crate) traffic: Traffic,
    /// The time by which the schedule was behind at the end, in ns (open loop).
    pub(crate) behind_ns: u64,
    /// Operations of the whole point that were asked for, warm-up and end included.
    pub(crate) total: u64,
    /// Transactions of the whole point that were committed.
    pub(crate) committed: u64,
    pub(crate) validated: u64,
    /// The findings on flows that met here.
    pub(crate) incast: Option<incast::Found>,
}

impl Calls {
    /// Returns what files or flows came to; `None`: there were none.
    pub(crate) fn stream(&self) -> Option<ReceiverCount> {
        let Traffic { chunks, content_bytes, .. } = self.traffic;
        (chunks > 0).then(|| ReceiverCount {
            messages: chunks,
            bytes: content_bytes,
            seconds: self.span.seconds,
            opened_s: self.span.opened_s,
            ..ReceiverCount::default()
        })
    }
}
