//! What is to be measured: sent from the client to the server.

use serde::{Deserialize, Serialize};

use crate::fabric_name::FabricName;

/// The benchmarks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Benchmark {
    /// Ping-pong; half a round trip.
    Latency,
    /// Sliding window in one direction; goodput counted at the receiver.
    Bandwidth,
}

impl Benchmark {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::Bandwidth => "bandwidth",
        }
    }
}

/// Kind of endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum EndpointKind {
    /// Reliable datagrams.
    Rdm,
    /// Unreliable datagrams; losses are counted.
    Dgram,
}

/// How messages are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Operation {
    /// `fi_send` / `fi_recv`.
    Send,
    /// `fi_tsend` / `fi_trecv`.
    Tagged,
    /// `fi_inject`: copied by the call, no completion.
    Inject,
}

impl Operation {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Tagged => "tagged",
            Self::Inject => "inject",
        }
    }
}

/// One session: an endpoint pair and what it is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JobSpec {
    pub(crate) benchmark: Benchmark,
    pub(crate) fabric: FabricName,
    pub(crate) domain: Option<String>,
    pub(crate) endpoint: EndpointKind,
    pub(crate) operation: Operation,
    /// Longest message of the session in bytes.
    pub(crate) max_size_bytes: usize,
    /// Measuring threads of each side.
    pub(crate) threads: usize,
    /// Endpoint pairs of each thread.
    pub(crate) endpoints: usize,
    /// Sends that may be in flight at the client, for each endpoint.
    pub(crate) tx_depth: usize,
    /// Receives posted at the server, for each endpoint.
    pub(crate) rx_depth: usize,
    /// Give up after this long without any progress.
    pub(crate) timeout_ms: u64,
    /// Processors of the server's measuring threads, in turn; empty: wherever they run.
    pub(crate) server_cpus: Vec<usize>,
}

/// When a point is finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    DurationMs(u64),
    Iterations(u64),
}

/// One measurement within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PointSpec {
    pub(crate) size_bytes: usize,
    pub(crate) depth: usize,
    pub(crate) limit: Limit,
    pub(crate) warmup_ms: u64,
    pub(crate) validate: bool,
}

impl PointSpec {
    /// Warm-up of a point that counts iterations instead of time: a tenth, at least 100.
    pub(crate) const fn warmup_iterations(&self) -> u64 {
        match self.limit {
            Limit::DurationMs(_) => 0,
            Limit::Iterations(n) => {
                let tenth = n / 10;
                if tenth < 100 { 100 } else { tenth }
            }
        }
    }
}

/// Parses "64", "1,2,1000", "1..8192" (powers of two within) and mixtures.
pub(crate) fn parse_list(text: &str) -> Result<Vec<usize>, String> {
    let number = |t: &str| {
        t.trim().parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| {
            format!("`{t}` is not a number above 0: write 64, 1,2,1000 or 1..8192 (powers of two)")
        })
    };
    let mut values = Vec::new();
    for part in text.split(',') {
        let Some((from, to)) = part.split_once("..") else {
            values.push(number(part)?);
            continue;
        };
        let (from, to) = (number(from)?, number(to)?);
        if from > to {
            return Err(format!("`{part}` runs backwards"));
        }
        let mut value = from.next_power_of_two();
        while value <= to {
            values.push(value);
            let Some(next) = value.checked_mul(2) else { break };
            value = next;
        }
    }
    values.sort_unstable();
    values.dedup();
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_numbers_and_ranges_of_powers_of_two() {
        assert_eq!(parse_list("64"), Ok(vec![64]));
        assert_eq!(parse_list("1..16"), Ok(vec![1, 2, 4, 8, 16]));
        assert_eq!(parse_list("3..9,1000,1"), Ok(vec![1, 4, 8, 1000]));
        for bad in ["", "0", "a", "4..1", "1..", "-1", "1..99999999999999999999999"] {
            assert!(parse_list(bad).is_err(), "{bad}");
        }
        let top = usize::MAX.to_string();
        assert_eq!(parse_list(&format!("1..{top}")).map(|v| v.len()), Ok(64));
    }
}
