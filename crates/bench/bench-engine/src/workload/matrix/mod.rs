//! Measurement of every node with each other one, a pair at a time, while all others are quiet.
//!
//! ```text
//! client        lead(1) ... ──► "lead, with 2" to node 1 ◄── figures ──► ... ──► "end" to all
//! node 1                        round trips, a stream ──► node 2, which answers
//! ```
//!
//! All messages go over the endpoints that are measured. A node that has nothing to do naps, so
//! that it does not take a processor from a pair on its machine.

mod node;
mod turn;
mod word;

use bench_record as record;
use bench_record::NodePair;

use self::node::{Event, Node};
use self::turn::out_of_turn;
use self::word::{FIGURES_BYTES, Kind, WORD_BYTES, Word};
use crate::bench::{rma, stream};
use crate::workload::prelude::*;

/// A lane of the workload, which is one node.
pub(super) struct Matrix {
    rank: usize,
}

impl Workload for Matrix {
    const LEAST_BYTES: usize = WORD_BYTES;

    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        (job.tx_depth, job.rx_depth)
    }

    fn message_bytes(_job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        size_bytes.max(FIGURES_BYTES)
    }

    fn refusal(_size_bytes: usize, _parameter: usize, rx_depth: usize) -> Option<String> {
        (rx_depth == 0).then(|| "nodes have no receives".to_owned())
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self { rank: task.job.node })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        let port = part.port;
        let mut node = Node::new(part, self.rank);
        if self.rank == 0 {
            return node.all_turns().map(Measured::Pairs);
        }
        loop {
            match node.serve(None)? {
                Event::Lead(to) => {
                    let found = node.lead(to)?;
                    node.report(&found)?;
                }
                Event::End => return rma::serve(node.links, port),
                other => return Err(out_of_turn(&other)),
            }
        }
    }

    /// Waits until all turns are over.
    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        let pairs = session.slow_results()?.into_iter().find_map(|measured| match measured {
            Measured::Pairs(pairs) => Some(pairs),
            _ => None,
        });
        let pairs = pairs.ok_or_else(|| Failure::Check("no pair was measured".to_owned()))?;
        session.counts(vec![0])?;
        let nodes = session.node_names();
        let matrix = record::Matrix { nodes, pairs };
        Ok(Point {
            // A cluster is as fast as its slowest pairs.
            latency: matrix.slowest().map(|pair| pair.latency),
            bandwidth: matrix.narrowest().map(|pair| pair.bandwidth),
            matrix: Some(matrix),
            ..session.new_point(point)
        })
    }
}

impl<B: Backend> Node<'_, B> {
    /// Lets one pair after the other have its turn; for the client.
    fn all_turns(&mut self) -> Result<Vec<NodePair>, Failure> {
        let nodes = self.links.len() + 1;
        let mut pairs = Vec::with_capacity(nodes * (nodes - 1));
        for from in 0..nodes {
            for to in (0..nodes).filter(|to| *to != from) {
                let found = if from == 0 { self.lead(to)? } else { self.delegate(from, to)? };
                let bandwidth = found.bandwidth(self.point.size_bytes);
                pairs.push(NodePair { from, to, latency: found.latency, bandwidth });
            }
        }
        for endpoint in 0..self.links.len() {
            self.say(endpoint, Word { kind: Kind::End, number: 0 }, WORD_BYTES)?;
        }
        stream::finish(self.links, &self.port.signals)?;
        Ok(pairs)
    }

    /// Lets a node have its turn with another one, which may be this one, and answers meanwhile.
    /// Returns the figures.
    fn delegate(&mut self, from: usize, to: usize) -> Result<turn::Found, Failure> {
        self.say(self.endpoint(from), Word { kind: Kind::Lead, number: to as u64 }, WORD_BYTES)?;
        loop {
            match self.serve(Some(self.port.signals.timeout()))? {
                Event::Figures(node, found) if node == from => return Ok(*found),
                Event::GoesOn => {}
                other => return Err(out_of_turn(&other)),
            }
        }
    }
}
