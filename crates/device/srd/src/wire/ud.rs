//! Unreliable datagrams, which the engine does not handle itself (SRD-9.1).
//!
//! ```text
//!  0               4               8
//! +-------------------------------+
//! |  common header, kind UD       |
//! +---------------+---------------+
//! |     qkey      |      imm      |
//! +---+---+-------+---------------+
//! | op|flg|  len  |   payload ...
//! +---+---+-------+
//! ```

use super::{Extent, Flags, Header, Kind, take};
use crate::{DropReason, PathId};

mod field {
    use super::Header;

    pub(super) const QKEY: usize = Header::LEN;
    pub(super) const IMM: usize = QKEY + 4;
    pub(super) const OP: usize = IMM + 4;
    pub(super) const FLAGS: usize = OP + 1;
    pub(super) const LEN: usize = FLAGS + 1;
    pub(super) const END: usize = LEN + 2;
}

/// An unreliable datagram's headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdRepr {
    /// The path the sender chose.
    pub path: PathId,
    /// Queue pair that sent it.
    pub src_qpn: u16,
    /// Queue pair it is for.
    pub dst_qpn: u16,
    /// Queue key; the receiver checks it.
    pub qkey: u32,
    /// Immediate data.
    pub imm: u32,
    /// Operation of the host.
    pub op: u8,
    /// Flags of the host.
    pub flags: u8,
    /// Payload bytes.
    pub len: u16,
}

impl UdRepr {
    /// Length of the headers in bytes.
    pub const LEN: usize = field::END;

    /// Returns the lengths of the datagram that starts with `bytes`.
    #[inline(always)]
    pub(super) fn extent(bytes: &[u8]) -> Option<Extent> {
        let b: &[u8; Self::LEN] = bytes.first_chunk()?;
        let payload_len = usize::from(u16::from_be_bytes(take(b, field::LEN)));
        Some(Extent { headers_len: Self::LEN, payload_len, op: b[field::OP] })
    }

    /// Reads a datagram of full length `datagram_len` that starts with `bytes`.
    ///
    /// # Errors
    /// The reasons of [`Header::parse`]; [`DropReason::Kind`] when it is not an unreliable
    /// datagram; [`DropReason::Malformed`] when `len` contradicts `datagram_len`.
    pub fn parse(bytes: &[u8], datagram_len: usize) -> Result<Self, DropReason> {
        let header = Header::parse(bytes)?;
        if header.kind != Kind::Ud {
            return Err(DropReason::Kind);
        }
        let b: &[u8; Self::LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
        let len = u16::from_be_bytes(take(b, field::LEN));
        if Self::LEN + usize::from(len) != datagram_len {
            return Err(DropReason::Malformed);
        }
        Ok(Self {
            path: header.path,
            src_qpn: header.src_qpn,
            dst_qpn: header.dst_qpn,
            qkey: u32::from_be_bytes(take(b, field::QKEY)),
            imm: u32::from_be_bytes(take(b, field::IMM)),
            op: b[field::OP],
            flags: b[field::FLAGS],
            len,
        })
    }

    /// Writes the headers.
    pub fn emit(&self, out: &mut [u8; Self::LEN]) {
        let header = Header {
            kind: Kind::Ud,
            flags: Flags::default(),
            path: self.path,
            src_qpn: self.src_qpn,
            dst_qpn: self.dst_qpn,
        };
        header.emit(out);
        out[field::QKEY..field::IMM].copy_from_slice(&self.qkey.to_be_bytes());
        out[field::IMM..field::OP].copy_from_slice(&self.imm.to_be_bytes());
        out[field::OP] = self.op;
        out[field::FLAGS] = self.flags;
        out[field::LEN..].copy_from_slice(&self.len.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip_and_checks_its_length() {
        let repr = UdRepr {
            path: PathId(1),
            src_qpn: 2,
            dst_qpn: 3,
            qkey: 4,
            imm: 5,
            op: 6,
            flags: 7,
            len: 100,
        };
        let mut out = [0; UdRepr::LEN];
        repr.emit(&mut out);
        assert_eq!(UdRepr::parse(&out, UdRepr::LEN + 100), Ok(repr));
        assert_eq!(UdRepr::parse(&out, UdRepr::LEN + 99), Err(DropReason::Malformed));
        assert_eq!(UdRepr::parse(&out[..UdRepr::LEN - 1], UdRepr::LEN), Err(DropReason::Short));
    }
}
