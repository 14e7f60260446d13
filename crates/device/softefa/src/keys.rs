//! Keys of memory regions that cannot be told from the keys before.
//!
//! A key has 24 bits, because the device's descriptors have room for no more, so it can be guessed
//! by whoever may try for long. It must not be known without trying: a secret permutation of the 24
//! bits stands between the slots of a device and the keys it gives out.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use crate::host;

/// Bits of a key.
pub(crate) const KEY_BITS: u32 = 24;
const HALF_BITS: u32 = KEY_BITS / 2;
const HALF_MASK: u32 = (1 << HALF_BITS) - 1;
/// Luby and Rackoff: four rounds of a pseudorandom function make a strong permutation.
const ROUNDS: u64 = 4;

/// The permutation of one device.
#[derive(Debug, Clone)]
pub(crate) struct KeyCipher(SipHasher24);

impl KeyCipher {
    /// A permutation of its own, from the operating system's generator.
    pub(crate) fn new() -> Self {
        Self(SipHasher24::new_with_key(&host::random_bytes()))
    }

    /// The key that stands for `plain`, of which only the lower [`KEY_BITS`] count.
    pub(crate) fn conceal(&self, plain: u32) -> u32 {
        let (mut left, mut right) = (plain >> HALF_BITS & HALF_MASK, plain & HALF_MASK);
        for round in 0..ROUNDS {
            (left, right) = (right, left ^ self.mask(round, right));
        }
        left << HALF_BITS | right
    }

    /// Returns what `key` stands for; any number when it has more than [`KEY_BITS`].
    pub(crate) fn reveal(&self, key: u32) -> u32 {
        let (mut left, mut right) = (key >> HALF_BITS & HALF_MASK, key & HALF_MASK);
        for round in (0..ROUNDS).rev() {
            (left, right) = (right ^ self.mask(round, left), left);
        }
        left << HALF_BITS | right
    }

    fn mask(&self, round: u64, half: u32) -> u32 {
        let mut hasher = self.0;
        hasher.write_u64(round << 32 | u64::from(half));
        #[expect(clippy::cast_possible_truncation, reason = "masked")]
        let mask = hasher.finish() as u32 & HALF_MASK;
        mask
    }
}

/// Low bits of a key that are not a part of the permutation, where keys have a tag.
pub(crate) const TAG_BITS: u32 = 8;

/// The shape of a device's keys.
#[derive(Debug)]
pub(crate) struct KeySpace {
    cipher: KeyCipher,
    is_tagged: bool,
}

impl KeySpace {
    /// Keys of an EFA: [`KEY_BITS`], all of them hidden.
    pub(crate) fn plain() -> Self {
        Self { cipher: KeyCipher::new(), is_tagged: false }
    }

    /// Keys of a RoCE device: the same, and a tag below.
    pub(crate) fn tagged() -> Self {
        Self { cipher: KeyCipher::new(), is_tagged: true }
    }

    /// The key that stands for `plain`; its tag is as hard to guess as the rest.
    pub(crate) fn key_of(&self, plain: u32) -> u32 {
        let hidden = self.cipher.conceal(plain);
        let tag = self.cipher.mask(ROUNDS, plain) & ((1 << TAG_BITS) - 1);
        if self.is_tagged { hidden << TAG_BITS | tag } else { hidden }
    }

    /// Returns what a key stands for, whatever its tag is; any number for those that were never
    /// given.
    pub(crate) fn plain_of(&self, key: u32) -> u32 {
        self.cipher.reveal(if self.is_tagged { key >> TAG_BITS } else { key })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_stands_for_one_number() {
        let cipher = KeyCipher::new();
        let mut seen = vec![false; 1 << KEY_BITS];
        for plain in 0..1 << KEY_BITS {
            let key = cipher.conceal(plain);
            assert!(!std::mem::replace(&mut seen[key as usize], true), "{plain:#x}");
        }
        for plain in (0..1 << KEY_BITS).step_by(997) {
            assert_eq!(cipher.reveal(cipher.conceal(plain)), plain);
        }
    }

    #[test]
    fn a_tag_does_not_change_what_a_key_stands_for() {
        let keys = KeySpace::tagged();
        let mut tags = std::collections::HashSet::new();
        for plain in (0..1 << KEY_BITS).step_by(9973) {
            let key = keys.key_of(plain);
            assert_eq!([key, key ^ 0xff, key ^ 1].map(|key| keys.plain_of(key)), [plain; 3]);
            tags.insert(key & 0xff);
        }
        assert!(tags.len() > 200, "tags are drawn, too: {}", tags.len());
    }

    #[test]
    fn devices_have_keys_of_their_own() {
        let first = || KeyCipher::new().conceal(1 << 18);
        let keys: std::collections::HashSet<u32> = (0..16).map(|_| first()).collect();
        assert!(keys.len() > 8, "{keys:?}");
    }
}
