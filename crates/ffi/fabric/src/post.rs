//! Options and outcome of posting an operation.

use fabric_sys as sys;

/// Outcome of posting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Post {
    /// The operation is in flight (or, for inject, done).
    Done,
    /// The provider is full or not connected yet: call
    /// [`Endpoint::poll`](crate::Endpoint::poll), then try again.
    Again,
}

/// Options of a message or a write: what it brings along or asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PostOptions {
    /// Immediate data for the receiver's completion.
    pub data: Option<u64>,
    /// Whether it completes only when the bytes are in the peer's memory.
    pub delivery_complete: bool,
    /// Whether more is posted at once: the provider may wait for it.
    pub more: bool,
    /// Whether no completion follows. Nothing then says when the bytes have left, so the slot must
    /// be frozen ([`Endpoint::freeze`](crate::Endpoint::freeze)). It is for endpoints with
    /// [`Features::QUIET`](crate::Features::QUIET).
    pub quiet: bool,
}

impl PostOptions {
    pub(crate) const fn flags(self) -> u64 {
        let mut flags = if self.quiet { 0 } else { sys::FI_COMPLETION };
        if self.data.is_some() {
            flags |= sys::FI_REMOTE_CQ_DATA;
        }
        if self.delivery_complete {
            flags |= sys::FI_DELIVERY_COMPLETE;
        }
        if self.more {
            flags |= sys::FI_MORE;
        }
        flags
    }
}
