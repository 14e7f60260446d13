//! What makes datagrams fit for a network, and what judges those that come from one.
//!
//! Sockets carry bytes; a framing knows where a train of coalesced datagrams is cut, what is added to
//! a datagram before it leaves, and whether one that came is as its sender made it.

mod crc;

/// What stands in front of the bytes of an RDMA message.
pub(crate) const RDMA_BLOCK_BYTES: usize = 24;

/// How the datagrams of a queue pair are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// SRD's and UD's, which tell their own length.
    Srd,
}

impl Layout {
    /// Bytes of the first datagram of `train`, at least 1; the others are as long, but for a shorter
    /// last one.
    #[inline]
    pub(crate) fn datagram_len(self, train: &[u8]) -> usize {
        let Self::Srd = self;
        let first = srd::wire::Extent::of(train);
        first.map_or(train.len(), |first| first.datagram_len().min(train.len())).max(1)
    }

    /// Bytes of all headers of `datagram`, or all of it when they cannot be read.
    pub(crate) fn headers_len(self, datagram: &[u8]) -> usize {
        let Self::Srd = self;
        crc::headers_len(datagram).unwrap_or(datagram.len())
    }
}

/// What is done to datagrams of [`Layout::Srd`] before they leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Nothing is left to do: they are passed on.
    Done,
    /// The check covers headers.
    Headers,
    /// The check covers headers and payload.
    All,
}

impl Framing {
    /// How its datagrams are laid out.
    pub(crate) fn layout(&self) -> Layout {
        Layout::Srd
    }

    /// Payload must lie beside its header, so that what is covered is what is sent.
    #[inline]
    pub(crate) fn covers_payload(&self) -> bool {
        *self == Self::All
    }

    /// Finishes a datagram before its payload is there, of which only `headers` are covered.
    #[inline]
    pub(crate) fn finish_headers(&mut self, headers: &mut [u8]) {
        if *self == Self::Headers {
            crc::fill_in(headers, false);
        }
    }

    /// Finishes a datagram that is all there.
    #[inline]
    pub(crate) fn finish_whole(&mut self, datagram: &mut [u8]) {
        if *self == Self::All {
            crc::fill_in(datagram, true);
        }
    }

    /// The datagram inside what came; `None` when it is not as its sender made it.
    #[inline]
    pub(crate) fn open<'a>(&mut self, received: &'a mut [u8]) -> Option<&'a [u8]> {
        crc::is_intact(received).then_some(received)
    }
}
