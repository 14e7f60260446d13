//! Datagram formats, in two tiers: a checked view of received bytes and plain values to emit.
//!
//! Everything is big-endian. Layouts and rules: `docs/PROTOCOL.md`, chapters 2 and 5.

pub mod ack;
pub mod control;
pub mod data;
pub mod frame;
pub mod header;
pub mod ud;

pub use ack::{AckRepr, AckView, DropRange, EchoRepr};
pub use data::DataRepr;
pub use frame::FrameEntry;
pub use header::{Flags, Header, Kind, VERSION};

use crate::DropReason;

/// A received datagram whose length fields have been checked against each other.
#[derive(Clone, Copy, Debug)]
pub struct Datagram<'a> {
    /// The header that every datagram starts with.
    pub header: Header,
    /// The acknowledgement block, when there is one.
    pub ack: Option<AckView<'a>>,
    /// The data block, when there is one.
    pub data: Option<DataRepr>,
    /// The offset of the payload, or in a frame that of its first entry.
    pub header_len: usize,
}

impl<'a> Datagram<'a> {
    /// Reads a datagram of kind [`Kind::Srd`] or [`Kind::Frame`] whose common header is `header`.
    /// `bytes` starts at the datagram's first byte and holds at least its headers, which is all of
    /// a frame; `datagram_len` is its full length.
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
        if header.kind == Kind::Frame {
            let body = bytes.get(header_len..datagram_len).ok_or(DropReason::Short)?;
            let is_whole = data.is_some_and(|data| frame::is_whole(body, data.op));
            if !is_whole || header.flags.has(Flags::INIT) {
                return Err(DropReason::Malformed);
            }
        }
        Ok(Self { header, ack, data, header_len })
    }
}

/// The messages of a datagram, in the order of their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Messages<'b> {
    /// The data block that the next message would have alone.
    next: Option<DataRepr>,
    left: u8,
    is_frame: bool,
    bytes: &'b [u8],
    at: usize,
}

impl<'a> Datagram<'a> {
    /// Returns its messages, each with the data block that it would have alone and the offset of
    /// its payload. `bytes` are those that were parsed.
    #[must_use]
    pub fn messages<'b>(&self, bytes: &'b [u8]) -> Messages<'b> {
        let is_frame = self.header.kind == Kind::Frame;
        let left = match self.data {
            Some(data) if is_frame => data.op,
            Some(_) => 1,
            None => 0,
        };
        Messages { next: self.data, left, is_frame, bytes, at: self.header_len }
    }
}

impl Iterator for Messages<'_> {
    type Item = (DataRepr, usize);

    fn next(&mut self) -> Option<(DataRepr, usize)> {
        let data = self.next.filter(|_| self.left > 0)?;
        self.left -= 1;
        if !self.is_frame {
            return Some((data, self.at));
        }
        let entry = self.bytes.get(self.at..).and_then(FrameEntry::parse)?;
        let FrameEntry { len, op, flags, imm } = entry;
        let start = self.at + FrameEntry::LEN;
        self.at = start + usize::from(len);
        let oldest = data.oldest.saturating_add(1);
        self.next = Some(DataRepr { psn: data.psn.plus(1), oldest, ..data });
        Some((DataRepr { len, op, flags, imm, ..data }, start))
    }
}

/// The lengths that a datagram states in its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes of the engine's headers.
    pub headers_len: usize,
    /// Bytes behind them.
    pub payload_len: usize,
    /// Operation of the host; 0 without data, and for a frame.
    pub op: u8,
}

impl Extent {
    /// Reads the headers at the start of `bytes`; `None` when that is not possible. Nothing else of
    /// the datagram is checked.
    ///
    /// A host uses it to split a train of coalesced datagrams, which all have the length of the
    /// first except for a shorter last one (SRD-2.9), and to know what a check covers (SRD-2.10).
    #[must_use]
    #[inline]
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let header = Header::parse(bytes).ok()?;
        let mut extent = Self { headers_len: Header::LEN, payload_len: 0, op: 0 };
        match header.kind {
            Kind::Ud => return ud::UdRepr::extent(bytes),
            Kind::Reset => extent.headers_len = control::RESET_LEN,
            Kind::Refused => extent.headers_len = control::REFUSED_LEN,
            Kind::Challenge => extent.headers_len = control::CHALLENGE_LEN,
            Kind::Srd | Kind::Frame => {
                if header.flags.has(Flags::HAS_ACK) {
                    extent.headers_len += AckView::parse(&bytes[Header::LEN..]).ok()?.len();
                }
                if header.flags.has(Flags::HAS_DATA) {
                    let init = header.flags.has(Flags::INIT);
                    let data = bytes.get(extent.headers_len..)?;
                    let (data, len) = DataRepr::parse(data, init).ok()?;
                    extent.headers_len += len;
                    extent.payload_len = usize::from(data.len);
                    extent.op = data.op;
                }
            }
        }
        if header.kind == Kind::Frame {
            if extent.payload_len > frame::FRAME_BYTES_MAX {
                return None;
            }
            // The whole datagram counts as headers, because entries lie between the bytes.
            let headers_len = extent.datagram_len();
            extent = Self { headers_len, payload_len: 0, op: 0 };
        }
        Some(extent)
    }

    /// Returns the length of the whole datagram in bytes.
    #[must_use]
    pub const fn datagram_len(self) -> usize {
        self.headers_len + self.payload_len
    }
}

/// Copies the `N` bytes at `at`; the caller has checked that they exist.
#[inline]
pub(crate) fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}
