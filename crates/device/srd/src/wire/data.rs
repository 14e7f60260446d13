//! The data block (SRD-2.4).
//!
//! ```text
//!  0               4               8
//! +-------------------------------+
//! |             conn              |   random token of this direction
//! +---------------+---------------+
//! |      psn      |     tx_ts     |   sequence number, 16 ns ticks of this transmission
//! +-------+-------+---+---+-------+
//! |oldest |backlog| op|flg|  len  |   psn - oldest unresolved; log-coded bytes still queued
//! +-------+-------+---+---+-------+
//! |     qkey      |      imm      |
//! +---------------+---------------+
//! |      cookie (only with INIT)  |
//! +-------------------------------+
//! ```

use super::take;
use super::{Flags, Header};
use crate::{DropReason, PSN_WINDOW, Psn};

mod field {
    pub(super) const CONN: usize = 0;
    pub(super) const PSN: usize = 8;
    pub(super) const TX_TS: usize = 12;
    pub(super) const OLDEST: usize = 16;
    pub(super) const BACKLOG: usize = 18;
    pub(super) const OP: usize = 20;
    pub(super) const FLAGS: usize = 21;
    pub(super) const LEN: usize = 22;
    pub(super) const QKEY: usize = 24;
    pub(super) const IMM: usize = 28;
    pub(super) const COOKIE: usize = 32;
}

/// A data block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataRepr {
    /// Token of the sender's direction.
    pub conn: u64,
    /// Sequence number.
    pub psn: Psn,
    /// Sender's clock at this transmission, in ticks of 16 ns.
    pub tx_ts: u32,
    /// The distance of `psn` from the sender's oldest unresolved number, below [`PSN_WINDOW`].
    pub oldest: u16,
    /// Log-coded bytes still queued behind this packet.
    pub backlog: u16,
    /// Operation of the host.
    pub op: u8,
    /// Flags of the host.
    pub flags: u8,
    /// Payload bytes.
    pub len: u16,
    /// Queue key.
    pub qkey: u32,
    /// Immediate data.
    pub imm: u32,
    /// Proof that the sender has its address (SRD-3.4), present while it has not been answered; 0
    /// for none.
    pub cookie: Option<u64>,
}

impl DataRepr {
    /// Length in bytes without a cookie.
    pub const LEN: usize = 32;
    /// Length in bytes with a cookie.
    pub const LEN_INIT: usize = 40;

    /// Reads a block from the start of `bytes`; also returns its length.
    ///
    /// # Errors
    /// [`DropReason::Short`], or [`DropReason::Malformed`] for an impossible `oldest`.
    #[inline(always)]
    pub fn parse(bytes: &[u8], init: bool) -> Result<(Self, usize), DropReason> {
        let b: &[u8; Self::LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
        let (cookie, len) = if init {
            let full: &[u8; Self::LEN_INIT] = bytes.first_chunk().ok_or(DropReason::Short)?;
            (Some(u64::from_be_bytes(take(full, field::COOKIE))), Self::LEN_INIT)
        } else {
            (None, Self::LEN)
        };
        let oldest = u16::from_be_bytes(take(b, field::OLDEST));
        if u32::from(oldest) >= PSN_WINDOW {
            return Err(DropReason::Malformed);
        }
        let repr = Self {
            conn: u64::from_be_bytes(take(b, field::CONN)),
            psn: Psn(u32::from_be_bytes(take(b, field::PSN))),
            tx_ts: u32::from_be_bytes(take(b, field::TX_TS)),
            oldest,
            backlog: u16::from_be_bytes(take(b, field::BACKLOG)),
            op: b[field::OP],
            flags: b[field::FLAGS],
            len: u16::from_be_bytes(take(b, field::LEN)),
            qkey: u32::from_be_bytes(take(b, field::QKEY)),
            imm: u32::from_be_bytes(take(b, field::IMM)),
            cookie,
        };
        Ok((repr, len))
    }

    /// Replaces the operation in `headers`, which end with a data block, for a host that finds out
    /// late that it cannot perform the intended one.
    pub fn replace_op(headers: &mut [u8], op: u8) {
        let init = Header::parse(headers).is_ok_and(|header| header.flags.has(Flags::INIT));
        let len = if init { Self::LEN_INIT } else { Self::LEN };
        if let Some(start) = headers.len().checked_sub(len) {
            headers[start + field::OP] = op;
        }
    }

    /// Writes the block to the start of `out`, which has room; returns its length.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) -> usize {
        let mut len = Self::LEN;
        if let Some(cookie) = self.cookie {
            len = Self::LEN_INIT;
            out[field::COOKIE..len].copy_from_slice(&cookie.to_be_bytes());
        }
        let out = &mut out[..Self::LEN];
        out[field::CONN..field::PSN].copy_from_slice(&self.conn.to_be_bytes());
        out[field::PSN..field::TX_TS].copy_from_slice(&self.psn.0.to_be_bytes());
        out[field::TX_TS..field::OLDEST].copy_from_slice(&self.tx_ts.to_be_bytes());
        out[field::OLDEST..field::BACKLOG].copy_from_slice(&self.oldest.to_be_bytes());
        out[field::BACKLOG..field::OP].copy_from_slice(&self.backlog.to_be_bytes());
        out[field::OP] = self.op;
        out[field::FLAGS] = self.flags;
        out[field::LEN..field::QKEY].copy_from_slice(&self.len.to_be_bytes());
        out[field::QKEY..field::IMM].copy_from_slice(&self.qkey.to_be_bytes());
        out[field::IMM..field::COOKIE].copy_from_slice(&self.imm.to_be_bytes());
        len
    }
}

