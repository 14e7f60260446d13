//! The rows of a participant, each locked by at most one transaction.

use crate::workload::prelude::*;

/// The mark of a row that is not locked.
const FREE: u32 = u32::MAX;

/// The rows of a participant, all of one length.
pub(in crate::workload) struct Rows {
    count: usize,
    bytes: Vec<u8>,
    /// The transaction that locks each row.
    holders: Vec<u32>,
    row_bytes: usize,
}

impl Rows {
    /// Makes `count` rows of at most `row_bytes`.
    pub(super) fn new(count: usize, row_bytes: usize) -> Result<Self, Failure> {
        let what = format!("{count} rows of {row_bytes} bytes: give fewer --keys");
        let bytes = filled(count.saturating_mul(row_bytes), 0, &what)?;
        Ok(Self { count, bytes, holders: filled(count, FREE, &what)?, row_bytes })
    }

    /// Sets the length of all rows from now on, and unlocks them.
    pub(super) fn begin(&mut self, row_bytes: usize) {
        self.row_bytes = row_bytes;
        self.holders.fill(FREE);
    }

    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// Locks a row for a transaction. Returns false if another transaction holds it.
    #[inline]
    pub(super) fn lock(&mut self, row: usize, transaction: u32) -> bool {
        let is_free = self.holders[row] == FREE;
        if is_free {
            self.holders[row] = transaction;
        }
        is_free
    }

    #[inline]
    pub(super) fn unlock(&mut self, row: usize) {
        self.holders[row] = FREE;
    }

    #[inline]
    pub(super) fn put(&mut self, row: usize, record: &[u8]) {
        let start = row * self.row_bytes;
        self.bytes[start..start + record.len()].copy_from_slice(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_one_holder() {
        let mut rows = Rows::new(3, 16).expect("memory");
        rows.begin(8);
        assert!(rows.lock(2, 7) && !rows.lock(2, 8) && !rows.lock(2, 7) && rows.lock(1, 8));
        rows.put(2, &[5; 8]);
        assert_eq!(rows.bytes[16..24], [5; 8]);
        rows.unlock(2);
        assert!(rows.lock(2, 8));
        rows.begin(16);
        assert!(rows.lock(2, 9) && rows.count() == 3);
    }
}
