//! Shuffle: every node makes tuples, and each tuple goes to the node that owns its key's partition,
//! together with others of that partition in a buffer that leaves when it is full.
//!
//! ```text
//! node: one thread's part, from the first tuple to the last that comes
//!   clock: warm-up, window, what counts
//!   source: draws keys, writes tuples
//!   flow: the way to one other node and back
//!     outgoing: fills a buffer, sends it when there is credit for it
//!     incoming: takes buffers, gives credit back
//!       partition: whose tuple it is, and the sum that tells that all have come
//!     word: credits and ends
//! ```
//!
//! Node p owns partition p. Thread t of a node talks only to thread t of the other nodes, as if
//! each thread were a separate shuffle, so that no lock is measured. A tuple whose buffer can
//! neither be filled nor sent holds up its thread, as it holds up a query's operator; the thread
//! still takes the buffers that come.

mod clock;
mod flow;
mod incoming;
mod node;
mod outgoing;
mod partition;
mod point;
mod source;
mod word;

use bench_record::workload::TUPLE_BYTES_MIN;

use self::word::WORD_BYTES;
use super::demand::Demand;
use super::message::HEADER_BYTES;
use crate::workload::prelude::*;

/// The number of short messages to each node (credits, ends) that may be on their way: credits are
/// given for a quarter of the depth at once, or for each buffer if the depth is less than four.
const WORDS: usize = 16;

/// A lane of the workload; all nodes do the same.
pub(super) struct Shuffle {
    node: usize,
    demand: Demand,
}

impl Workload for Shuffle {
    const LEAST_BYTES: usize = TUPLE_BYTES_MIN;

    /// Returns the depths for each node, with buffers of tuples and short messages.
    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        // The end of a send may be known later than the credit that it brought.
        let sends = job.tx_depth.saturating_mul(2).saturating_add(WORDS);
        (sends, job.tx_depth.max(job.rx_depth).saturating_add(WORDS))
    }

    fn message_bytes(_job: &JobSpec, _size_bytes: usize, buffer_bytes: usize) -> usize {
        buffer_bytes.max(WORD_BYTES).saturating_add(HEADER_BYTES)
    }

    fn refusal(size_bytes: usize, buffer_bytes: usize, _rx_depth: usize) -> Option<String> {
        (size_bytes > buffer_bytes)
            .then(|| format!("a tuple of {size_bytes} B is more than a buffer of {buffer_bytes} B"))
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        Ok(Self { node: task.job.node, demand: Demand::new(task) })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        node::take_part(part, self)
    }

    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        point::conclude(session, point)
    }
}

/// Returns the number of buffers after which their sender is told that they were taken.
fn credit_step(depth: usize) -> u64 {
    (depth / 4).max(1) as u64
}