/// Encodes a number as 16-bit floating point: exponent in the high byte, mantissa in the low
/// (SRD-2.6).
#[must_use]
#[inline]
pub(crate) fn encode_log(value: u64) -> u16 {
    if value < 256 {
        return value as u16;
    }
    let shift = 55 - value.leading_zeros();
    ((shift as u16 + 1) << 8) | ((value >> shift) as u16 & 0xFF)
}

/// Decodes a number of [`encode_log`], rounded down to its 9 leading bits.
#[must_use]
pub(crate) fn decode_log(code: u16) -> u64 {
    let (exponent, mantissa) = (u32::from(code >> 8), u64::from(code & 0xFF));
    if exponent == 0 {
        return mantissa;
    }
    (mantissa | 0x100) << (exponent - 1).min(55)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(cookie: Option<u64>) -> DataRepr {
        DataRepr {
            conn: 0x0123_4567_89AB_CDEF,
            psn: Psn(0xFFFF_FFF0),
            tx_ts: 77,
            oldest: 8191,
            backlog: 513,
            op: 3,
            flags: 9,
            len: 8928,
            qkey: 0xDEAD_BEEF,
            imm: 5,
            cookie,
        }
    }

    #[test]
    fn survives_a_round_trip() {
        for repr in [sample(None), sample(Some(u64::MAX - 3))] {
            let mut out = [0; 64];
            let len = repr.emit(&mut out);
            assert_eq!(DataRepr::parse(&out[..len], repr.cookie.is_some()), Ok((repr, len)));
            assert_eq!(
                DataRepr::parse(&out[..len - 1], repr.cookie.is_some()),
                Err(DropReason::Short)
            );
        }
    }

    #[test]
    fn refuses_an_oldest_outside_the_window() {
        let mut out = [0; 64];
        let len = DataRepr { oldest: 8192, ..sample(None) }.emit(&mut out);
        assert_eq!(DataRepr::parse(&out[..len], false), Err(DropReason::Malformed));
    }

    #[test]
    fn log_code_keeps_nine_bits() {
        for value in [0, 1, 255, 256, 257, 511, 512, 65_535, 1 << 20, 3_000_000, u64::MAX] {
            let back = decode_log(encode_log(value));
            assert!(back <= value && value - back <= value >> 8, "{value} came back as {back}");
        }
        assert!(encode_log(1 << 20) < encode_log((1 << 20) + (1 << 12)));
        let _ = decode_log(u16::MAX);
    }
}
