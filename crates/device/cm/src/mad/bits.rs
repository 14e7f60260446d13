//! Numbers and byte strings at bit positions of a message.

use super::{HEADER_LEN, MAD_LEN};

/// The position of a field, counted from the end of the common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BitRange {
    byte: usize,
    bit: usize,
    /// The width in bits; 0 means the width of the type.
    width: usize,
}

impl BitRange {
    /// Takes `[byte]`, or `[byte, bit, width]` for a field that does not fill its bytes; bit 0 is
    /// the highest.
    pub(super) const fn new(place: &[usize]) -> Self {
        match *place {
            [byte] => Self { byte, bit: 0, width: 0 },
            [byte, bit, width] => Self { byte, bit, width },
            _ => panic!("a field stands at a byte, or a byte, a bit and a width"),
        }
    }

    const fn start(self) -> usize {
        (HEADER_LEN + self.byte) * 8 + self.bit
    }

    fn range(self, full: usize) -> core::ops::Range<usize> {
        let width = if self.width == 0 { full } else { self.width };
        self.start()..self.start() + width
    }
}

/// A type of fields.
pub(super) trait Field: Sized {
    const ZERO: Self;
    fn get(mad: &[u8; MAD_LEN], place: BitRange) -> Self;
    fn put(&self, mad: &mut [u8; MAD_LEN], place: BitRange);
}

fn get_bits(mad: &[u8; MAD_LEN], bits: core::ops::Range<usize>) -> u64 {
    bits.fold(0, |value, bit| value << 1 | u64::from(mad[bit / 8] >> (7 - bit % 8) & 1))
}

fn put_bits(mad: &mut [u8; MAD_LEN], bits: core::ops::Range<usize>, value: u64) {
    for (shift, bit) in bits.rev().enumerate() {
        let mask = 1 << (7 - bit % 8);
        if value >> shift & 1 == 1 {
            mad[bit / 8] |= mask;
        } else {
            mad[bit / 8] &= !mask;
        }
    }
}

macro_rules! number {
    ($($type:ty),+) => {$(
        impl Field for $type {
            const ZERO: Self = 0;

            fn get(mad: &[u8; MAD_LEN], place: BitRange) -> Self {
                get_bits(mad, place.range(Self::BITS as usize)) as Self
            }

            fn put(&self, mad: &mut [u8; MAD_LEN], place: BitRange) {
                put_bits(mad, place.range(Self::BITS as usize), u64::from(*self));
            }
        }
    )+};
}

number!(u8, u16, u32, u64);

impl Field for bool {
    const ZERO: Self = false;

    fn get(mad: &[u8; MAD_LEN], place: BitRange) -> Self {
        get_bits(mad, place.range(1)) == 1
    }

    fn put(&self, mad: &mut [u8; MAD_LEN], place: BitRange) {
        put_bits(mad, place.range(1), u64::from(*self));
    }
}

impl<const N: usize> Field for [u8; N] {
    const ZERO: Self = [0; N];

    fn get(mad: &[u8; MAD_LEN], place: BitRange) -> Self {
        let mut out = [0; N];
        out.copy_from_slice(&mad[place.start() / 8..][..N]);
        out
    }

    fn put(&self, mad: &mut [u8; MAD_LEN], place: BitRange) {
        mad[place.start() / 8..][..N].copy_from_slice(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_touches_its_own_bits_only() {
        let place = BitRange::new(&[43, 5, 2]);
        let mut mad = [0xFF; MAD_LEN];
        1u8.put(&mut mad, place);
        assert_eq!(mad[HEADER_LEN + 43], 0b1111_1011);
        assert_eq!(mad.iter().filter(|&&byte| byte != 0xFF).count(), 1);
        assert_eq!(u8::get(&mad, place), 1);
    }

    #[test]
    fn what_is_too_wide_is_cut() {
        let place = BitRange::new(&[32, 0, 24]);
        let mut mad = [0; MAD_LEN];
        0xAB12_3456u32.put(&mut mad, place);
        assert_eq!(mad[HEADER_LEN + 32..][..4], [0x12, 0x34, 0x56, 0]);
        assert_eq!(u32::get(&mad, place), 0x12_3456);
    }
}
