//! Datagram formats, in two tiers: a checked view of received bytes and plain values to emit.
//!
//! Everything is big-endian. Layouts and rules: `docs/PROTOCOL.md`, chapters 2 and 5.

pub mod ack;
pub mod control;
pub mod data;
pub mod header;
pub mod ud;

pub use ack::{AckRepr, AckView, DropRange};
pub use data::DataRepr;
pub use header::{Flags, Header, Kind, VERSION};

use crate::DropReason;

/// A received datagram whose length fields have been checked against each other.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The eight bytes every datagram starts with.
    pub header: Header,
    /// The acknowledgement block, when there is one.
    pub ack: Option<AckView<'a>>,
    /// The data block, when there is one.
    pub data: Option<DataRepr>,
    /// The payload starts here.
    pub header_len: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a datagram of kind [`Kind::Srd`] whose common header is `header`. `bytes` starts at
    /// the datagram's first byte and holds at least its headers; `datagram_len` is its full
    /// length.
    ///
    /// # Errors
    /// [`DropReason::Short`] or [`DropReason::Malformed`].
    #[inline(always)]
    pub fn parse(header: Header, bytes: &'a [u8], datagram_len: usize) -> Result<Self, DropReason> {
        let mut rest = bytes.get(Header::LEN..).ok_or(DropReason::Short)?;
        let mut ack = None;
        if header.flags.has(Flags::HAS_ACK) {
            let view = AckView::parse(rest)?;
            rest = &rest[view.len()..];
            ack = Some(view);
        }
        let mut data = None;
        let mut header_len = bytes.len() - rest.len();
        let mut payload_len = 0;
        if header.flags.has(Flags::HAS_DATA) {
            let (repr, len) = DataRepr::parse(rest, header.flags.has(Flags::INIT))?;
            header_len += len;
            payload_len = usize::from(repr.len);
            data = Some(repr);
        }
        if ack.is_none() && data.is_none() {
            return Err(DropReason::Malformed);
        }
        if header_len + payload_len != datagram_len {
            return Err(DropReason::Malformed);
        }
        Ok(Self { header, ack, data, header_len })
    }
}

/// Length of the datagram that starts with `bytes`, by its own fields; `None` when they cannot be
/// read. A host uses it to cut a train of coalesced datagrams, which all have the length of the
/// first but for a shorter last one (SRD-2.9).
#[must_use]
pub fn datagram_len(bytes: &[u8]) -> Option<usize> {
    let header = Header::parse(bytes).ok()?;
    match header.kind {
        Kind::Ud => ud::UdRepr::datagram_len(bytes),
        Kind::Reset => Some(control::RESET_LEN),
        Kind::Srd => {
            let mut at = Header::LEN;
            if header.flags.has(Flags::HAS_ACK) {
                at += AckView::parse(bytes.get(at..)?).ok()?.len();
            }
            if header.flags.has(Flags::HAS_DATA) {
                let init = header.flags.has(Flags::INIT);
                let (data, len) = DataRepr::parse(bytes.get(at..)?, init).ok()?;
                at += len + usize::from(data.len);
            }
            Some(at)
        }
    }
}

/// Copies the `N` bytes at `at`; the caller has checked that they exist.
#[inline]
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
