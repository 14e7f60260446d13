//! The twelve bytes every datagram starts with (SRD-2.1).
//!
//! ```text
//!  0               1               2               3
//! +-------+-------+---------------+-------------------------------+
//! |version| kind  |     flags     |             path              |
//! +-------+-------+---------------+-------------------------------+
//! |            src_qpn            |            dst_qpn            |
//! +-------------------------------+-------------------------------+
//! |                             check                             |
//! +---------------------------------------------------------------+
//! ```
//!
//! The engine writes 0 to `check` and does not read it: the host that puts datagrams on a network
//! that can damage them fills it in and verifies it (SRD-2.10).

use core::ops::Range;

use crate::{DropReason, PathId};

/// The protocol version of this crate.
pub const VERSION: u8 = 1;

/// The kind of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data, an acknowledgement, or both.
    Srd,
    /// The receiver knows nothing of this connection.
    Reset,
    /// An unreliable datagram.
    Ud,
    /// The receiver does not let these messages open a connection.
    Refused,
    /// The sender must prove its address before it opens a connection.
    Challenge,
    /// Like [`Kind::Srd`], with several messages (SRD-14).
    Frame,
}

/// Flag bits of the common header (SRD-2.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    /// The sender has not been answered yet; the data block carries a cookie.
    pub const INIT: Self = Self(0x01);
    /// A repetition.
    pub const RTX: Self = Self(0x02);
    /// Acknowledge at once.
    pub const ACK_REQ: Self = Self(0x04);
    /// An acknowledgement block follows.
    pub const HAS_ACK: Self = Self(0x08);
    /// A data block follows (after the acknowledgement block).
    pub const HAS_DATA: Self = Self(0x10);
    /// The last permitted try of a message whose receiver was not ready.
    pub const FINAL_TRY: Self = Self(0x20);
    /// Sent to find out whether a peer or a path is alive.
    pub const PROBE: Self = Self(0x40);
    /// `check` covers the payload, too. Set by the host, not by the engine.
    pub const SEALED: Self = Self(0x80);

    /// Returns whether any bit of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns both sets together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the set with `other` added when `on`.
    #[must_use]
    pub const fn with_if(self, on: bool, other: Self) -> Self {
        if on { self.with(other) } else { self }
    }
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The kind of what follows.
    pub kind: Kind,
    /// Flag bits; unknown ones are ignored.
    pub flags: Flags,
    /// The path the sender chose.
    pub path: PathId,
    /// Queue pair that sent it.
    pub src_qpn: u16,
    /// Queue pair it is for.
    pub dst_qpn: u16,
}

impl Header {
    /// Length in bytes.
    pub const LEN: usize = 12;
    /// The byte that holds the flags.
    pub const FLAGS_AT: usize = 1;
    /// The bytes that hold the check.
    pub const CHECK: Range<usize> = 8..12;

    /// Reads the header at the start of a datagram.
    ///
    /// # Errors
    /// [`DropReason::Short`], [`DropReason::Version`] or [`DropReason::Kind`].
    #[inline(always)]
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        let b: &[u8; Self::LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
        if b[0] >> 4 != VERSION {
            return Err(DropReason::Version);
        }
        let kind = match b[0] & 15 {
            0 => Kind::Srd,
            1 => Kind::Reset,
            2 => Kind::Ud,
            3 => Kind::Refused,
            4 => Kind::Challenge,
            5 => Kind::Frame,
            _ => return Err(DropReason::Kind),
        };
        Ok(Self {
            kind,
            flags: Flags(b[1]),
            path: PathId(u16::from_be_bytes([b[2], b[3]])),
            src_qpn: u16::from_be_bytes([b[4], b[5]]),
            dst_qpn: u16::from_be_bytes([b[6], b[7]]),
        })
    }

    /// Writes the header to the start of `out`, which has room.
    #[inline]
    pub fn emit(&self, out: &mut [u8]) {
        let out = &mut out[..Self::LEN];
        let kind = match self.kind {
            Kind::Srd => 0,
            Kind::Reset => 1,
            Kind::Ud => 2,
            Kind::Refused => 3,
            Kind::Challenge => 4,
            Kind::Frame => 5,
        };
        out[0] = VERSION << 4 | kind;
        out[1] = self.flags.0;
        out[2..4].copy_from_slice(&self.path.0.to_be_bytes());
        out[4..6].copy_from_slice(&self.src_qpn.to_be_bytes());
        out[6..8].copy_from_slice(&self.dst_qpn.to_be_bytes());
        out[Self::CHECK].fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn survives_a_round_trip() {
        let header = Header {
            kind: Kind::Ud,
            flags: Flags(0xA5),
            path: PathId(7),
            src_qpn: 0x1234,
            dst_qpn: 0xFEDC,
        };
        let mut out = [0; Header::LEN];
        header.emit(&mut out);
        assert_eq!(Header::parse(&out), Ok(header));
    }

    #[test]
    fn refuses_other_versions_and_kinds() {
        assert_eq!(Header::parse(&[0; 11]), Err(DropReason::Short));
        assert_eq!(Header::parse(&[0x20; 12]), Err(DropReason::Version));
        assert_eq!(Header::parse(&[0x1F; 12]), Err(DropReason::Kind));
    }
}
