//! Operations of all ranks: allgather, allreduce, barrier and bcast between the nodes of a session, by
//! the textbook's algorithms. Each node is a rank and has an endpoint to every other one.
//!
//! ```text
//! rounds: how many operations, when, how long, whether the result is right
//!   operation: one of them, by an algorithm
//!     ring · doubling · tree · barrier
//!       mesh: whole transfers between two ranks, cut into messages that may come in any order
//! ```

mod barrier;
mod contents;
mod doubling;
mod mesh;
mod ring;
mod rounds;
mod tree;

use bench_record::workload::{CollectiveSpec, Pattern};

pub(super) use self::rounds::take_part;

use self::mesh::PART_HEADER_BYTES;

/// Messages of ours to each rank that may be on their way.
pub(super) const SENDS: usize = 64;
/// Receives posted for each rank beside those of its data.
const RECEIVES: usize = 128;
/// More of them help nobody.
const RECEIVES_MAX: usize = 1024;

/// Receives that are posted for each rank: for all that it may send before it has to wait.
pub(super) fn receives(spec: CollectiveSpec, ranks: usize, bytes: usize, part: usize) -> usize {
    let blocks = if spec.pattern == Pattern::Allgather { ranks } else { 1 };
    let parts = bytes.div_ceil(part.max(1)).saturating_mul(blocks);
    parts.saturating_add(ranks + RECEIVES).min(RECEIVES_MAX)
}

/// Times of a round are sent in parts of so many bytes at least.
const PART_LEAST_BYTES: usize = 512;

/// Longest message of operations with so many bytes of each rank.
pub(super) fn message_bytes(bytes: usize, part_bytes: usize) -> usize {
    PART_HEADER_BYTES + longest_part(bytes, part_bytes)
}

/// Bytes of a part at most. No integer is cut.
fn longest_part(bytes: usize, part_bytes: usize) -> usize {
    (part_bytes.min(bytes.max(PART_LEAST_BYTES)) & !7).max(8)
}
