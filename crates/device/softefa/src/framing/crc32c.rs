//! CRC32C of headers.
#![allow(unsafe_code)]

/// The length below which headers are checked here. Longer input gains from the three parallel
/// streams of the `crc32c` crate, whose setup costs as much as checking a header.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 512;

/// Computes the CRC32C of `words` followed by `rest`.
#[inline]
pub(super) fn of(words: &[[u8; 8]], rest: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if rest.len() < SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { of_short(words, rest) };
    }
    ::crc32c::crc32c_append(::crc32c::crc32c(words.as_flattened()), rest)
}

/// Computes the CRC32C of `word` and a header of `N` bytes, a multiple of four.
#[inline]
pub(super) fn of_header<const N: usize>(word: [u8; 8], header: &[u8; N]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return unsafe { of_header_unrolled(word, header) };
    }
    of(&[word], header)
}

/// Computes the same without a loop, because the length is known.
///
/// # Safety
/// The processor has SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[allow(unused_unsafe, reason = "what it calls is safe here from Rust 1.87 on")]
unsafe fn of_header_unrolled<const N: usize>(word: [u8; 8], header: &[u8; N]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u32, _mm_crc32_u64};

    const { assert!(N % 4 == 0, "a header is made of words of four bytes") };
    let (whole, half) = as_chunks::<8>(header);
    // SAFETY: the processor has the instructions, as the caller says.
    unsafe {
        let mut crc = _mm_crc32_u64(u64::from(u32::MAX), u64::from_le_bytes(word));
        for bytes in whole {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*bytes));
        }
        let crc = crc as u32;
        !half.first_chunk().map_or(crc, |last| _mm_crc32_u32(crc, u32::from_le_bytes(*last)))
    }
}

/// Splits `bytes` into arrays of `N` bytes and a rest.
#[inline]
pub(super) fn as_chunks<const N: usize>(bytes: &[u8]) -> (&[[u8; N]], &[u8]) {
    let count = bytes.len() / N;
    let (whole, rest) = bytes.split_at(count * N);
    // SAFETY: that many arrays of bytes lie there, and bytes need no alignment.
    (unsafe { std::slice::from_raw_parts(whole.as_ptr().cast(), count) }, rest)
}

/// Computes the same with the processor's instruction, eight bytes at a time.
///
/// # Safety
/// The processor has SSE 4.2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
#[allow(unused_unsafe, reason = "what it calls is safe here from Rust 1.87 on")]
unsafe fn of_short(words: &[[u8; 8]], rest: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u32, _mm_crc32_u64};

    let (more, rest) = as_chunks(rest);
    let mut crc = u64::from(u32::MAX);
    // SAFETY: the processor has the instructions, as the caller says.
    unsafe {
        for word in words {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        }
        for word in more {
            crc = _mm_crc32_u64(crc, u64::from_le_bytes(*word));
        }
        let (half, rest) = as_chunks(rest);
        let mut crc = crc as u32;
        for half in half {
            crc = _mm_crc32_u32(crc, u32::from_le_bytes(*half));
        }
        for byte in rest {
            crc = _mm_crc32_u8(crc, *byte);
        }
        !crc
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_ones_agree() {
        let bytes: Vec<u8> = (0..600u32).map(|i| ((i * 167) >> 3) as u8).collect();
        for start in 0..9 {
            for words in 0..4 {
                for len in (0..64).chain([511, 512, 513]) {
                    let (words, rest) = bytes[start..].split_at(words * 8);
                    let whole = ::crc32c::crc32c(&bytes[start..start + words.len() + len]);
                    assert_eq!(of(as_chunks(words).0, &rest[..len]), whole, "{len} from {start}");
                }
            }
        }
    }

    #[test]
    fn a_header_is_checked_like_any_bytes() {
        fn check<const N: usize>() {
            let word = *b"a length";
            let header: [u8; N] = std::array::from_fn(|at| (at * 37 + 5) as u8);
            assert_eq!(of_header(word, &header), of(&[word], &header), "{N} bytes");
        }
        check::<0>();
        check::<4>();
        check::<12>();
        check::<16>();
        check::<28>();
    }

    #[test]
    fn the_polynomial_is_castagnolis() {
        // RFC 3720, appendix B.4: 32 bytes of zeros, least significant byte first.
        assert_eq!(of(&[], &[0; 32]).to_le_bytes(), [0xaa, 0x36, 0x91, 0x8a]);
    }
}
