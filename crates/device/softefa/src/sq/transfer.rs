//! How far an RDMA work request is.

use crate::status::Status;

/// Progress of an RDMA work request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transfer {
    /// Next byte to give to the engine (WRITE).
    pub(crate) next: u32,
    /// Parts of it in the engine.
    pub(crate) in_engine: u32,
    /// Bytes placed (READ).
    pub(crate) placed: u32,
    /// The answer has begun, which for an empty READ is all of it.
    pub(crate) answered: bool,
    /// Bytes placed when liveness was last looked at.
    pub(crate) probed_at: Option<u32>,
    /// The immediate behind a long WRITE is on its way.
    pub(crate) tail_sent: bool,
    /// The bytes are named, not sent.
    pub(crate) is_local: bool,
    /// The reason why it will end with an error.
    pub(crate) failed: Option<Status>,
    /// Tells it from its predecessors in the slot.
    pub(crate) serial: u32,
}

impl Transfer {
    /// Nothing has been done.
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

    /// The bytes of a READ were named, and nobody will send them.
    pub(crate) fn is_copied(&self) -> bool {
        self.is_local && self.answered
    }
}
