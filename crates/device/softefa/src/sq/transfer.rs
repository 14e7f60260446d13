//! The progress of an RDMA work request.

use crate::status::Status;

/// The progress of an RDMA work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// The next byte to pass to the engine (WRITE).
    pub(crate) next: u32,
    /// The number of its parts that are in the engine.
    pub(crate) in_engine: u32,
    /// The number of bytes placed (READ).
    pub(crate) placed: u32,
    /// The answer has begun; for an empty READ it is then complete.
    pub(crate) answered: bool,
    /// The number of bytes placed at the last check for liveness.
    pub(crate) probed_at: Option<u32>,
    /// The immediate of a long WRITE, which follows its bytes, is in flight.
    pub(crate) tail_sent: bool,
    /// The bytes are named to the peer, not sent.
    pub(crate) is_local: bool,
    /// The reason why it will end with an error.
    pub(crate) failed: Option<Status>,
    /// Tells it from its predecessors in the slot.
    pub(crate) serial: u32,
}

impl Transfer {
    /// The state of a transfer that has not begun.
    pub(crate) const NONE: Self = Self {
        next: 0,
        in_engine: 0,
        placed: 0,
        answered: false,
        probed_at: None,
        tail_sent: false,
        is_local: false,
        failed: None,
        serial: 0,
    };

    /// Returns true if the bytes of a READ were named, and will not be sent.
    pub(crate) fn is_copied(&self) -> bool {
        self.is_local && self.answered
    }
}
