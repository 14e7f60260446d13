//! Packets of RoCE v2 as datagrams.

use rc::wire::{Bth, Headers, icrc, pad_of};

/// Bytes behind a payload at most.
pub(super) const TRAILER_MAX: usize = 3 + icrc::LEN;

/// Bytes of all headers; `None` when they cannot be read or there are fewer bytes than they should have.
#[inline]
pub(super) fn headers_len(packet: &[u8]) -> Option<usize> {
    let bth = Bth::parse(packet).ok()?;
    let len = Headers::new(bth).len();
    (len <= packet.len()).then_some(len)
}

/// Pad and ICRC.
#[inline]
pub(super) fn trailer_len(payload_len: usize) -> usize {
    // Packets are short.
    #[expect(clippy::cast_possible_truncation, reason = "only the last two bits count")]
    let pad = pad_of(payload_len as u32);
    pad as usize + icrc::LEN
}
