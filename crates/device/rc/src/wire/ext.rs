//! Extension headers, which follow the base transport header as the opcode says (RC-1.2).

use crate::Psn;

/// Copies the `N` bytes at `at`; the caller has checked that they exist.
#[inline]
fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(take(bytes, at))
}

#[inline]
fn long(bytes: &[u8], at: usize) -> u64 {
    u64::from_be_bytes(take(bytes, at))
}

/// The memory a WRITE, a READ or a FLUSH is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reth {
    /// Virtual address.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes of the whole message.
    pub dma_len: u32,
}

impl Reth {
    /// Length in bytes.
    pub const LEN: usize = 16;

    #[inline]
    pub(crate) fn read(b: &[u8]) -> Self {
        Self { va: long(b, 0), rkey: word(b, 8), dma_len: word(b, 12) }
    }

    #[inline]
    pub(crate) fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.va.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        out[12..16].copy_from_slice(&self.dma_len.to_be_bytes());
    }
}

/// The operands of an atomic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AtomicEth {
    /// Virtual address of the 8 bytes.
    pub va: u64,
    /// Remote key.
    pub rkey: u32,
    /// The value to swap in, or to add.
    pub swap_or_add: u64,
    /// The value to compare with.
    pub compare: u64,
}

impl AtomicEth {
    /// Length in bytes.
    pub const LEN: usize = 28;

    pub(super) fn read(b: &[u8]) -> Self {
        Self { va: long(b, 0), rkey: word(b, 8), swap_or_add: long(b, 12), compare: long(b, 20) }
    }

    pub(super) fn write(&self, out: &mut [u8]) {
        out[..8].copy_from_slice(&self.va.to_be_bytes());
        out[8..12].copy_from_slice(&self.rkey.to_be_bytes());
        out[12..20].copy_from_slice(&self.swap_or_add.to_be_bytes());
        out[20..28].copy_from_slice(&self.compare.to_be_bytes());
    }
}

/// The reason why a responder refuses a request for good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum NakCode {
    /// A packet is missing; the only code that is no refusal.
    Sequence = 0,
    /// The request is not allowed or makes no sense.
    InvalidRequest = 1,
    /// Key, right or range of remote memory.
    RemoteAccess = 2,
    /// The responder cannot do it, for a reason of its own.
    RemoteOperation = 3,
    /// The shared receive queue that a request of XRC names is not there.
    InvalidQueue = 4,
}

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syndrome {
    /// Done; 5 bits of credits, 31 for "not counted".
    Ack(u8),
    /// No receive is posted; try again when this timer (5 bits) has passed.
    RnrNak(u8),
    /// Not done.
    Nak(NakCode),
    /// A syndrome that is reserved.
    Unknown(u8),
}

impl Syndrome {
    /// Done, and credits are not counted.
    pub const ACK: Self = Self::Ack(31);

    /// The syndrome with this code.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        match (code >> 5, code & 31) {
            (0, credits) => Self::Ack(credits),
            (1, timer) => Self::RnrNak(timer),
            (3, 0) => Self::Nak(NakCode::Sequence),
            (3, 1) => Self::Nak(NakCode::InvalidRequest),
            (3, 2) => Self::Nak(NakCode::RemoteAccess),
            (3, 3) => Self::Nak(NakCode::RemoteOperation),
            (3, 4) => Self::Nak(NakCode::InvalidQueue),
            _ => Self::Unknown(code),
        }
    }

    /// The code on the wire.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Ack(credits) => credits & 31,
            Self::RnrNak(timer) => 0x20 | timer & 31,
            Self::Nak(code) => 0x60 | code as u8,
            Self::Unknown(code) => code,
        }
    }
}

/// An acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aeth {
    /// The answer to the request.
    pub syndrome: Syndrome,
    /// Messages that the responder has completed, 24 bits.
    pub msn: u32,
}

impl Aeth {
    /// Length in bytes.
    pub const LEN: usize = 4;

    pub(super) fn read(b: &[u8]) -> Self {
        Self { syndrome: Syndrome::from_code(b[0]), msn: word(b, 0) & Psn::MASK }
    }

    pub(super) fn write(&self, out: &mut [u8]) {
        out[..4].copy_from_slice(&(self.msn & Psn::MASK).to_be_bytes());
        out[0] = self.syndrome.code();
    }
}

/// The sender of an unreliable datagram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Deth {
    /// Queue key.
    pub qkey: u32,
    /// Queue pair that sent it, 24 bits.
    pub src_qpn: u32,
}

impl Deth {
    /// Length in bytes.
    pub const LEN: usize = 8;

    pub(super) fn read(b: &[u8]) -> Self {
        Self { qkey: word(b, 0), src_qpn: word(b, 4) & Psn::MASK }
    }

    pub(super) fn write(&self, out: &mut [u8]) {
        out[..4].copy_from_slice(&self.qkey.to_be_bytes());
        out[4..8].copy_from_slice(&(self.src_qpn & Psn::MASK).to_be_bytes());
    }
}

/// The scope of a FLUSH.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Feth {
    /// Makes what was written visible to everyone.
    pub is_global: bool,
    /// Makes what was written survive a loss of power.
    pub is_persistent: bool,
    /// The whole memory region, not the range of the RETH.
    pub is_whole_region: bool,
}

impl Feth {
    /// Length in bytes.
    pub const LEN: usize = 4;

    pub(super) fn read(b: &[u8]) -> Self {
        Self {
            is_global: b[3] & 1 != 0,
            is_persistent: b[3] & 2 != 0,
            is_whole_region: b[3] & 0x30 == 0x10,
        }
    }

    pub(super) fn write(&self, out: &mut [u8]) {
        let bit = |on: bool, bit: u8| if on { bit } else { 0 };
        let code = bit(self.is_global, 1) | bit(self.is_persistent, 2);
        out[..4].copy_from_slice(&[0, 0, 0, code | bit(self.is_whole_region, 0x10)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_syndrome_code_survives() {
        for code in 0..=255 {
            assert_eq!(Syndrome::from_code(code).code(), code);
        }
        assert_eq!(Syndrome::ACK.code(), 0x1F);
        assert_eq!(Syndrome::from_code(0x61), Syndrome::Nak(NakCode::InvalidRequest));
    }
}
