//! The check of a datagram (SRD-2.10): CRC32C of its headers, or of all of it when it is sealed.
//!
//! UDP's checksum lets one damaged datagram in 65,536 pass. A damaged payload is the program's, who
//! may check it; a damaged header would write to another address or end a send that never arrived.
#![allow(unsafe_code)]

use srd::wire::{Extent, Flags, Header};

use super::RDMA_BLOCK_BYTES;

/// Bytes of all headers, the adapter's own included; `None` when they cannot be read or there are
/// fewer bytes than they should have.
#[inline]
pub(super) fn headers_len(datagram: &[u8]) -> Option<usize> {
    let extent = Extent::of(datagram)?;
    // A SEND (operation 0) has no block, everything else should have (SRD-10.1).
    let block = if extent.op == 0 { 0 } else { RDMA_BLOCK_BYTES.min(extent.payload_len) };
    let len = extent.headers_len + block;
    (len <= datagram.len()).then_some(len)
}

/// The same, when the check covers no more.
#[inline]
pub(super) fn covered_len(head: &[u8]) -> Option<usize> {
    headers_len(head).filter(|_| !Flags(head[Header::FLAGS_AT]).has(Flags::SEALED))
}

/// Fills in the check of a datagram that starts with `bytes`; these are what it covers.
#[inline]
pub(super) fn fill_in(bytes: &mut [u8], is_sealed: bool) {
    if is_sealed {
        bytes[Header::FLAGS_AT] |= Flags::SEALED.0;
    }
    let check = compute(bytes);
    bytes[Header::CHECK].copy_from_slice(&check.to_be_bytes());
}

/// The datagram is as its sender made it, as far as its check tells.
#[inline]
pub(super) fn is_intact(datagram: &[u8]) -> bool {
    let Some(headers_len) = headers_len(datagram) else { return false };
    let is_sealed = Flags(datagram[Header::FLAGS_AT]).has(Flags::SEALED);
    let covered = if is_sealed { datagram } else { &datagram[..headers_len] };
    covered[Header::CHECK] == compute(covered).to_be_bytes()
}

/// Headers are shorter than this. What is longer gains from the crate's three streams at a time, whose
/// beginning and end cost headers as much as their bytes.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 512;

/// Of everything but the check itself.
#[inline]
fn compute(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() < SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { compute_short(bytes) };
    }
    compute_long(bytes)
}

fn compute_long(bytes: &[u8]) -> u32 {
    let before = crc32c::crc32c(&bytes[..Header::CHECK.start]);
    crc32c::crc32c_append(before, &bytes[Header::CHECK.end..])
}

/// The same, eight bytes at a time whatever their alignment.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn compute_short(bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    let (before, after) = (&bytes[..Header::CHECK.start], &bytes[Header::CHECK.end..]);
    let (words, rest) = after.as_chunks();
    let mut crc = u64::from(u32::MAX);
    for word in before.as_chunks().0 {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    for word in words {
        crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
    }
    let (half, rest) = rest.as_chunks();
    let mut crc = crc as u32;
    for half in half {
        crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
    }
    for byte in rest {
        crc = _mm_crc32_u8(crc, *byte);
    }
    !crc
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

    /// Which bytes may be altered unseen.
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

    #[test]
    fn short_and_long_ones_agree() {
        let bytes: Vec<u8> = (0..600u32).map(|i| ((i * 167) >> 3) as u8).collect();
        for start in 0..9 {
            for len in Header::CHECK.end..bytes.len() - start {
                let covered = &bytes[start..start + len];
                assert_eq!(compute(covered), compute_long(covered), "{len} bytes from {start}");
            }
        }
    }

    #[test]
    fn the_polynomial_is_castagnolis() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, least significant byte first.
        assert_eq!(crc32c::crc32c(&[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }
}
