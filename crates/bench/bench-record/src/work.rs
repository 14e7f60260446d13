//! The figures of a data system's operations.

use serde::{Deserialize, Serialize};

use super::Distribution;
use crate::spec::Arrivals;

/// The operations (calls, records) done within the measured window, at the client. Figures per
/// operation are means.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Work {
    pub calls: u64,
    pub seconds: f64,
    /// The number of operations a second, in millions.
    pub mcalls_per_s: f64,
    /// The distribution by which operations followed each other (open loop); absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// The delay of the next operation at the end of the window (open loop): a delay that grows
    /// with the window means that the rate is more than the fabric can do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<f64>,
    /// The times from start (closed loop) or when due (open loop) to end, by kind of operation.
    pub actions: Vec<ActionTimes>,
    /// The parts of these times: "wait" is the time until the message with a record was posted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<ActionTimes>,
    /// The number of READs of the peer's memory (index); 0 in files of workloads without READs.
    #[serde(default)]
    pub reads_per_call: f64,
    /// The number of messages in both directions.
    pub messages_per_call: f64,
    /// The number of bytes of all that crossed the fabric, with the headers of the calls.
    pub bytes_per_call: f64,
    /// The processor time of the client's measuring threads in ns, polling included.
    pub client_cpu_ns: f64,
    /// The processor time of a server's measuring threads in ns, polling included; 0: not enough
    /// calls.
    pub server_cpu_ns: f64,
    /// The number of servers at which each operation is done (log, 2pc: all of them);
    /// `server_cpu_ns` and `server_process_cpu_ns` are those of one server.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub servers_per_call: usize,
    /// The processor time of the client's whole process in ns, threads of the fabric included.
    #[serde(default)]
    pub client_process_cpu_ns: f64,
    /// The same of a server's whole process.
    #[serde(default)]
    pub server_process_cpu_ns: f64,
    /// The processor time of the client's measuring threads for 10^9 bytes of files, in s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_s_per_gb: Option<f64>,
    /// The same of the server's measuring threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server_cpu_s_per_gb: Option<f64>,
}

/// The times of one kind of operation.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ActionTimes {
    /// The kind of operation: "get", "put", "record", "lookup", "commit", "abort".
    pub name: String,
    /// The number of operations that ended within the window.
    pub calls: u64,
    /// The number of operations that were due and not done at the end of the window (open loop).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unended: u64,
    /// The times of both: an operation that was not done counts with its age at the end.
    pub distribution: Distribution,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_zero(count: &u64) -> bool {
    *count == 0
}

const fn one() -> usize {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for a reference")]
const fn is_one(count: &usize) -> bool {
    *count == 1
}

impl Work {
    /// Returns the processor time of the measuring threads of all nodes for an operation, in ns.
    pub fn cpu_ns(&self) -> f64 {
        self.client_cpu_ns + self.servers_per_call as f64 * self.server_cpu_ns
    }

    /// Returns the processor time of whole processes for an operation in ns; `None` if that of a
    /// side is not known.
    pub fn process_cpu_ns(&self) -> Option<f64> {
        let (client, server) = (self.client_process_cpu_ns, self.server_process_cpu_ns);
        let is_known = client > 0.0 && server > 0.0;
        is_known.then_some(client + self.servers_per_call as f64 * server)
    }

    /// Returns the times of one kind of operation.
    pub fn times(&self, action: &str) -> Option<&Distribution> {
        find(&self.actions, action)
    }

    /// Returns the times of one part of the operations.
    pub fn part(&self, part: &str) -> Option<&Distribution> {
        find(&self.parts, part)
    }
}

fn find<'a>(times: &'a [ActionTimes], name: &str) -> Option<&'a Distribution> {
    times.iter().find(|own| own.name == name).map(|own| &own.distribution)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_server_of_a_call_costs_processor_time() {
        let words = r#"{"calls":2,"seconds":1.0,"mcalls_per_s":2.0,"messages_per_call":2.0,
            "bytes_per_call":88.0,"client_cpu_ns":100.0,"server_cpu_ns":30.0,"actions":[]}"#;
        let mut work: Work = serde_json::from_str(words).expect("an older record");
        assert_eq!((work.servers_per_call, work.cpu_ns(), work.process_cpu_ns()), (1, 130.0, None));
        work.servers_per_call = 3;
        (work.client_process_cpu_ns, work.server_process_cpu_ns) = (200.0, 50.0);
        let text = serde_json::to_string(&work).expect("JSON");
        let again: Work = serde_json::from_str(&text).expect("a record");
        assert_eq!((again.cpu_ns(), again.process_cpu_ns()), (190.0, Some(350.0)));
    }
}
