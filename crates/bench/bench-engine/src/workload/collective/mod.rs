//! Operations of all ranks between the nodes of a session, by textbook algorithms: allgather,
//! allreduce, alltoall, barrier, bcast, gather and reduce_scatter. Each node is a rank and has an
//! endpoint to every other one.
//!
//! ```text
//! rounds: how many operations, when, how long, whether the result is right
//!   operation: one of them, by an algorithm
//!     ring · doubling · tree · pairs · barrier
//!       mesh: whole transfers between two ranks, cut into messages that may come in any order
//! ```

mod barrier;
mod contents;
mod doubling;
mod mesh;
mod pairs;
mod point;
mod ring;
mod rounds;
mod tree;

use bench_record::workload::CollectiveSpec;

use self::mesh::PART_HEADER_BYTES;
use crate::refusal::Refusal;
use crate::workload::prelude::*;

/// The most messages of this rank to each other rank that may be on their way.
const SENDS: usize = 64;
/// The number of receives posted for each rank beside those of its data.
const RECEIVES: usize = 128;
/// The most receives for each rank; more are no faster.
const RECEIVES_MAX: usize = 1024;

/// A lane of the workload, which is one rank.
pub(super) struct Collective {
    spec: CollectiveSpec,
    rank: usize,
}

impl Workload for Collective {
    // A barrier has no bytes.
    const LEAST_BYTES: usize = 0;
    const SENDS_DEPTH: bool = false;

    fn depths(job: &JobSpec, _side: Side, _thread: usize) -> (usize, usize) {
        let part_bytes = job.work.parameter_max;
        let of = |spec| receives(spec, job.nodes, job.max_size_bytes, part_bytes);
        (SENDS, job.work.collective().map_or(1, of))
    }

    fn message_bytes(_job: &JobSpec, size_bytes: usize, part_bytes: usize) -> usize {
        longest_part(size_bytes, part_bytes).saturating_add(PART_HEADER_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let spec =
            task.job.work.collective().ok_or(Refusal::NotDescribed("operation of all ranks"))?;
        Ok(Self { spec, rank: task.job.node })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        rounds::take_part(part, self)
    }

    fn conclude(session: &mut BenchSession, point: PointSpec) -> Result<Point, Failure> {
        point::conclude(session, point)
    }
}

/// Returns the number of receives that are posted for each rank: enough for all that it may send
/// before it has to wait.
fn receives(spec: CollectiveSpec, ranks: usize, bytes: usize, part: usize) -> usize {
    let blocks = if spec.pattern.is_in_parts() { ranks } else { 1 };
    let parts = bytes.div_ceil(part.max(1)).saturating_mul(blocks);
    parts.saturating_add(ranks + RECEIVES).min(RECEIVES_MAX)
}

/// The least length of the parts in which the times of a round are sent, in bytes.
const PART_LEAST_BYTES: usize = 512;

/// Returns the greatest length of a part in bytes, such that no integer is cut.
fn longest_part(bytes: usize, part_bytes: usize) -> usize {
    (part_bytes.min(bytes.max(PART_LEAST_BYTES)) & !7).max(8)
}
