//! Frames: several short messages in one datagram (SRD-14).
//!
//! ```text
//! common header | [acknowledgement block] | data block | entry | bytes | entry | bytes | ...
//! entry, 8 bytes: len u16 | op u8 | flg u8 | imm u32
//! ```
//! The data block has the number of the first message; the others have the next numbers. Its `op`
//! is the number of messages, its `len` the length of all entries and bytes, its `qkey` that of all
//! messages.

use super::take;

/// The entries and bytes of a frame are at most this long, and count as headers.
pub const FRAME_BYTES_MAX: usize = 1700;
/// The largest number of messages in a frame.
pub const FRAME_MESSAGES_MAX: usize = 32;
/// The smallest number of messages in a frame.
const FRAME_MESSAGES_MIN: usize = 2;

/// The header of a message in a frame. The fields are those of [`DataRepr`](super::DataRepr).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEntry {
    /// Payload bytes.
    pub len: u16,
    /// Operation of the host.
    pub op: u8,
    /// Flags of the host.
    pub flags: u8,
    /// Immediate data.
    pub imm: u32,
}

impl FrameEntry {
    /// Length in bytes.
    pub const LEN: usize = 8;

    /// Reads an entry from the start of `bytes`; `None` when there are too few.
    #[must_use]
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let b: &[u8; Self::LEN] = bytes.first_chunk()?;
        let len = u16::from_be_bytes(take(b, 0));
        Some(Self { len, op: b[2], flags: b[3], imm: u32::from_be_bytes(take(b, 4)) })
    }

    /// Returns the bytes of the entry.
    #[must_use]
    #[inline]
    pub fn emit(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[..2].copy_from_slice(&self.len.to_be_bytes());
        (out[2], out[3]) = (self.op, self.flags);
        out[4..].copy_from_slice(&self.imm.to_be_bytes());
        out
    }
}

/// Returns whether `body` holds exactly `count` messages, and a frame may have that many.
#[inline]
pub(super) fn is_whole(body: &[u8], count: u8) -> bool {
    let count = usize::from(count);
    if !(FRAME_MESSAGES_MIN..=FRAME_MESSAGES_MAX).contains(&count) || body.len() > FRAME_BYTES_MAX {
        return false;
    }
    let mut rest = body;
    for _ in 0..count {
        let Some(entry) = FrameEntry::parse(rest) else { return false };
        let Some(behind) = rest.get(FrameEntry::LEN + usize::from(entry.len)..) else {
            return false;
        };
        rest = behind;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lens: &[u16]) -> Vec<u8> {
        let mut body = Vec::new();
        for (imm, &len) in (0..).zip(lens) {
            body.extend(FrameEntry { len, op: 1, flags: 2, imm }.emit());
            body.resize(body.len() + usize::from(len), 0xEE);
        }
        body
    }

    #[test]
    fn an_entry_survives_a_round_trip() {
        let entry = FrameEntry { len: 0x1234, op: 5, flags: 6, imm: 0xDEAD_BEEF };
        assert_eq!(FrameEntry::parse(&entry.emit()), Some(entry));
        assert_eq!(FrameEntry::parse(&entry.emit()[..7]), None);
    }

    #[test]
    fn a_frame_is_whole_or_refused() {
        let whole = body(&[0, 3, 64]);
        assert!(is_whole(&whole, 3));
        for count in [0, 1, 2, 4, 33, 255] {
            assert!(!is_whole(&whole, count), "{count}");
        }
        for len in 0..whole.len() {
            assert!(!is_whole(&whole[..len], 3), "{len}");
        }
        assert!(!is_whole(&[&whole[..], &[0]].concat(), 3));
        assert!(is_whole(&body(&[0; 32]), 32) && !is_whole(&body(&[0; 33]), 33));
        assert!(is_whole(&body(&[1000, 684]), 2) && !is_whole(&body(&[1000, 685]), 2));
    }
}
