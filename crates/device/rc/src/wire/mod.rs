//! Packet formats of RoCEv2, from the base transport header to the ICRC.
//!
//! Everything is big-endian. Layouts and rules: `docs/PROTOCOL.md`, chapter RC-1.

mod bth;
mod ext;
pub mod grh;
pub mod icrc;
mod opcode;

pub use bth::{Bth, Cnp, DEFAULT_PKEY};
pub use ext::{Aeth, AtomicEth, Deth, Feth, NakCode, Reth, Syndrome};
pub use opcode::{Kind, Opcode, Transport};

use crate::DropReason;

/// The UDP port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// Bytes of all headers, by the first byte of a packet; 0 where there is no such opcode.
const LENS: [u8; 256] = {
    let mut lens = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        if let Some(opcode) = Opcode::from_byte(byte as u8) {
            lens[byte] = Headers::len_of(opcode) as u8;
        }
        byte += 1;
    }
    lens
};

/// All headers of a packet. The opcode determines which extension headers there are; the others are
/// zero and mean nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headers {
    /// The base transport header.
    pub bth: Bth,
    /// Shared receive queue (requests of XRC), 24 bits.
    pub srq: u32,
    /// Sender of an unreliable datagram.
    pub deth: Deth,
    /// Remote memory.
    pub reth: Reth,
    /// The extent that a FLUSH asks for.
    pub feth: Feth,
    /// Operands of an atomic.
    pub atomic: AtomicEth,
    /// The answer to a request.
    pub aeth: Aeth,
    /// The value that an atomic found.
    pub original: u64,
    /// Immediate data.
    pub imm: u32,
    /// Key to invalidate.
    pub invalidate: u32,
}

impl Headers {
    /// Creates headers with `bth` and all extension headers zero.
    #[must_use]
    pub const fn new(bth: Bth) -> Self {
        Self {
            bth,
            srq: 0,
            deth: Deth { qkey: 0, src_qpn: 0 },
            reth: Reth { va: 0, rkey: 0, dma_len: 0 },
            feth: Feth { is_global: false, is_persistent: false, is_whole_region: false },
            atomic: AtomicEth { va: 0, rkey: 0, swap_or_add: 0, compare: 0 },
            aeth: Aeth { syndrome: Syndrome::ACK, msn: 0 },
            original: 0,
            imm: 0,
            invalidate: 0,
        }
    }

    /// Returns the shared receive queue that the packet names; `None` unless it is a request of
    /// XRC.
    #[inline]
    pub(crate) fn named_srq(&self) -> Option<u32> {
        let Opcode { transport, kind } = self.bth.opcode;
        (transport == Transport::Xrc && kind.is_request()).then_some(self.srq)
    }

    /// Returns the bytes of the headers of a packet with this opcode.
    const fn len_of(opcode: Opcode) -> usize {
        let kind = opcode.kind;
        let mut len = Bth::LEN;
        if matches!(opcode.transport, Transport::Xrc) && kind.is_request() {
            len += 4;
        }
        if matches!(opcode.transport, Transport::Ud) {
            len += Deth::LEN;
        }
        if matches!(kind, Kind::Flush) {
            len += Feth::LEN;
        }
        if kind.has_reth() {
            len += Reth::LEN;
        }
        if kind.is_atomic() {
            len += AtomicEth::LEN;
        }
        if kind.has_aeth() {
            len += Aeth::LEN;
        }
        if matches!(kind, Kind::AtomicAcknowledge) {
            len += 8;
        }
        if kind.has_imm() || kind.has_ieth() {
            len += 4;
        }
        len
    }

    /// Returns the bytes of these headers.
    #[must_use]
    #[inline]
    pub const fn len(&self) -> usize {
        LENS[self.bth.opcode.to_byte() as usize] as usize
    }

