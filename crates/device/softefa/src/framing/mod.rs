//! What makes datagrams fit for a network, and what judges those that come from one.
//!
//! Sockets carry bytes; a framing knows where a train of coalesced datagrams is cut, what is added
//! to a datagram before it leaves, and whether one that came is as its sender made it.

mod crc;
mod crc32c;
mod packets;
mod sealed;

use std::net::{IpAddr, SocketAddr};
use std::ops::Range;

use crate::memory::Piece;
use crate::seal::{ENVELOPE_BYTES, OVERHEAD_BYTES, Refusal};

pub(crate) use packets::Packets;
pub(crate) use sealed::{Sealed, is_enveloped};

/// What stands in front of the bytes of an RDMA message.
pub(crate) const RDMA_BLOCK_BYTES: usize = 24;

/// How the datagrams of a queue pair are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// SRD's and UD's, which tell their own length.
    Srd,
    /// SRD's and UD's inside of envelopes, which tell it.
    Sealed,
    /// RoCE's packets inside of envelopes.
    SealedRoce,
    /// RoCE's packets, of which only the network knows where they end.
    Roce,
}

impl Layout {
    /// Bytes of the first datagram of `train`, at least 1; the others are as long, but for a
    /// shorter last one.
    #[inline]
    pub(crate) fn datagram_len(self, train: &[u8]) -> usize {
        let len = match self {
            Self::Srd => plain_len(train).or_else(|| sealed::first_len(train)),
            Self::Sealed | Self::SealedRoce => {
                sealed::first_len(train).or_else(|| plain_len(train))
            }
            Self::Roce => None,
        };
        len.map_or(train.len(), |len| len.min(train.len())).max(1)
    }

    /// The network must tell where the datagrams of a train end.
    pub(crate) fn needs_segment(self) -> bool {
        self == Self::Roce
    }

    /// Bytes of all headers of the datagram that begins with `head`, when nothing behind them has
    /// to be looked at or opened. `is_proven` if it came from a ring whose writer has the key,
    /// which carries datagrams that are not sealed, too.
    #[inline]
    pub(crate) fn lent_from(self, head: &[u8], is_proven: bool) -> Option<usize> {
        let is_clear = is_proven && !is_enveloped(head);
        match self {
            Self::Srd => crc::covered_len(head),
            Self::Roce => packets::covered_len(head),
            Self::Sealed if is_clear => crc::headers_len(head),
            Self::SealedRoce if is_clear => packets::headers_len(head),
            Self::Sealed | Self::SealedRoce => None,
        }
    }

    /// Bytes of all headers of `datagram`, or all of it when they cannot be read.
    pub(crate) fn headers_len(self, datagram: &[u8]) -> usize {
        match self {
            Self::Srd => crc::headers_len(datagram).unwrap_or(datagram.len()),
            Self::Sealed | Self::SealedRoce => sealed::headers_len(datagram),
            Self::Roce => packets::headers_len(datagram).unwrap_or(datagram.len()),
        }
    }
}

#[inline]
fn plain_len(train: &[u8]) -> Option<usize> {
    srd::wire::Extent::of(train).map(|first| first.datagram_len())
}

/// Why a datagram is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// It is damaged, or none that this queue pair can read.
    #[error("its check does not fit")]
    Check,
    /// It does not open.
    #[error(transparent)]
    Seal(#[from] Refusal),
}

/// What is done to datagrams before they leave, and undone when they come.
#[derive(Debug)]
pub(crate) enum Framing {
    /// Nothing is left to do: they are passed on.
    Done,
    /// The check covers headers.
    Headers,
    /// The check covers headers and payload.
    All,
    /// Packets of RoCE: behind the payload come pad and check.
    Packets(Packets),
    /// Nothing can be read or altered without the key.
    Sealed(Box<Sealed>),
}

impl Framing {
    /// Bytes of the longest trailer.
    pub(crate) const TRAILER_MAX: usize = packets::TRAILER_MAX;

