//! What a data system's operations came to.

use serde::{Deserialize, Serialize};

use super::Distribution;
use crate::spec::Arrivals;

/// Operations (calls, records) done within the measured window, at the client. What belongs to one
/// operation is a mean.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub calls: u64,
    pub seconds: f64,
    /// Million operations a second.
    pub mcalls_per_s: f64,
    /// The distribution by which operations followed each other (open loop); absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// The delay of the next operation at the end of the window (open loop): what grows with the
    /// window is more than the fabric can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<f64>,
    /// Times from start (closed loop) or when due (open loop) to end, by kind of operation.
    pub actions: Vec<ActionTimes>,
    /// Parts of those times: "wait", until the message with a record was posted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ActionTimes>,
    /// READs of the peer's memory (index); 0 in files of workloads without.
    #[serde(default)]
    pub reads_per_call: f64,
    /// Messages of both directions, and bytes of all that crossed the fabric with the headers of
    /// the calls.
    pub messages_per_call: f64,
    pub bytes_per_call: f64,
    /// Processor time of the measuring threads on each side, polling included; 0: not enough calls.
    pub client_cpu_ns: f64,
    pub server_cpu_ns: f64,
    /// The same of whole processes, threads of the fabric included.
    #[serde(default)]
    pub client_process_cpu_ns: f64,
    #[serde(default)]
    pub server_process_cpu_ns: f64,
    /// Processor time of the measuring threads for 10^9 bytes of files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_s_per_gb: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_s_per_gb: Option<f64>,
}

/// Times of one kind of operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActionTimes {
    /// The kind of operation: "get", "put", "record", "lookup", "commit", "abort".
    pub name: String,
    /// Operations that ended within the window.
    pub calls: u64,
    /// Operations that were due and not done at its end (open loop).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unended: u64,
    /// The times of both: what was not done counts with the age that it had at the end.
    pub distribution: Distribution,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Work {
    /// Times of one kind of operation.
    pub fn times(&self, action: &str) -> Option<&Distribution> {
        find(&self.actions, action)
    }

    /// Times of one part of the operations.
    pub fn part(&self, part: &str) -> Option<&Distribution> {
        find(&self.parts, part)
    }
}

fn find<'a>(times: &'a [ActionTimes], name: &str) -> Option<&'a Distribution> {
    times.iter().find(|own| own.name == name).map(|own| &own.distribution)
}
