//! The server's data: a hash table of keys and values of one length.

use std::collections::HashMap;
use std::ops::Range;

use bench_record::workload::KEY_BYTES;

use super::caller::Naming;
use crate::measure::Random;
use crate::pattern;
use crate::refusal::Refusal;
use crate::workload::prelude::*;

/// The number of low bits of the number behind a value that tell its key; the bits above count its
/// versions.
const INDEX_BITS: u32 = 40;

/// Names for keys that are their numbers.
pub(super) struct Names;

impl Naming for Names {
    #[inline]
    fn index(&self, rank: u64, _value_bytes: usize) -> u64 {
        rank
    }

    #[inline]
    fn key(&self, index: u64) -> [u8; KEY_BYTES] {
        key(index)
    }
}

/// Returns the key with number `index`: spread bytes, then the number.
#[inline]
pub(super) fn key(index: u64) -> [u8; KEY_BYTES] {
    let mut key = [0; KEY_BYTES];
    key[..8].copy_from_slice(&Random::new(index).next().to_le_bytes());
    key[8..].copy_from_slice(&index.to_le_bytes());
    key
}

/// Returns the number in a key.
#[inline]
pub(super) const fn index(key: &[u8; KEY_BYTES]) -> u64 {
    u64::from_le_bytes([key[8], key[9], key[10], key[11], key[12], key[13], key[14], key[15]])
}

/// Writes version `version` of the value of key `index`.
#[inline]
pub(super) fn fill(value: &mut [u8], index: u64, version: u64) {
    pattern::fill(value, index | version << INDEX_BITS);
}

/// Returns true if this is any version of the value of key `index`, and undamaged.
pub(super) fn is_value(value: &[u8], index: u64) -> bool {
    let mask = (1 << INDEX_BITS) - 1;
    matches!(pattern::check(value), Ok(Some(number)) if number & mask == index)
}

/// The keys and values of one lane.
pub(super) struct Store {
    /// The places of values by their keys.
    places: HashMap<[u8; KEY_BYTES], usize>,
    values: Vec<u8>,
    /// The length of all values in bytes; 0: the store is not filled yet.
    value_bytes: usize,
}

impl Store {
    /// Makes room for `keys` values of at most `value_bytes`.
    pub(super) fn new(keys: usize, value_bytes: usize) -> Result<Self, Failure> {
        let what = format!("{keys} values of {value_bytes} bytes: give fewer --keys");
        let values = filled(keys.saturating_mul(value_bytes), 0, &what)?;
        let mut places = HashMap::new();
        let reserved = places.try_reserve(keys);
        reserved.map_err(|_| Refusal::Memory(what))?;
        places.extend((0..keys).map(|index| (key(index as u64), index)));
        Ok(Self { places, values, value_bytes: 0 })
    }

    /// Fills the store with values of this length.
    pub(super) fn begin(&mut self, value_bytes: usize) {
        if self.value_bytes == value_bytes {
            return;
        }
        self.value_bytes = value_bytes;
        let values = self.values.chunks_exact_mut(value_bytes.max(1)).take(self.places.len());
        for (value, index) in values.zip(0..) {
            fill(value, index, 0);
        }
    }

    /// Finds the value of a key.
    #[inline]
    pub(super) fn find(&self, key: &[u8; KEY_BYTES]) -> Option<Range<usize>> {
        let start = self.places.get(key)? * self.value_bytes;
        Some(start..start + self.value_bytes)
    }

    /// Returns a value that `find` has found; nothing if there is none.
    #[inline]
    pub(super) fn value(&self, place: Range<usize>) -> &[u8] {
        self.values.get(place).unwrap_or_default()
    }

    /// Replaces a value. Returns false if there is no such key or the value has another length.
    #[inline]
    pub(super) fn put(&mut self, key: &[u8; KEY_BYTES], value: &[u8]) -> bool {
        let Some(place) = self.find(key) else { return false };
        match self.values.get_mut(place) {
            Some(place) if place.len() == value.len() => place.copy_from_slice(value),
            _ => return false,
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_replaced_and_made_anew() {
        let mut store = Store::new(100, 64).expect("memory");
        let get = |store: &Store, index| store.find(&key(index)).map(|p| store.value(p).to_vec());
        store.begin(32);
        for index in 0..100 {
            let value = &get(&store, index).expect("a value");
            assert!(value.len() == 32 && is_value(value, index), "{index}");
            assert!(!is_value(value, index + 1));
        }
        assert!(get(&store, 100).is_none());
        let mut value = [0; 32];
        fill(&mut value, 7, 3);
        assert!(store.put(&key(7), &value));
        assert_eq!(get(&store, 7).as_deref(), Some(&value[..]));
        assert!(!store.put(&key(7), &value[..31]) && !store.put(&key(100), &value));
        value[31] ^= 1;
        assert!(!is_value(&value, 7));
        store.begin(64);
        assert!(get(&store, 99).is_some_and(|value| value.len() == 64 && is_value(&value, 99)));
    }
}
