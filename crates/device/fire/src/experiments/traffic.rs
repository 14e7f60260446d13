//! Flows between hosts, and the check that each message arrived once.

use std::time::Duration;

use anyhow::Result;
use serde_json::Value;

use crate::args::Transport;
use crate::network::{Network, Shape, host_addr, host_name};
use crate::process::{Location, Peer, Role, STEP_LIMIT};

/// Pairs of hosts, each with one queue pair or one connection.
const PAIRS: usize = 4;

/// One sender and one receiver.
pub(super) struct Flow {
    pub(super) source: Peer,
    pub(super) sink: Peer,
}

/// The reports of both ends.
pub(super) struct Outcome {
    pub(super) source: Value,
    pub(super) sink: Value,
}

impl Flow {
    /// Starts both ends; nothing is sent yet.
    ///
    /// # Errors
    /// An end does not start.
    pub(super) fn start(from: Location<'_>, to: Location<'_>, role: &Role) -> Result<Self> {
        let mut sink = Peer::start(to, role)?;
        let mut source = Peer::start(from, role)?;
        source.connect_to(&sink)?;
        sink.connect_to(&source)?;
        Ok(Self { source, sink })
    }

    /// Starts a flow from each host of leaf 1 to its counterpart at leaf 0, with as many operations
    /// under way as the network holds; nothing is sent yet.
    ///
    /// # Errors
    /// An end does not start.
    pub(super) fn start_across(
        network: &Network,
        shape: Shape,
        transport: Transport,
    ) -> Result<Vec<Self>> {
        let depth = if transport == Transport::Tcp { 1 } else { shape.packets_under_way() };
        let start = |pair| {
            let (from, to) = (host_name(1, pair), host_name(0, pair));
            let role = Role { transport, depth, source: pair as u32, ..Role::default() };
            Self::start(
                Location::Host(network, &from, &host_addr(1, pair)),
                Location::Host(network, &to, &host_addr(0, pair)),
                &role,
            )
        };
        (0..PAIRS).map(start).collect()
    }

    /// Lets the sender finish what is under way and ends both.
    ///
    /// # Errors
    /// An end is gone or does not end.
    pub(super) fn finish(&mut self) -> Result<Outcome> {
        self.source.send_command("stop")?;
        self.source.wait_for("ended", STEP_LIMIT)?;
        // The receiver may still be handling what has been acknowledged.
        std::thread::sleep(Duration::from_millis(50));
        Ok(Outcome { source: self.source.quit()?, sink: self.sink.quit()? })
    }
}

impl Outcome {
    /// Describes what is wrong: a status other than 0, a message lost, duplicated or damaged.
    pub(super) fn failure(&self, source: u32) -> Option<String> {
        let mut failures =
            faults(&self.source).into_iter().chain(faults(&self.sink)).collect::<Vec<_>>();
        let sent = number(&self.source["begun"]);
        let taken = number(&self.sink["sources"][source.to_string()]["taken"]);
        if !self.sink["sources"].is_null() {
            failures.extend(losses(sent, taken));
        }
        (!failures.is_empty()).then(|| failures.join("; "))
    }

    /// Returns the messages, or with TCP the bytes, that arrived.
    pub(super) fn taken(&self) -> u64 {
        let sources = self.sink["sources"].as_object();
        sources.map_or_else(
            || number(&self.sink["done"]),
            |sources| sources.values().map(|source| number(&source["taken"])).sum(),
        )
    }

    /// Returns the number of retransmitted datagrams.
    pub(super) fn repeated(&self) -> u64 {
        number(&self.source["repeated"])
    }

    /// Returns the bytes by millisecond of the machine's clock.
    pub(super) fn series(&self) -> (u64, Vec<u64>) {
        let bytes = self.sink["series"]["bytes"].as_array();
        let bytes = bytes.map(|bytes| bytes.iter().map(number).collect());
        (number(&self.sink["series"]["start_ms"]), bytes.unwrap_or_default())
    }
}

/// Lists what no report may contain.
pub(super) fn faults(report: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if report["statuses"].as_object().is_some_and(|statuses| !statuses.is_empty()) {
        faults.push(format!("operations ended with {} (status: how many)", report["statuses"]));
    }
    faults.extend(damage(report));
    faults
}

/// Lists what no report may contain even if a peer died.
pub(super) fn damage(report: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    if number(&report["duplicates"]) > 0 {
        faults.push(format!("{} messages arrived twice", report["duplicates"]));
    }
    if number(&report["wrongs"]) > 0 {
        faults.push(format!("{} wrong contents: {}", report["wrongs"], report["wrong"]));
    }
    if report["left_open"].as_object().is_some_and(|open| !open.is_empty()) {
        faults.push(format!("descriptors left open: {}", report["left_open"]));
    }
    faults
}

/// Describes a difference between the messages sent and taken.
pub(super) fn losses(sent: u64, taken: u64) -> Option<String> {
    match (sent, taken) {
        (0, 0) => Some("nothing was sent".to_owned()),
        _ => (sent != taken).then(|| format!("{sent} messages were sent and {taken} taken")),
    }
}

pub(super) fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

/// Adds up several series over `len` milliseconds from `start_ms` on.
pub(super) fn sum_series(all: &[(u64, Vec<u64>)], start_ms: u64, len: usize) -> Vec<u64> {
    let mut sum = vec![0; len];
    for (begin_ms, bytes) in all {
        for (at, bytes) in (*begin_ms..).zip(bytes) {
            let place = at.checked_sub(start_ms).and_then(|place| usize::try_from(place).ok());
            if let Some(place) = place.and_then(|place| sum.get_mut(place)) {
                *place += bytes;
            }
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_added_by_the_clock() {
        let all = [(10, vec![1, 2, 3]), (8, vec![5, 5, 5, 5])];
        assert_eq!(sum_series(&all, 9, 4), [5, 6, 7, 3]);
    }

    #[test]
    fn what_is_wrong_is_found() {
        let outcome = |source: &str, sink: &str| Outcome {
            source: serde_json::from_str(source).expect("JSON"),
            sink: serde_json::from_str(sink).expect("JSON"),
        };
        let sink = r#"{"sources": {"1": {"taken": 5}}, "duplicates": 0}"#;
        assert_eq!(outcome(r#"{"begun": 5, "statuses": {}}"#, sink).failure(1), None);
        assert!(outcome(r#"{"begun": 6, "statuses": {}}"#, sink).failure(1).is_some());
        assert!(outcome(r#"{"begun": 5, "statuses": {"9": 1}}"#, sink).failure(1).is_some());
        let twice = r#"{"sources": {"1": {"taken": 5}}, "duplicates": 1}"#;
        assert!(outcome(r#"{"begun": 5}"#, twice).failure(1).is_some());
    }

    /// Two ends that sent nothing must not pass.
    #[test]
    fn nothing_sent_proves_nothing() {
        assert_eq!(losses(5, 5), None);
        assert_eq!(losses(5, 4).as_deref(), Some("5 messages were sent and 4 taken"));
        assert_eq!(losses(0, 0).as_deref(), Some("nothing was sent"));
    }
}
