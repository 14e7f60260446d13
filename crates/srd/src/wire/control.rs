//! RESET: "I know nothing of this connection" (SRD-3.5). The common header and the token.

use super::{Header, take};
use crate::DropReason;

/// Length of a RESET datagram in bytes.
pub const RESET_LEN: usize = Header::LEN + 8;

/// Writes a RESET for connection `conn`; returns its length.
pub fn emit_reset(header: &Header, conn: u64, out: &mut [u8; RESET_LEN]) -> usize {
    header.emit(out);
    out[Header::LEN..].copy_from_slice(&conn.to_be_bytes());
    RESET_LEN
}

/// The token of a RESET datagram.
///
/// # Errors
/// [`DropReason::Short`], or [`DropReason::Malformed`] when it is longer than a RESET.
pub fn parse_reset(bytes: &[u8], datagram_len: usize) -> Result<u64, DropReason> {
    let b: &[u8; RESET_LEN] = bytes.first_chunk().ok_or(DropReason::Short)?;
    if datagram_len != RESET_LEN {
        return Err(DropReason::Malformed);
    }
    Ok(u64::from_be_bytes(take(b, Header::LEN)))
}
