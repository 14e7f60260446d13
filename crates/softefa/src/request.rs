//! Work requests of the send queue, as a program posts them.

use crate::ah::Ah;
use crate::mr::Sge;

/// Memory of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Remote {
    /// Virtual address there.
    pub addr: u64,
    /// [`crate::Mr::rkey`] of the region that holds it.
    pub rkey: u32,
}

/// Operation of a send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOp {
    /// A message.
    Send,
    /// A message with 32 bits of immediate data.
    SendImm(u32),
    /// Copies remote memory into the one local entry. SRD only.
    Read(Remote),
    /// Copies the one local entry to remote memory. SRD only.
    Write(Remote),
    /// As [`SendOp::Write`], then completes a receive there with 32 bits of immediate data.
    WriteImm(Remote, u32),
}

impl SendOp {
    /// It names memory of a peer.
    #[must_use]
    pub const fn is_rdma(self) -> bool {
        matches!(self, Self::Read(_) | Self::Write(_) | Self::WriteImm(..))
    }
}

/// Where the payload of a send is.
#[derive(Debug, Clone, Copy)]
pub enum SendData<'a> {
    /// In registered memory, which must stay as it is until the completion.
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
    /// Remote device.
    pub ah: &'a Ah,
    /// Remote queue pair.
    pub remote_qpn: u16,
    /// Queue key of the remote queue pair.
    pub remote_qkey: u32,
    /// More follows at once: do not transmit yet.
    pub more: bool,
}
