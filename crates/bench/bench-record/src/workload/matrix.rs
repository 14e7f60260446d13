//! Measurement of every node with each other one, a pair at a time.

use serde::{Deserialize, Serialize};

pub(super) use super::NoArgs as Args;
use super::{About, Figures};
use crate::figures::{Bandwidth, Latency};
use crate::names::{Preset, STREAM_DEPTH};
use crate::spec::Benchmark;
use crate::topology::Topology;

pub(super) const ABOUT: About = About {
    name: "matrix",
    names: &[Preset {
        sizes: "64,8K",
        depth: STREAM_DEPTH,
        nodes: 3,
        ..Preset::of(
            Benchmark::Matrix,
            "matrix",
            "Round trips and streams from every node to each other one, a pair at a time; --duration and \
               --iterations are for each pair",
        )
    }],
    figures: Figures::Matrix,
    topology: Topology::Mesh,
    reads: &[&["depth", "rx_depth", "iterations"]],
    ..About::GROUP
};

/// The figures of each pair of nodes while all others were quiet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    /// The names of the nodes, the client first.
    pub nodes: Vec<String>,
    /// The figures of each two nodes in each direction.
    pub pairs: Vec<NodePair>,
}

/// The figures of a pair of nodes: the first one began the round trips, and sent the stream.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct NodePair {
    pub from: usize,
    pub to: usize,
    pub latency: Latency,
    /// The bandwidth of the stream, from its first message until the peer said that the last one
    /// was there.
    pub bandwidth: Bandwidth,
}

impl NodePair {
    /// Returns the median of half round trips in µs.
    pub fn p50_us(&self) -> f64 {
        self.latency.middle_us()
    }

    pub const fn gbit_per_s(&self) -> f64 {
        self.bandwidth.gbit_per_s
    }
}

impl Matrix {
    pub fn pair(&self, from: usize, to: usize) -> Option<&NodePair> {
        self.pairs.iter().find(|pair| (pair.from, pair.to) == (from, to))
    }

    /// Returns the figure of the pair in the middle; `None` without pairs.
    pub fn median(&self, of: fn(&NodePair) -> f64) -> Option<f64> {
        let mut all: Vec<f64> = self.pairs.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    }

    /// Returns the pair with the longest round trips.
    pub fn slowest(&self) -> Option<&NodePair> {
        self.pairs.iter().max_by(|a, b| a.p50_us().total_cmp(&b.p50_us()))
    }

    /// Returns the pair with the least goodput.
    pub fn narrowest(&self) -> Option<&NodePair> {
        self.pairs.iter().min_by(|a, b| a.gbit_per_s().total_cmp(&b.gbit_per_s()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_pairs_are_found_by_time_and_by_goodput() {
        let pair = |from, to, mean_us, mmsg_per_s| NodePair {
            from,
            to,
            latency: Latency { mean_us, ..Latency::default() },
            bandwidth: Bandwidth::of_rate(mmsg_per_s, 1000),
        };
        let pairs = vec![pair(0, 1, 5.0, 2.0), pair(1, 0, 9.0, 3.0), pair(0, 2, 4.0, 1.0)];
        let matrix = Matrix { nodes: Vec::new(), pairs };
        assert_eq!(matrix.slowest().map(|pair| (pair.from, pair.to)), Some((1, 0)));
        assert_eq!(matrix.narrowest().map(|pair| (pair.from, pair.to)), Some((0, 2)));
        assert_eq!(matrix.median(NodePair::p50_us), Some(5.0));
        assert_eq!(matrix.median(NodePair::gbit_per_s), Some(16.0));
        assert!(matrix.pair(1, 2).is_none());
    }
}
