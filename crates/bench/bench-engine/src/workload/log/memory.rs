//! The log of a replica: the last records, each in its place.

use crate::workload::prelude::*;

/// The number of bytes that are kept: far more than any cache near a core, like those of a real
/// log.
const KEPT_BYTES: usize = 16 << 20;

/// The records that were appended, in the order of their numbers; the oldest are overwritten.
pub(in crate::workload) struct Memory {
    bytes: Vec<u8>,
}

impl Memory {
    pub(super) fn new() -> Result<Self, Failure> {
        let bytes = filled(KEPT_BYTES, 0, format_args!("a log of {KEPT_BYTES} bytes"))?;
        Ok(Self { bytes })
    }

    /// Puts records of one length, the first of which has this number, in their places. A record
    /// that alone is longer than the memory is kept in part.
    #[inline]
    pub(super) fn put(&mut self, number: u64, records: &[u8], record_bytes: usize) {
        let places = (KEPT_BYTES / record_bytes.max(1)).max(1) as u64;
        let start = (number % places) as usize * record_bytes;
        let end = places as usize * record_bytes.min(KEPT_BYTES);
        let (head, tail) = records.split_at(records.len().min(end.saturating_sub(start)));
        self.bytes[start..start + head.len()].copy_from_slice(head);
        // The rest that does not fit before the end continues at the beginning.
        let tail = &tail[..tail.len().min(end)];
        self.bytes[..tail.len()].copy_from_slice(tail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_go_to_their_places_and_round_the_end() {
        let mut memory = Memory::new().expect("memory");
        let places = (KEPT_BYTES / 1000) as u64;
        memory.put(places - 1, &[[1_u8; 1000], [2; 1000]].concat(), 1000);
        let end = places as usize * 1000;
        assert_eq!(memory.bytes[end - 1000..end], [1; 1000]);
        assert_eq!(memory.bytes[..1001], [&[2_u8; 1000][..], &[0]].concat());
        memory.put(places + 1, &[3; 1000], 1000);
        assert_eq!(memory.bytes[999..1001], [2, 3]);
    }

    #[test]
    fn no_record_is_too_long() {
        let mut memory = Memory::new().expect("memory");
        memory.put(7, &vec![1; KEPT_BYTES + 5], KEPT_BYTES + 5);
        memory.put(7, &vec![1; 3 * KEPT_BYTES], KEPT_BYTES);
    }
}
