//! Log shipping: a primary appends records, ships them in groups to replicas, and commits them.
//!
//! ```text
//! client lane = one log                          lane of each server = a replica of it
//!   primary: appends, ships, commits               replica: puts groups in their places, answers
//!     ring: groups that a replica lacks              memory
//! ```
//!
//! The fabric need not keep an order: a group carries the number of its first record, the replica
//! puts the group in its place, and the primary commits groups in the order of their numbers.

mod memory;
mod primary;
mod replica;
mod ring;

use bench_record::workload::LogSpec;

use self::memory::Memory;
use super::message::HEADER_BYTES;
use crate::measure::Random;
use crate::pattern::SEQUENCE_BYTES;
use crate::refusal::Refusal;
use crate::workload::prelude::*;

/// The number of bytes after the header of a group that hold the number of its first record.
const NUMBER_BYTES: usize = 8;

/// A lane of the workload.
pub(super) enum Log {
    /// The primary, which ships records.
    Primary(LogSpec, Random),
    /// A replica, which keeps records.
    Replica(LogSpec, Memory),
}

impl Workload for Log {
    // A record carries its number.
    const LEAST_BYTES: usize = SEQUENCE_BYTES;

    fn message_bytes(job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        job.work.log().map_or(size_bytes, |spec| message_bytes(spec, size_bytes))
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let spec = task.job.work.log().ok_or(Refusal::NotDescribed("log"))?;
        Ok(match task.side {
            Side::Client => Self::Primary(spec, task.random()),
            Side::Server => Self::Replica(spec, Memory::new()?),
        })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self {
            Self::Primary(spec, random) => primary::lead(part, *spec, random),
            Self::Replica(spec, memory) => replica::replicate(part, *spec, memory),
        }
    }
}

/// Returns the length of the longest message with records of `record_bytes`.
const fn message_bytes(spec: LogSpec, record_bytes: usize) -> usize {
    (HEADER_BYTES + NUMBER_BYTES).saturating_add(spec.group.saturating_mul(record_bytes))
}
