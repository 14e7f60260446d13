//! The results of a workload's operations at one thread of the client.

use bench_record::{ReceiverCount, Span};

use super::incast;
use crate::bench::RoundTrips;

/// The times of operations or parts, by name.
pub(crate) type Times = Vec<(&'static str, RoundTrips)>;

/// The bytes and messages that crossed the fabric, headers included.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// The number of messages in both directions.
    pub(crate) messages: u64,
    /// The number of READs of the peer's memory.
    pub(crate) reads: u64,
    /// The bytes of all messages and READs.
    pub(crate) bytes: u64,
    /// The number of parts of files or flows among these messages.
    pub(crate) chunks: u64,
    /// The number of bytes of these parts without headers.
    pub(crate) content_bytes: u64,
}

/// The outcome of one thread's operations within the window.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The times of the operations of each kind, from start (or when due) to end.
    pub(crate) times: Times,
    /// The times of the parts of operations.
    pub(crate) parts: Times,
    /// The ages of operations that were due and not done when the window closed (open loop).
    pub(crate) unended: Times,
    /// The ages of the parts of these operations.
    pub(crate) unended_parts: Times,
    /// The window, by a clock that all threads share.
    pub(crate) span: Span,
    /// The processor time of this thread in ns.
    pub(crate) cpu_ns: u64,
    /// The processor time of the process in ns.
    pub(crate) process_cpu_ns: u64,
    pub(crate) traffic: Traffic,
    /// The time by which the schedule was behind at the end, in ns (open loop).
    pub(crate) behind_ns: u64,
    /// The number of operations of the whole point that were asked for, warm-up and end included.
    pub(crate) total: u64,
    /// The number of transactions of the whole point that were committed.
    pub(crate) committed: u64,
    pub(crate) validated: u64,
    /// The findings on the flows into this thread.
    pub(crate) incast: Option<incast::Found>,
}

impl Calls {
    /// Returns the count of parts of files or flows; `None` if there were none.
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
