//! Work requests.

use crate::WrId;
use crate::wire::Feth;

/// Longest message in bytes.
pub const MESSAGE_MAX_BYTES: u32 = 1 << 31;

/// A work request. The host keeps its bytes until it completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendRequest {
    /// The host's id for it, returned in [`Transmit`](crate::Transmit) and
    /// [`Event::Completed`](crate::Event::Completed). It must be unique among requests that have
    /// not ended.
    pub id: WrId,
    /// The operation to do.
    pub op: Operation,
    /// Bytes of the message; 8 for atomics and ATOMIC WRITEs.
    pub len: u32,
    /// Begins only when all earlier READs and atomics have been answered.
    pub is_fenced: bool,
    /// Wakes the receiver's program when it waits for such messages.
    pub is_solicited: bool,
    /// The peer's shared receive queue; of XRC only.
    pub srq: u32,
}

impl SendRequest {
    /// Creates a request without flags.
    #[must_use]
    pub const fn new(id: WrId, op: Operation, len: u32) -> Self {
        Self { id, op, len, is_fenced: false, is_solicited: false, srq: 0 }
    }
}

/// Memory of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Remote {
    /// Virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
}

/// The operation of a work request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A message for a receive.
    Send,
    /// A message for a receive, with immediate data.
    SendImm(u32),
    /// A message for a receive that invalidates a key of the peer.
    SendInvalidate(u32),
    /// Writes to the peer's memory.
    Write(Remote),
    /// Writes to the peer's memory, and completes a receive with immediate data.
    WriteImm(Remote, u32),
    /// Reads from the peer's memory.
    Read(Remote),
    /// Swaps 8 bytes of the peer's memory when they are what is expected.
    CompareSwap {
        /// The peer's memory.
        remote: Remote,
        /// The value that is expected.
        compare: u64,
        /// The value that is swapped in.
        swap: u64,
    },
    /// Adds to 8 bytes of the peer's memory.
    FetchAdd {
        /// The peer's memory.
        remote: Remote,
        /// The value that is added.
        add: u64,
    },
    /// Makes `len` bytes of the peer's memory visible or persistent; none are sent.
    Flush(Remote, Feth),
    /// Writes 8 bytes of the peer's memory at once.
    AtomicWrite(Remote),
    /// An operation without the peer: the host performs it when its turn has come, as
    /// [`Event::Execute`](crate::Event::Execute) says (a key invalidated, a window bound).
    Local,
}

impl Operation {
    /// Returns whether it is answered by more than an acknowledgement.
    pub(crate) const fn is_answered(self) -> bool {
        matches!(self, Self::Read(_) | Self::CompareSwap { .. } | Self::FetchAdd { .. })
            || matches!(self, Self::Flush(..) | Self::AtomicWrite(_))
    }

    /// Returns whether unreliable connections have it.
    pub(crate) const fn is_unreliable(self) -> bool {
        matches!(self, Self::Send | Self::SendImm(_) | Self::Write(_) | Self::WriteImm(..))
            || matches!(self, Self::Local)
    }

    /// Returns whether a message may have that length.
    pub(crate) const fn allows_len(self, len: u32) -> bool {
        match self {
            Self::CompareSwap { .. } | Self::FetchAdd { .. } | Self::AtomicWrite(_) => len == 8,
            Self::Local => len == 0,
            _ => len <= MESSAGE_MAX_BYTES,
        }
    }
}
