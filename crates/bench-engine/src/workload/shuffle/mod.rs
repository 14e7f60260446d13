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
//! Node p owns partition p. Thread t of a node talks to thread t of the others only, as if each thread were a
//! shuffle of its own, so that no lock is measured. A tuple whose buffer can neither be filled nor
//! sent holds up its thread, as it does a query's operator; what comes is taken all the same.

mod clock;
mod flow;
mod incoming;
mod node;
mod outgoing;
mod partition;
mod source;
mod word;

pub(super) use self::node::take_part;

use self::word::WORD_BYTES;
use super::message::HEADER_BYTES;

/// Words to each node (credits, ends) that may be on their way: credits are given for a quarter of the
/// depth at once, or for each buffer where that is less than one.
const WORDS: usize = 16;

/// Messages to each node that may be on their way, with so many buffers of tuples.
pub(super) const fn sends(depth: usize) -> usize {
    // The end of a send may be known later than the credit that it brought.
    depth.saturating_mul(2).saturating_add(WORDS)
}

/// Receives that are posted for each node.
pub(super) const fn receives(depth: usize) -> usize {
    depth.saturating_add(WORDS)
}

/// Longest message with buffers of so many bytes.
pub(super) fn message_bytes(buffer_bytes: usize) -> usize {
    HEADER_BYTES + buffer_bytes.max(WORD_BYTES)
}

/// Buffers after which their sender is told that they were taken.
fn credit_step(depth: usize) -> u64 {
    (depth / 4).max(1) as u64
}
