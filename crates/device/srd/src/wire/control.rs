//! Answers to senders without a connection: the common header and a few fields.
//!
//! ```text
//! +-------------------------------+
//! |             conn              |   RESET: I know nothing of this connection (SRD-3.5)
//! +-------------------------------+
//! |             conn              |   REFUSED: these messages open no connection here (SRD-3.9)
//! +---------------+-------+---+---+
//! |      psn      | count |st.| 0 |
//! +---------------+-------+---+---+
//! |             conn              |   CHALLENGE: prove your address with this cookie (SRD-3.10)
//! +-------------------------------+
//! |            cookie             |
//! +-------------------------------+
//! ```

use super::{DropRange, Header, take};
use crate::{DropReason, PSN_WINDOW, Psn, Status};

/// Length of a RESET datagram in bytes.
pub const RESET_LEN: usize = Header::LEN + 8;
/// Length of a REFUSED datagram in bytes.
pub const REFUSED_LEN: usize = Header::LEN + 16;
/// Length of a CHALLENGE datagram in bytes.
pub const CHALLENGE_LEN: usize = Header::LEN + 16;

mod field {
    use super::Header;

    pub(super) const CONN: usize = Header::LEN;
    pub(super) const PSN: usize = CONN + 8;
    pub(super) const COUNT: usize = PSN + 4;
    pub(super) const STATUS: usize = COUNT + 2;
    pub(super) const COOKIE: usize = CONN + 8;
}

/// A refusal of messages that leaves no state behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Token that their datagrams named.
    pub conn: u64,
    /// Their numbers and the status they end with; they are never tried again.
    pub range: DropRange,
}

/// A challenge: what the opener of a connection has to send back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Token that the opening datagram named.
    pub conn: u64,
    /// The proof to send along, not 0.
    pub cookie: u64,
}

/// Writes a RESET for connection `conn`; returns its length.
pub fn emit_reset(header: &Header, conn: u64, out: &mut [u8; RESET_LEN]) -> usize {
    header.emit(out);
    out[field::CONN..].copy_from_slice(&conn.to_be_bytes());
    RESET_LEN
}

/// Reads the token of a RESET datagram.
///
/// # Errors
/// [`DropReason::Short`], or [`DropReason::Malformed`] when it is longer than a RESET.
pub fn parse_reset(bytes: &[u8], datagram_len: usize) -> Result<u64, DropReason> {
    let b: &[u8; RESET_LEN] = whole(bytes, datagram_len)?;
    Ok(u64::from_be_bytes(take(b, field::CONN)))
}

impl Refused {
    /// Writes the datagram; returns its length.
    pub fn emit(&self, header: &Header, out: &mut [u8; REFUSED_LEN]) -> usize {
        header.emit(out);
        out[field::CONN..field::PSN].copy_from_slice(&self.conn.to_be_bytes());
        out[field::PSN..field::COUNT].copy_from_slice(&self.range.psn.0.to_be_bytes());
        out[field::COUNT..field::STATUS].copy_from_slice(&self.range.count.to_be_bytes());
        out[field::STATUS..].copy_from_slice(&[self.range.status.code(), 0]);
        REFUSED_LEN
    }

    /// Reads a datagram of kind [`Kind::Refused`](super::Kind::Refused).
    ///
    /// # Errors
    /// [`DropReason::Short`], or [`DropReason::Malformed`] for another length or an impossible
    /// count.
    pub fn parse(bytes: &[u8], datagram_len: usize) -> Result<Self, DropReason> {
        let b: &[u8; REFUSED_LEN] = whole(bytes, datagram_len)?;
        let count = u16::from_be_bytes(take(b, field::COUNT));
        if count == 0 || u32::from(count) > PSN_WINDOW {
            return Err(DropReason::Malformed);
        }
        let psn = Psn(u32::from_be_bytes(take(b, field::PSN)));
        let status = Status::from_wire(b[field::STATUS]);
        let range = DropRange { psn, count, status, retry: false };
        Ok(Self { conn: u64::from_be_bytes(take(b, field::CONN)), range })
    }
}

impl Challenge {
    /// Writes the datagram; returns its length.
    pub fn emit(&self, header: &Header, out: &mut [u8; CHALLENGE_LEN]) -> usize {
        header.emit(out);
        out[field::CONN..field::COOKIE].copy_from_slice(&self.conn.to_be_bytes());
        out[field::COOKIE..].copy_from_slice(&self.cookie.to_be_bytes());
        CHALLENGE_LEN
    }

    /// Reads a datagram of kind [`Kind::Challenge`](super::Kind::Challenge).
    ///
    /// # Errors
    /// [`DropReason::Short`], or [`DropReason::Malformed`] when it is longer than a CHALLENGE.
    pub fn parse(bytes: &[u8], datagram_len: usize) -> Result<Self, DropReason> {
        let b: &[u8; CHALLENGE_LEN] = whole(bytes, datagram_len)?;
        Ok(Self {
            conn: u64::from_be_bytes(take(b, field::CONN)),
            cookie: u64::from_be_bytes(take(b, field::COOKIE)),
        })
    }
}

/// Returns the bytes of a datagram whose length must be exactly `N`.
fn whole<const N: usize>(bytes: &[u8], datagram_len: usize) -> Result<&[u8; N], DropReason> {
    let whole = bytes.first_chunk().ok_or(DropReason::Short)?;
    if datagram_len == N { Ok(whole) } else { Err(DropReason::Malformed) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PathId;
    use crate::wire::{DataRepr, Extent, Flags, Kind};

    fn header(kind: Kind) -> Header {
        Header { kind, flags: Flags::default(), path: PathId(1), src_qpn: 2, dst_qpn: 3 }
    }

    #[test]
    fn survive_a_round_trip() {
        let range =
            DropRange { psn: Psn(7), count: 8192, status: Status::BadDestQpn, retry: false };
        let refused = Refused { conn: 5, range };
        let mut out = [0; REFUSED_LEN];
        let len = refused.emit(&header(Kind::Refused), &mut out);
        assert_eq!(Refused::parse(&out, len), Ok(refused));
        assert_eq!(Header::parse(&out), Ok(header(Kind::Refused)));
        assert_eq!(Extent::of(&out).map(Extent::datagram_len), Some(len));
        assert_eq!(Refused::parse(&out[..len - 1], len - 1), Err(DropReason::Short));
        for count in [0, 8193_u16] {
            out[field::COUNT..field::STATUS].copy_from_slice(&count.to_be_bytes());
            assert_eq!(Refused::parse(&out, len), Err(DropReason::Malformed));
        }
        let challenge = Challenge { conn: u64::MAX, cookie: 9 };
        let len = challenge.emit(&header(Kind::Challenge), &mut out);
        assert_eq!(Challenge::parse(&out, len), Ok(challenge));
        assert_eq!(Header::parse(&out), Ok(header(Kind::Challenge)));
        assert_eq!(Extent::of(&out).map(Extent::datagram_len), Some(len));
        assert_eq!(Challenge::parse(&out, len + 1), Err(DropReason::Malformed));
    }

    /// SRD-3.11: forging a sender's address amplifies nothing.
    #[test]
    fn answers_are_shorter_than_what_they_answer() {
        let data = Header::LEN + DataRepr::LEN;
        let opening = Header::LEN + DataRepr::LEN_INIT;
        assert!(RESET_LEN < data && REFUSED_LEN < opening && CHALLENGE_LEN < opening);
    }
}
