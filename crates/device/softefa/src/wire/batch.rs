//! A burst to be sent: headers in one arena, payload by reference into registered memory.

use std::net::SocketAddr;
use std::ops::Range;

use crate::framing::Framing;
use crate::memory::{self, Gone, Piece};
use crate::own_memory;
use crate::status::Status;

/// The most datagrams of a burst, which is the kernel's limit for one UDP_SEGMENT send.
pub(crate) const MAX_PACKETS: usize = 64;
/// The longest payload that is copied beside its header: one long entry costs the kernel less than
/// two short ones per datagram.
const COPY_BYTES: usize = 512;

/// How a datagram leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Via {
    /// By this path, or any faster way to the same queue pair.
    Path(u16),
    /// As [`Via::Path`], and through the ring of a sleeper, who is called once for many (SRD-12.5).
    Stream(u16),
    /// As [`Via::Stream`], and a light sleeper is not called for it.
    Acknowledgement(u16),
    /// As [`Via::Stream`], and only through the ring, because no network may carry it: it is too
    /// long, or not sealed. Without a ring it is lost.
    Memory(u16),
    /// As [`Via::Path`], but a datagram that is never repeated waits for room in a ring.
    Patient(u16),
    /// By this path and through the kernel, which knows when the peer is gone.
    Kernel(u16),
    /// By this path and through the kernel, because it must not overtake datagrams there.
    Behind(u16),
    /// Through the queue pair's own socket, which does not receive refusals.
    ///
    /// Answers to strangers leave there. Their address may be forged, and a refusal would cost as
    /// much as the answer.
    OwnSocket,
}

impl Via {
    /// The path, if it has one.
    pub(crate) fn path(self) -> Option<u16> {
        match self {
            Self::Path(path)
            | Self::Stream(path)
            | Self::Acknowledgement(path)
            | Self::Memory(path)
            | Self::Patient(path)
            | Self::Kernel(path)
            | Self::Behind(path) => Some(path),
            Self::OwnSocket => None,
        }
    }
}

/// A datagram that the operating system will never send.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Impossible {
    /// Its place in the batch, as [`Batch::push`] returned it.
    pub(crate) place: usize,
    pub(crate) status: Status,
}

/// One datagram of a batch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packet {
    /// Its place in the batch.
    pub(crate) place: usize,
    pub(crate) to: SocketAddr,
    pub(crate) via: Via,
    pub(crate) len: usize,
    /// The first of its entries in the batch's pieces.
    pub(crate) iov_start: usize,
    /// The entry behind its last one.
    pub(crate) iov_end: usize,
}

/// Collects datagrams until they are sent together. It is reused, so nothing is allocated once it
/// is warm.
#[derive(Debug)]
pub(crate) struct Batch {
    arena: Vec<u8>,
    pieces: Vec<Piece>,
    packets: Vec<Packet>,
    impossible: Vec<Impossible>,
    copy_bytes: usize,
    /// The bytes of the arena that a datagram may take.
    room_bytes: usize,
    /// Those of them that are not headers.
    tail_bytes: usize,
    overhead_bytes: usize,
}