    /// Never: there is always a base transport header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        false
    }

    /// Returns the bytes of the headers of the packet that begins with `bytes`, which may hold
    /// fewer; `None` if the base transport header cannot be read.
    #[must_use]
    #[inline]
    pub fn len_in(bytes: &[u8]) -> Option<usize> {
        let bth: &[u8; Bth::LEN] = bytes.first_chunk()?;
        let len = LENS[bth[0] as usize] as usize;
        (len > 0 && bth[1] & 0x0F == 0).then_some(len)
    }

    /// Reads the headers at the start of `bytes`.
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`] or [`DropReason::Opcode`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let mut headers = Self::new(Bth::parse(bytes)?);
        headers.read_extensions(bytes)?;
        Ok(headers)
    }

    /// Fills in the headers behind the base transport header, which was read from `bytes`.
    #[inline]
    fn read_extensions(&mut self, bytes: &[u8]) -> Result<(), DropReason> {
        let rest = bytes.get(Bth::LEN..self.len()).ok_or(DropReason::Short)?;
        if !rest.is_empty() {
            self.fill(rest);
        }
        Ok(())
    }

    /// Fills in the headers from `rest`, which holds all of them.
    fn fill(&mut self, mut rest: &[u8]) {
        let Opcode { transport, kind } = self.bth.opcode;
        let mut next = |len: usize| {
            let (head, tail) = rest.split_at(len);
            rest = tail;
            head
        };
        if transport == Transport::Xrc && kind.is_request() {
            self.srq = be32(next(4)) & crate::Psn::MASK;
        }
        if transport == Transport::Ud {
            self.deth = Deth::read(next(Deth::LEN));
        }
        if kind == Kind::Flush {
            self.feth = Feth::read(next(Feth::LEN));
        }
        if kind.has_reth() {
            self.reth = Reth::read(next(Reth::LEN));
        }
        if kind.is_atomic() {
            self.atomic = AtomicEth::read(next(AtomicEth::LEN));
        }
        if kind.has_aeth() {
            self.aeth = Aeth::read(next(Aeth::LEN));
        }
        if kind == Kind::AtomicAcknowledge {
            let (high, low) = (be32(next(4)), be32(next(4)));
            self.original = u64::from(high) << 32 | u64::from(low);
        }
        if kind.has_imm() {
            self.imm = be32(next(4));
        }
        if kind.has_ieth() {
            self.invalidate = be32(next(4));
        }
    }

    /// Writes the headers to the start of `out`, which has room; returns their length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let kind = self.bth.opcode.kind;
        self.bth.emit(out);
        let mut at = Bth::LEN;
        if self.len() == at {
            return at;
        }
        let mut next = |len: usize| {
            at += len;
            at - len..at
        };
        if self.bth.opcode.transport == Transport::Xrc && kind.is_request() {
            out[next(4)].copy_from_slice(&(self.srq & crate::Psn::MASK).to_be_bytes());
        }
        if self.bth.opcode.transport == Transport::Ud {
            self.deth.write(&mut out[next(Deth::LEN)]);
        }
        if kind == Kind::Flush {
            self.feth.write(&mut out[next(Feth::LEN)]);
        }
        if kind.has_reth() {
            self.reth.write(&mut out[next(Reth::LEN)]);
        }
        if kind.is_atomic() {
            self.atomic.write(&mut out[next(AtomicEth::LEN)]);
        }
        if kind.has_aeth() {
            self.aeth.write(&mut out[next(Aeth::LEN)]);
        }
        if kind == Kind::AtomicAcknowledge {
            out[next(8)].copy_from_slice(&self.original.to_be_bytes());
        }
        if kind.has_imm() {
            out[next(4)].copy_from_slice(&self.imm.to_be_bytes());
        }
        if kind.has_ieth() {
            out[next(4)].copy_from_slice(&self.invalidate.to_be_bytes());
        }
        at
    }
}

fn be32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |value, &byte| value << 8 | u32::from(byte))
}

/// A received packet whose lengths have been checked against each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// All headers.
    pub headers: Headers,
    /// Payload bytes that follow them; then come the pad and the ICRC.
    pub payload_len: u32,
}

impl Packet {
    /// Reads a packet: `bytes` starts at the base transport header and holds at least all headers,
    /// `len` is the length of the whole packet, with pad and ICRC.
    ///
    /// # Errors
    /// As [`Headers::parse`], or [`DropReason::Malformed`] for lengths that contradict each other
    /// (RC-1.4).
    #[inline]
    pub fn parse(bytes: &[u8], len: usize) -> Result<Self, DropReason> {
        let mut packet = Self { headers: Headers::new(Bth::parse(bytes)?), payload_len: 0 };
        packet.finish(bytes, len)?;
        Ok(packet)
    }

    /// Reads the rest of a packet whose base transport header was read.
    #[inline]
    pub(crate) fn finish(&mut self, bytes: &[u8], len: usize) -> Result<(), DropReason> {
        self.headers.read_extensions(bytes)?;
        let Bth { pad, opcode, .. } = self.headers.bth;
        let pad = usize::from(pad);
        let around = self.headers.len() + icrc::LEN + pad;
        let payload_len = len.checked_sub(around).ok_or(DropReason::Malformed)?;
        let is_empty = payload_len + pad == 0;
        if (payload_len + pad) % 4 != 0 || !(is_empty || opcode.kind.has_payload()) {
            return Err(DropReason::Malformed);
        }
        self.payload_len = u32::try_from(payload_len).map_err(|_| DropReason::Malformed)?;
        Ok(())
    }

    /// The payload starts this many bytes into the packet.
    #[must_use]
    pub const fn payload_at(&self) -> usize {
        self.headers.len()
    }
}

/// Returns the number of zero bytes behind a payload of this length (RC-1.4).
#[must_use]
pub const fn pad_of(payload_len: u32) -> u8 {
    (payload_len.wrapping_neg() & 3) as u8
}

#[cfg(test)]
mod tests;
