//! Framings: the protection of datagrams on a network, and the verification of those that arrive.
//!
//! Sockets carry bytes. A framing knows where a train of coalesced datagrams is split, what is
//! added to a datagram before it is sent, and whether a received datagram is as its sender made it.

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

/// Length of the block in front of the payload of an RDMA message.
pub(crate) const RDMA_BLOCK_BYTES: usize = 24;

/// The layout of the datagrams of a queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Datagrams of SRD and UD, which contain their own length.
    Srd,
    /// Datagrams of SRD and UD inside of envelopes, which contain the length.
    Sealed,
    /// Packets of RoCE inside of envelopes.
    SealedRoce,
    /// Packets of RoCE, whose end only the network knows.
    Roce,
}

impl Layout {
    /// Returns the length of the first datagram of `train`, at least 1. The others have the same
    /// length, except that the last may be shorter.
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

    /// Returns true if the network must tell where the datagrams of a train end.
    pub(crate) fn needs_segment(self) -> bool {
        self == Self::Roce
    }

    /// Returns the length of all headers of the datagram that begins with `head`, if nothing behind
    /// them has to be read or opened. `is_proven` says that the datagram came from a ring whose
    /// writer has the key, which also carries datagrams that are not sealed.
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

    /// Returns the length of all headers of `datagram`, or its whole length if they cannot be
    /// parsed.
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

/// The reason why a datagram is not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unfit {
    /// The datagram is damaged, or not one that this queue pair can read.
    #[error("its check does not fit")]
    Check,
    /// The datagram cannot be opened.
    #[error(transparent)]
    Seal(#[from] Refusal),
}

/// The processing of datagrams before they are sent, and its inverse when they arrive.
#[derive(Debug)]
pub(crate) enum Framing {
    /// No processing: datagrams are passed on.
    Done,
    /// The check covers headers.
    Headers,
    /// The check covers headers and payload.
    All,
    /// Packets of RoCE, which have pad and check behind the payload.
    Packets(Packets),
    /// Envelopes: nothing can be read or altered without the key.
    Sealed(Box<Sealed>),
}

impl Framing {
    /// Length of the longest trailer.
    pub(crate) const TRAILER_MAX: usize = packets::TRAILER_MAX;

    /// Returns the layout of the datagrams.
    pub(crate) fn layout(&self) -> Layout {
        match self {
            Self::Sealed(sealed) if sealed.has_packets => Layout::SealedRoce,
            Self::Sealed(_) => Layout::Sealed,
            Self::Packets(_) => Layout::Roce,
            Self::Done | Self::Headers | Self::All => Layout::Srd,
        }
    }

    /// Returns the state of sealing, if there is a key.
    pub(crate) fn sealed(&self) -> Option<&Sealed> {
        if let Self::Sealed(sealed) = self { Some(sealed) } else { None }
    }

    /// Returns the state of sealing to be changed, if there is a key.
    pub(crate) fn sealed_mut(&mut self) -> Option<&mut Sealed> {
        if let Self::Sealed(sealed) = self { Some(sealed) } else { None }
    }

    /// Returns true if the payload must lie next to its header, so that the bytes that are covered
    /// are the bytes that are sent.
    #[inline]
    pub(crate) fn covers_payload(&self) -> bool {
        match self {
            Self::All | Self::Sealed(_) => true,
            Self::Packets(packets) => packets.has_icrc,
            Self::Done | Self::Headers => false,
        }
    }

    /// Returns true if datagrams have a check of their headers behind the payload, and nothing else
    /// is done to them.
    #[inline]
    pub(crate) fn has_short_check(&self) -> bool {
        matches!(self, Self::Packets(packets) if !packets.has_icrc)
    }

    /// Returns the length of the trailer of a payload of `payload_len` bytes. The trailer is zero
    /// until the datagram is finished.
    #[inline]
    pub(crate) fn trailer_len(&self, payload_len: usize) -> usize {
        match self {
            Self::Packets(_) => packets::trailer_len(payload_len),
            Self::Sealed(sealed) if sealed.has_packets => packets::trailer_len(payload_len),
            Self::Done | Self::Headers | Self::All | Self::Sealed(_) => 0,
        }
    }

    /// Returns the number of bytes that are added to a datagram, without the trailer.
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

    /// Finishes a datagram whose payload is not there yet, and of which only `headers` are covered.
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

    /// Finishes the datagram for `to` that was begun at `start` and is complete.
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

    /// Returns true if the bytes received from `from`, continued at `rest`, are a datagram as its
    /// sender made it, and nothing else. Other bytes may be a datagram that must be opened.
    #[inline]
    pub(crate) fn is_plain(&self, from: IpAddr, received: &[u8], rest: Piece) -> bool {
        match self {
            Self::Done | Self::Headers | Self::All => crc::is_intact(received),
            Self::Packets(packets) => packets.is_intact(from, received, rest),
            Self::Sealed(_) => false,
        }
    }

    /// Returns true if the bytes that came from `from`, through a ring whose writer has the key,
    /// are a datagram that was not sealed (SRD-12.9).
    pub(crate) fn is_clear(&self, from: SocketAddr, received: &[u8]) -> bool {
        self.sealed().is_some_and(|sealed| sealed.is_clear(from, received))
    }

    /// Opens in place a datagram that the socket `from` sent to `group`, and returns where in it
    /// the inner datagram lies.
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

    /// Opens in place a datagram from `from` that is not plain, and returns where in it the inner
    /// datagram lies.
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
