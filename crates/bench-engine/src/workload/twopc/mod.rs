//! Two-phase commit: a coordinator asks participants to prepare, decides by their votes, and tells
//! them.
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

pub(super) use self::coordinator::coordinate;
pub(super) use self::participant::take_part;
pub(super) use self::rows::Rows;

use super::message::HEADER_BYTES;

/// After the header of a prepare: the number of the row.
const ROW_BYTES: usize = 8;

/// Longest message with records of `record_bytes`.
pub(super) const fn message_bytes(record_bytes: usize) -> usize {
    (HEADER_BYTES + ROW_BYTES).saturating_add(record_bytes)
}