    /// How its datagrams are laid out.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Sealed(sealed) if sealed.has_packets => Layout::SealedRoce,
            Self::Sealed(_) => Layout::Sealed,
            Self::Packets(_) => Layout::Roce,
            Self::Done | Self::Headers | Self::All => Layout::Srd,
        }
    }

    /// What knows the key, if there is one.
    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        if let Self::Sealed(sealed) = self { Some(sealed) } else { None }
    }

    /// As [`Framing::sealed`], to be changed.
    pub(crate) fn sealed_mut(&mut self) -> Option<&mut Sealed> {
        if let Self::Sealed(sealed) = self { Some(sealed) } else { None }
    }

    /// Payload must lie beside its header, so that what is covered is what is sent.
    #[inline]
    pub(crate) fn covers_payload(&self) -> bool {
        match self {
            Self::All | Self::Sealed(_) => true,
            Self::Packets(packets) => packets.has_icrc,
            Self::Done | Self::Headers => false,
        }
    }

    /// Bytes behind a payload of `payload_len`, which are zero until the datagram is finished.
    #[inline]
    pub(crate) fn trailer_len(&self, payload_len: usize) -> usize {
        match self {
            Self::Packets(_) => packets::trailer_len(payload_len),
            Self::Sealed(sealed) if sealed.has_packets => packets::trailer_len(payload_len),
            Self::Done | Self::Headers | Self::All | Self::Sealed(_) => 0,
        }
    }

    /// Bytes that it adds to a datagram, less the trailer.
    pub(crate) fn overhead_bytes(&self) -> usize {
        if self.sealed().is_some() { OVERHEAD_BYTES } else { 0 }
    }

    /// Begins a datagram at the end of `bytes`.
    #[inline]
    pub(crate) fn begin(&self, bytes: &mut Vec<u8>) {
        if let Self::Sealed(_) = self {
            bytes.extend_from_slice(&[0; ENVELOPE_BYTES]);
        }
    }

    /// Finishes a datagram before its payload is there, of which only `headers` are covered.
    #[inline]
    pub(crate) fn finish_headers(&mut self, headers: &mut [u8]) {
        match self {
            Self::Headers => crc::fill_in(headers, false),
            Self::Packets(packets) if !packets.has_icrc => packets::set_short(headers),
            Self::Done | Self::All | Self::Packets(_) | Self::Sealed(_) => {}
        }
    }

    /// Finishes the trailer of a datagram of `len` bytes with these headers, which are finished.
    #[inline]
    pub(crate) fn finish_trailer(&self, headers: &[u8], len: usize, trailer: &mut [u8]) {
        let Self::Packets(packets) = self else { return };
        if !packets.has_icrc {
            if let Some(last) = trailer.last_chunk_mut() {
                *last = packets::check(headers, len);
            }
        }
    }

    /// Finishes the datagram for `to` that was begun at `start` and is all there.
    #[inline]
    pub(crate) fn finish_whole(&mut self, to: SocketAddr, bytes: &mut Vec<u8>, start: usize) {
        match self {
            Self::Done | Self::Headers => {}
            Self::All => crc::fill_in(&mut bytes[start..], true),
            Self::Packets(packets) if packets.has_icrc => {
                packets.fill_in(to.ip(), &mut bytes[start..]);
            }
            Self::Packets(_) => {}
            Self::Sealed(sealed) => sealed.seal(to, bytes, start),
        }
    }

    /// What came from `from`, with the bytes at `rest` behind it, is a datagram as its sender made
    /// it, and nothing around it. What is not may still be one to be opened.
    #[inline]
    pub(crate) fn is_plain(&self, from: IpAddr, received: &[u8], rest: Piece) -> bool {
        match self {
            Self::Done | Self::Headers | Self::All => crc::is_intact(received),
            Self::Packets(packets) => packets.is_intact(from, received, rest),
            Self::Sealed(_) => false,
        }
    }

    /// What came from `from` through a ring whose writer has the key is a datagram that was not
    /// sealed (SRD-12.9).
    pub(crate) fn is_clear(&self, from: SocketAddr, received: &[u8]) -> bool {
        self.sealed().is_some_and(|sealed| sealed.is_clear(from, received))
    }

    /// Where the datagram is inside what came to `group` from the socket `from`; it is opened where
    /// it lies.
    pub(crate) fn open_in_group(
        &mut self,
        from: SocketAddr,
        group: IpAddr,
        received: &mut [u8],
    ) -> Result<Range<usize>, Unfit> {
        match self {
            Self::Packets(packets) if packets.is_intact_in_group(from, group, received) => {
                Ok(0..received.len())
            }
            Self::Sealed(sealed) => Ok(sealed.open_in_group(from, group, received)?),
            Self::Done | Self::Headers | Self::All | Self::Packets(_) => Err(Unfit::Check),
        }
    }

    /// Where the datagram is inside what came from `from` and is not plain; it is opened where it
    /// lies.
    pub(crate) fn open(
        &mut self,
        from: IpAddr,
        received: &mut [u8],
    ) -> Result<Range<usize>, Unfit> {
        match self {
            Self::Sealed(sealed) => Ok(sealed.open(from, received)?),
            Self::Done | Self::Headers | Self::All | Self::Packets(_) => Err(Unfit::Check),
        }
    }
}