impl Batch {
    /// Makes a batch for datagrams that `framing` finishes, with at most this many bytes of headers
    /// and payload.
    pub(crate) fn new(framing: &Framing, headers_max: usize, payload_max: usize) -> Self {
        let copy_bytes = if framing.covers_payload() { payload_max } else { COPY_BYTES };
        let overhead_bytes = framing.overhead_bytes();
        let tail_bytes = copy_bytes + overhead_bytes + Framing::TRAILER_MAX;
        let room_bytes = headers_max + tail_bytes;
        Self {
            arena: Vec::with_capacity(MAX_PACKETS * room_bytes),
            pieces: Vec::with_capacity(MAX_PACKETS * 4),
            packets: Vec::with_capacity(MAX_PACKETS),
            impossible: Vec::new(),
            copy_bytes,
            room_bytes,
            tail_bytes,
            overhead_bytes,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.packets.len() == MAX_PACKETS
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(crate) fn clear(&mut self) {
        self.arena.clear();
        self.pieces.clear();
        self.packets.clear();
    }

    /// Reports datagrams that cannot be sent; called by the wire. [`Batch::clear`] keeps the
    /// report.
    pub(crate) fn report(&mut self, impossible: &mut Vec<Impossible>) {
        self.impossible.append(impossible);
    }

    /// What the wire reported.
    pub(crate) fn take_impossible(&mut self) -> Option<Impossible> {
        self.impossible.pop()
    }

    pub(crate) fn packets(&self) -> &[Packet] {
        &self.packets
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// Returns true if [`Batch::push`] copies a payload of this length.
    pub(crate) fn is_copied(&self, payload_len: usize) -> bool {
        payload_len <= self.copy_bytes
    }

    /// Adds a datagram with the headers `header` and the payload at `payload`, and returns its
    /// place. Returns [`Gone`] and adds nothing if the payload is short, so that it is copied, and
    /// its memory is gone.
    ///
    /// The payload must stay in place until the batch is sent. The adapter guarantees that by
    /// sending before it releases the lock of the queue pair that posted it.
    pub(crate) fn push(
        &mut self,
        framing: &mut Framing,
        to: SocketAddr,
        via: Via,
        header: &[u8],
        payload: impl Iterator<Item = Piece> + Clone,
    ) -> Result<usize, Gone> {
        let payload_len: usize = payload.clone().map(|piece| piece.len).sum();
        // The arena never grows, so that pieces may point into it.
        let room = self.arena.capacity() - self.arena.len();
        assert!(!self.is_full() && header.len() + self.tail_bytes <= self.room_bytes.min(room));
        let iov_start = self.pieces.len();
        let start = self.arena.len();
        let is_clear = framing.sealed().is_some() && matches!(via, Via::Memory(_));
        if !is_clear {
            framing.begin(&mut self.arena);
        }
        self.arena.extend_from_slice(header);
        framing.finish_headers(&mut self.arena[start..]);
        let headers = self.arena.len() - header.len()..self.arena.len();
        let trailer_len = framing.trailer_len(payload_len);
        let overhead_bytes = if is_clear { 0 } else { self.overhead_bytes };
        let len = header.len() + payload_len + trailer_len + overhead_bytes;
        let copy_bytes = if is_clear { COPY_BYTES } else { self.copy_bytes };
        if payload_len <= copy_bytes {
            let arena = &mut self.arena;
            let mut pieces = payload;
            let copied =
                pieces.try_for_each(|piece| memory::copy_out(piece.addr, piece.len, arena));
            copied.inspect_err(|_| self.arena.truncate(start))?;
            self.push_trailer(framing, headers, len, trailer_len);
            if !is_clear {
                framing.finish_whole(to, &mut self.arena, start);
            }
            self.push_arena(start);
        } else {
            let is_covered = framing.covers_payload() && !is_clear;
            assert!(!is_covered, "what is covered lies beside the header");
            self.push_arena(start);
            self.pieces.extend(payload.filter(|piece| piece.len > 0));
            if trailer_len > 0 {
                // In the arena it lies right before the next header: one entry for both.
                let trailer = self.arena.len();
                self.push_trailer(framing, headers, len, trailer_len);
                self.push_arena(trailer);
            }
        }
        let (place, iov_end) = (self.packets.len(), self.pieces.len());
        self.packets.push(Packet { place, to, via, len, iov_start, iov_end });
        Ok(place)
    }

    /// Adds a datagram as [`Batch::push`] does, whose payload is one piece, under a framing with a
    /// check of the headers only ([`Framing::has_short_check`]).
    #[inline]
    pub(crate) fn push_plain<const N: usize>(
        &mut self,
        framing: &mut Framing,
        to: &SocketAddr,
        via: Via,
        header: &[u8; N],
        payload: Piece,
    ) -> Result<usize, Gone> {
        let start = self.arena.len();
        assert!(!self.is_full() && start + self.room_bytes <= self.arena.capacity());
        let trailer_len = framing.trailer_len(payload.len);
        let len = N + payload.len + trailer_len;
        let mut header = *header;
        framing.finish_headers(&mut header);
        let mut trailer = [0; Framing::TRAILER_MAX];
        framing.finish_trailer(&header, len, &mut trailer[..trailer_len]);
        let iov_start = self.pieces.len();
        self.arena.extend_from_slice(&header);
        let trailer_at = if payload.len <= self.copy_bytes {
            let copied = memory::copy_out(payload.addr, payload.len, &mut self.arena);
            copied.inspect_err(|_| self.arena.truncate(start))?;
            start
        } else {
            self.push_arena(start);
            self.pieces.push(payload);
            self.arena.len()
        };
        self.arena.extend_from_slice(&trailer[..trailer_len]);
        self.push_arena(trailer_at);
        let (place, iov_end) = (self.packets.len(), self.pieces.len());
        self.packets.push(Packet { place, to: *to, via, len, iov_start, iov_end });
        Ok(place)
    }

    /// Adds the trailer of a datagram of `len` bytes, whose headers are in the arena.
    #[inline]
    fn push_trailer(
        &mut self,
        framing: &Framing,
        headers: Range<usize>,
        len: usize,
        trailer_len: usize,
    ) {
        if trailer_len == 0 {
            return;
        }
        let mut trailer = [0; Framing::TRAILER_MAX];
        framing.finish_trailer(&self.arena[headers], len, &mut trailer[..trailer_len]);
        self.arena.extend_from_slice(&trailer[..trailer_len]);
    }

    fn push_arena(&mut self, start: usize) {
        let addr = self.arena.as_ptr() as usize as u64 + start as u64;
        self.pieces.push(Piece { addr, len: self.arena.len() - start });
    }

    /// Returns the bytes of one datagram, for a wire that must keep it longer than its memory
    /// lasts; `None` if a program has unmapped registered memory.
    pub(crate) fn copy(&self, packet: &Packet) -> Option<Vec<u8>> {
        let mut bytes = Vec::with_capacity(packet.len);
        let is_there = self.pieces[packet.iov_start..packet.iov_end].iter().all(|piece| {
            if self.is_in_arena(*piece) {
                return memory::copy_out(piece.addr, piece.len, &mut bytes).is_ok();
            }
            own_memory::append(std::iter::once(*piece), &mut bytes)
        });
        is_there.then_some(bytes)
    }

    /// Returns true if the bytes are a copy of ours, which is never unmapped.
    fn is_in_arena(&self, piece: Piece) -> bool {
        let start = self.arena.as_ptr() as usize as u64;
        (start..start + self.arena.len() as u64).contains(&piece.addr)
    }
}

impl Packet {
    /// Appends the first `max` bytes of the datagram, whose batch has `pieces`, to `bytes`. Memory
    /// that was unmapped since it was sent reads as zeros.
    pub(super) fn copy(&self, pieces: &[Piece], max: usize, bytes: &mut Vec<u8>) {
        let mut left = max;
        for piece in &pieces[self.iov_start..self.iov_end] {
            let len = piece.len.min(left);
            if memory::copy_out(piece.addr, len, bytes).is_err() {
                bytes.resize(bytes.len() + len, 0);
            }
            left -= len;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::framing::Packets;

    #[test]
    fn a_plain_datagram_is_the_same_on_both_ways() {
        let to = "127.0.0.1:9".parse().unwrap();
        let mut framing = Framing::Packets(Packets::new([127, 0, 0, 1].into(), false));
        let memory: Vec<u8> = (0..5000).map(|i| (i * 7) as u8).collect();
        let header: [u8; 12] = std::array::from_fn(|at| at as u8 + 1);
        for len in (1..COPY_BYTES + 5).chain([4096]) {
            let piece = Piece { addr: memory[3..].as_ptr() as usize as u64, len };
            let mut batch = Batch::new(&framing, 48, 1 << 12);
            batch.push(&mut framing, to, Via::Path(1), &header, [piece].into_iter()).unwrap();
            batch.push_plain(&mut framing, &to, Via::Path(1), &header, piece).unwrap();
            let [long, plain] = batch.packets() else { unreachable!("two packets were pushed") };
            assert_eq!(batch.copy(long), batch.copy(plain));
            assert_eq!((plain.place, plain.len, plain.to), (1, long.len, long.to));
            assert_eq!(plain.iov_end - plain.iov_start, long.iov_end - long.iov_start);
        }
    }

    #[test]
    fn datagram_is_header_then_payload_whether_copied_or_not() {
        let to = "127.0.0.1:9".parse().unwrap();
        let memory: Vec<u8> = (0..2000).map(|i| i as u8).collect();
        let piece = |at: usize, len| Piece { addr: memory[at..].as_ptr() as usize as u64, len };
        let mut batch = Batch::new(&Framing::Done, 4, 0);
        batch
            .push(
                &mut Framing::Done,
                to,
                Via::Path(1),
                b"head",
                [piece(0, 10), piece(100, 5)].into_iter(),
            )
            .unwrap();
        let long = [piece(0, 600), piece(1000, 0), piece(700, 300)];
        batch.push(&mut Framing::Done, to, Via::Path(2), b"HEAD", long.into_iter()).unwrap();
        let short = batch.copy(&batch.packets()[0]).unwrap();
        assert_eq!(short, [b"head", &memory[..10], &memory[100..105]].concat());
        let long = batch.copy(&batch.packets()[1]).unwrap();
        assert_eq!(long, [b"HEAD", &memory[..600], &memory[700..1000]].concat());
        assert_eq!(batch.packets()[1].iov_end - batch.packets()[1].iov_start, 3);
    }
}
