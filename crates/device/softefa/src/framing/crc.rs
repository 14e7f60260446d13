//! The check of a datagram (SRD-2.10): CRC32C of its headers, or of all of it when it is sealed.
//!
//! UDP's checksum lets one damaged datagram in 65,536 pass. A damaged payload is left to the
//! program, which may check it; a damaged header would write to another address, or end a send that
//! never arrived.

use srd::wire::{Extent, Flags, Header};

use super::RDMA_BLOCK_BYTES;
use super::crc32c::{self, as_chunks};

/// Returns the length of all headers, the adapter's own included; `None` if they cannot be parsed
/// or are truncated.
#[inline]
pub(super) fn headers_len(datagram: &[u8]) -> Option<usize> {
    let extent = Extent::of(datagram)?;
    // A SEND (operation 0) has no block, everything else should have (SRD-10.1).
    let block = if extent.op == 0 { 0 } else { RDMA_BLOCK_BYTES.min(extent.payload_len) };
    let len = extent.headers_len + block;
    (len <= datagram.len()).then_some(len)
}

/// Returns the length that the check covers, unless it covers more than the headers.
#[inline]
pub(super) fn covered_len(head: &[u8]) -> Option<usize> {
    headers_len(head).filter(|_| !Flags(head[Header::FLAGS_AT]).has(Flags::SEALED))
}

/// Fills in the check of a datagram. `bytes` are its covered part.
#[inline]
pub(super) fn fill_in(bytes: &mut [u8], is_sealed: bool) {
    if is_sealed {
        bytes[Header::FLAGS_AT] |= Flags::SEALED.0;
    }
    let check = compute(bytes);
    bytes[Header::CHECK].copy_from_slice(&check.to_be_bytes());
}

/// Returns true if the check of the datagram is right.
#[inline]
pub(super) fn is_intact(datagram: &[u8]) -> bool {
    let Some(headers_len) = headers_len(datagram) else { return false };
    let is_sealed = Flags(datagram[Header::FLAGS_AT]).has(Flags::SEALED);
    let covered = if is_sealed { datagram } else { &datagram[..headers_len] };
    covered[Header::CHECK] == compute(covered).to_be_bytes()
}

/// Computes the check over everything but the check itself.
#[inline]
fn compute(bytes: &[u8]) -> u32 {
    crc32c::of(as_chunks(&bytes[..Header::CHECK.start]).0, &bytes[Header::CHECK.end..])
}

#[cfg(test)]
mod tests {
    use srd::PathId;
    use srd::wire::ud::UdRepr;

    use super::*;

    fn datagram(op: u8, payload: &[u8], is_sealed: bool) -> Vec<u8> {
        let mut raw = [0; UdRepr::LEN];
        let len = payload.len() as u16;
        let path = PathId(3);
        UdRepr { path, src_qpn: 1, dst_qpn: 2, qkey: 3, imm: 4, op, flags: 0, len }.emit(&mut raw);
        let mut bytes = [&raw[..], payload].concat();
        let covered = if is_sealed { bytes.len() } else { headers_len(&bytes).unwrap() };
        fill_in(&mut bytes[..covered], is_sealed);
        bytes
    }

    /// Returns the positions of the bytes that may be altered undetected.
    fn blind_spots(bytes: &[u8]) -> Vec<usize> {
        let is_blind = |at: &usize| {
            let mut bent = bytes.to_vec();
            bent[*at] ^= 0x40;
            is_intact(&bent)
        };
        (0..bytes.len()).filter(is_blind).collect()
    }

    #[test]
    fn headers_are_always_covered_and_payload_when_sealed() {
        let plain = datagram(0, &[7; 30], false);
        assert!(is_intact(&plain));
        assert_eq!(blind_spots(&plain), (UdRepr::LEN..UdRepr::LEN + 30).collect::<Vec<_>>());
        let sealed = datagram(0, &[7; 30], true);
        assert!(is_intact(&sealed));
        assert_eq!(blind_spots(&sealed), []);
    }

    #[test]
    fn the_block_of_rdma_is_a_header() {
        let write = datagram(1, &[7; RDMA_BLOCK_BYTES + 2], false);
        let end = write.len();
        assert_eq!(blind_spots(&write), [end - 2, end - 1]);
    }

    #[test]
    fn what_cannot_be_read_is_not_intact() {
        let plain = datagram(0, &[], false);
        for len in 0..plain.len() {
            assert!(!is_intact(&plain[..len]));
        }
    }
}
