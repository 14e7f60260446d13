//! Log shipping: a primary appends records, ships them in groups to replicas, and commits them.
//!
//! ```text
//! client lane = one log                          lane of each server = a replica of it
//!   primary: appends, ships, commits               replica: puts groups in their places, answers
//!     ring: groups that somebody lacks               memory
//! ```
//!
//! The fabric need not keep an order: a group carries the number of its first record, the replica
//! puts it where it belongs, and the primary commits groups in the order of their numbers.

mod memory;
mod primary;
mod replica;
mod ring;

use bench_record::workload::LogSpec;

pub(super) use self::memory::Memory;
pub(super) use self::primary::lead;
pub(super) use self::replica::replicate;

use super::message::HEADER_BYTES;

/// After the header of a group: the number of its first record.
const NUMBER_BYTES: usize = 8;

/// Longest message with records of `record_bytes`.
pub(super) const fn message_bytes(spec: LogSpec, record_bytes: usize) -> usize {
    (HEADER_BYTES + NUMBER_BYTES).saturating_add(spec.group.saturating_mul(record_bytes))
}
