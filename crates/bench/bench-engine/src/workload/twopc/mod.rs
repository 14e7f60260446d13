//! Two-phase commit: a coordinator asks participants to prepare, decides by their votes, and tells
//! them the decision.
//!
//! ```text
//! client lane                                 lane of each server
//!   coordinator: transactions and their         participant: rows, their locks, and what is
//!   votes                                         prepared
//!     prepare (row, record)  ------------------>    lock the row, keep the record
//!     <------------------------------------------ yes, or no: the row is locked
//!     commit, or abort to those that said yes ->    put the record in its row, unlock
//!     <------------------------------------------ ended
//! ```

mod coordinator;
mod participant;
mod rows;

use self::rows::Rows;
use super::demand::{self, Demand};
use super::message::HEADER_BYTES;
use crate::pattern::SEQUENCE_BYTES;
use crate::workload::prelude::*;

/// The number of bytes after the header of a prepare that hold the number of the row.
const ROW_BYTES: usize = 8;

/// A lane of the workload.
pub(super) enum TwoPhase {
    Coordinator(Demand),
    /// A participant with its rows, and whether transactions lock them.
    Participant(Rows, bool),
}

impl Workload for TwoPhase {
    // A record carries the number of its transaction.
    const LEAST_BYTES: usize = SEQUENCE_BYTES;

    fn message_bytes(_job: &JobSpec, size_bytes: usize, _parameter: usize) -> usize {
        message_bytes(size_bytes)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let JobSpec { work, max_size_bytes, .. } = *task.job;
        Ok(match task.side {
            Side::Client => Self::Coordinator(Demand::new(task)),
            Side::Server => {
                Self::Participant(Rows::new(demand::keys(task), max_size_bytes)?, work.locks)
            }
        })
    }

    fn begin<B: Backend>(
        &mut self,
        _links: &mut [Link<B>],
        point: PointSpec,
    ) -> Result<(), Failure> {
        if let Self::Participant(rows, _) = self {
            rows.begin(point.size_bytes);
        }
        Ok(())
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        match self {
            Self::Coordinator(demand) => coordinator::coordinate(part, demand),
            Self::Participant(rows, has_locks) => participant::take_part(part, rows, *has_locks),
        }
    }
}

/// Returns the length of the longest message with records of `record_bytes`.
const fn message_bytes(record_bytes: usize) -> usize {
    (HEADER_BYTES + ROW_BYTES).saturating_add(record_bytes)
}
