//! Work requests of the send queue, as a program posts them.

use crate::ah::Ah;
use crate::mr::{MwBind, Sge};

/// Memory of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address there.
    pub addr: u64,
    /// [`crate::Mr::rkey`] of the region that holds it.
    pub rkey: u32,
}

/// What a FLUSH asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushExtent {
    /// Bytes from the place on, unless it is the whole region.
    pub len: u32,
    /// What was written is to be visible to everyone there.
    pub is_global: bool,
    /// What was written is to survive a loss of power. No region of ours grants that.
    pub is_persistent: bool,
    /// The whole region that has the key, wherever the place is.
    pub is_whole_region: bool,
}

/// Operation of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOp {
    /// A message.
    Send,
    /// A message with 32 bits of immediate data.
    SendImm(u32),
    /// A message that invalidates a key of the peer. RC and XRC only, as what follows with a note.
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
    /// Asks that what was written to remote memory is visible to everyone there, or survives a loss
    /// of power. It has no local bytes. RC and XRC only.
    Flush(Remote, FlushExtent),
    /// Stores `swap` in 8 bytes of remote memory when they are `compare`; the local entry gets what
    /// was there. RC only.
    CompareSwap {
        /// The peer's memory, at a multiple of 8.
        remote: Remote,
        /// The value that is expected.
        compare: u64,
        /// The value that is swapped in.
        swap: u64,
    },
    /// Adds to 8 bytes of remote memory; the local entry gets what was there. RC and XRC only.
    FetchAdd {
        /// The peer's memory, at a multiple of 8.
        remote: Remote,
        /// The value that is added.
        add: u64,
    },
    /// Invalidates a key of this side, in its turn. RC, XRC and UC.
    LocalInvalidate(u32),
    /// Gives a memory window to peers, or takes it away, in its turn. RC and UC.
    BindWindow(MwBind),
}

impl SendOp {
    /// This side does it by itself: it has no bytes, and nothing leaves.
    #[must_use]
    pub const fn is_local(self) -> bool {
        matches!(self, Self::LocalInvalidate(_) | Self::BindWindow(_))
    }

    /// It names memory of a peer.
    #[must_use]
    pub const fn is_rdma(self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_) | Self::WriteImm(..) | Self::AtomicWrite(_))
            || matches!(self, Self::Flush(..))
            || self.is_atomic()
    }

    /// It is an atomic that fetches what was there.
    #[must_use]
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap { .. } | Self::FetchAdd { .. })
    }
}

/// The place of a send's payload.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// It is in registered memory, which must stay as it is until the completion.
    Sges(&'a [Sge]),
    /// Here; copied before the call returns.
    Inline(&'a [&'a [u8]]),
}

impl SendData<'_> {
    /// Bytes of all entries, at most `u32::MAX`.
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
    /// Remote device.
    pub ah: &'a Ah,
    /// Remote queue pair: 16 bits of an EFA's, 24 of a RoCE device's.
    pub qpn: u32,
    /// Queue key of the remote queue pair.
    pub qkey: u32,
}

/// One send.
#[derive(Debug, Clone, Copy)]
pub struct SendWr<'a> {
    /// Comes back in the completion.
    pub wr_id: u64,
    /// Operation.
    pub op: SendOp,
    /// Payload.
    pub data: SendData<'a>,
    /// Asks for a completion. Without it only a failure completes. Hardware, and a strict device,
    /// refuse such sends; perftest's UD bandwidth test posts them.
    pub signaled: bool,
    /// The destination, on a queue pair of datagrams; `None` on a connected one.
    pub target: Option<Target<'a>>,
    /// The peer's shared receive queue, 24 bits; of XRC only.
    pub remote_srq: u32,
    /// Begins only when all READs and atomics before have been answered. RC and XRC only.
    pub fenced: bool,
    /// Wakes the receiver's program when it waits for such messages only. Not on an EFA.
    pub solicited: bool,
    /// More follows at once: do not transmit yet.
    pub more: bool,
}
