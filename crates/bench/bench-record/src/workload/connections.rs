//! Connections that are opened, used once and closed.

use serde::{Deserialize, Serialize};

pub(super) use super::NoArgs as Args;
use super::about::{About, Figures, SLEEPS};
use crate::names::Preset;
use crate::spec::{Arrivals, Benchmark};
use crate::work::ActionTimes;

const CONNECTIONS: Preset = Preset {
    aliases: &["connection_rate", "connection-rate"],
    // This is the size of the first message over each connection.
    sizes: "1",
    ignores: &["sizes"],
    ..Preset::of(
        Benchmark::Connections,
        "connections",
        "Endpoints that are opened, connected, used for a round trip and closed, one after the other",
    )
};

pub(super) const ABOUT: About = About {
    name: CONNECTIONS.name,
    names: &[CONNECTIONS],
    figures: Figures::Connections,
    reads: &[&["threads", "rate", "arrivals", "iterations", "watch"], SLEEPS],
    ..About::CALLS
};

/// The figures of connections that were made one after the other by each thread.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Connections {
    /// The number of connections of all threads that were made within the window.
    pub count: u64,
    /// The number of these connections in a second.
    pub per_s: f64,
    /// The times of "open", "connect", "first message" and "close".
    pub parts: Vec<ActionTimes>,
    /// The processor time of the client's process for each connection, threads of the fabric
    /// included, in µs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cpu_us: Option<f64>,
    /// The distribution by which connections followed each other (open loop); absent: closed loop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrivals: Option<Arrivals>,
    /// The delay of the next connection at the end of the window (open loop).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind_ms: Option<f64>,
}
