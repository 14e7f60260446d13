//! Work requests of the send queue, as a program posts them.

use crate::ah::Ah;
use crate::mr::{MwBind, Sge};

/// Memory of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// The virtual address in the peer's process.
    pub addr: u64,
    /// The [`crate::Mr::rkey`] of the region that holds the memory.
    pub rkey: u32,
}

/// The extent of a FLUSH: what it asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushExtent {
    /// Number of bytes from the address on, unless it is the whole region.
    pub len: u32,
    /// The bytes written must be visible to everyone there.
    pub is_global: bool,
    /// The bytes written must survive a loss of power. No region of ours grants that.
    pub is_persistent: bool,
    /// The extent is the whole region that has the key, whatever the address is.
    pub is_whole_region: bool,
}

/// The operation of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOp {
    /// A message.
    Send,
    /// A message with 32 bits of immediate data.
    SendImm(u32),
    /// A message that invalidates a key of the peer. RC and XRC only, as are others with that note.
    SendInvalidate(u32),
    /// Copies remote memory into the local entries, of which an EFA takes one. SRD, RC and XRC.
    Read(Remote),
    /// Copies the local entries, of which an EFA takes one, to remote memory. SRD, RC, XRC and UC.
    Write(Remote),
    /// Writes as [`SendOp::Write`] does, then completes a receive there with 32 bits of immediate
    /// data.
    WriteImm(Remote, u32),
    /// Stores the 8 bytes of the local entries in remote memory, at a multiple of 8, in one step.
    /// RC and XRC only.
    AtomicWrite(Remote),
    /// Asks that bytes written to remote memory become visible to everyone there, or survive a loss
    /// of power. It has no local bytes. RC and XRC only.
    Flush(Remote, FlushExtent),
    /// Stores `swap` in 8 bytes of remote memory if they are equal to `compare`. The local entry
    /// gets their previous value. RC and XRC only.
    CompareSwap {
        /// The peer's memory, at a multiple of 8.
        remote: Remote,
        /// The value that is expected.
        compare: u64,
        /// The value that is swapped in.
        swap: u64,
    },
    /// Adds to 8 bytes of remote memory. The local entry gets their previous value. RC and XRC
    /// only.
    FetchAdd {
        /// The peer's memory, at a multiple of 8.
        remote: Remote,
        /// The value that is added.
        add: u64,
    },
    /// Invalidates a key of this side, in order with other work requests. RC, XRC and UC.
    LocalInvalidate(u32),
    /// Gives peers access to a memory window, or takes it away, in order with other work requests.
    /// RC and UC.
    BindWindow(MwBind),
}

impl SendOp {
    /// Returns true if this side does the operation by itself: it has no bytes, and nothing is
    /// sent.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::LocalInvalidate(_) | Self::BindWindow(_))
    }

    /// Returns true if the operation names memory of a peer.
    #[must_use]
    pub const fn is_rdma(self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_) | Self::WriteImm(..) | Self::AtomicWrite(_))
            || matches!(self, Self::Flush(..))
            || self.is_atomic()
    }

    /// Returns true if the operation is an atomic that fetches the previous value.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }
}

/// The place of a send's payload.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// The payload is in registered memory, which must stay unchanged until the completion.
    Sges(&'a [Sge]),
    /// The payload is given here, and copied before the call returns.
    Inline(&'a [&'a [u8]]),
}

impl SendData<'_> {
    /// Returns the number of bytes of all entries, at most `u32::MAX`.
    pub(crate) fn len_bytes(&self) -> u32 {
        match self {
            Self::Sges(sges) => sges.iter().fold(0, |sum: u32, sge| sum.saturating_add(sge.len)),
            Self::Inline(parts) => {
                let len = parts.iter().map(|part| part.len()).sum::<usize>();
                u32::try_from(len).unwrap_or(u32::MAX)
            }
        }
    }
}

/// The destination of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// The address handle of the remote device.
    pub ah: &'a Ah,
    /// The number of the remote queue pair: 16 bits of an EFA's, 24 bits of a RoCE device's.
    pub qpn: u32,
    /// Queue key of the remote queue pair.
    pub qkey: u32,
}

/// A send work request.
#[derive(Debug, Clone, Copy)]
pub struct SendWr<'a> {
    /// The number that comes back in the completion.
    pub wr_id: u64,
    /// The operation.
    pub op: SendOp,
    /// The payload.
    pub data: SendData<'a>,
    /// Asks for a completion. Without it only a failure completes. A strict EFA refuses such sends,
    /// as hardware does; perftest's UD bandwidth test posts them.
    pub signaled: bool,
    /// The destination, on a queue pair of datagrams; `None` on a connected one.
    pub target: Option<Target<'a>>,
    /// The number of the peer's shared receive queue, 24 bits; XRC only.
    pub remote_srq: u32,
    /// Begins only when all READs and atomics before it have been answered. RC and XRC only.
    pub fenced: bool,
    /// Wakes the receiver's program if it waits for solicited messages only. Not on an EFA.
    pub solicited: bool,
    /// Another send follows at once, so that transmission waits for it.
    pub more: bool,
}
