//! The source of tuples.

use super::partition::{hash, owner};
use crate::pattern;
use crate::workload::demand::Demand;

/// A tuple that was drawn and is not written yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drawn {
    key: u64,
    pub(super) hash: u64,
    pub(super) partition: usize,
}

/// A source of tuples, each with a key and a payload.
pub(super) struct Source<'a> {
    demand: &'a mut Demand,
    partitions: usize,
    /// The bytes that tuples are copied from: a relation that stays in a cache.
    row: Vec<u8>,
    /// True if the bytes of a tuple follow from its key instead.
    validate: bool,
}

impl<'a> Source<'a> {
    pub(super) fn new(
        demand: &'a mut Demand,
        partitions: usize,
        tuple_bytes: usize,
        validate: bool,
    ) -> Self {
        let mut row = vec![0; tuple_bytes];
        pattern::fill(&mut row, 0);
        Self { demand, partitions, row, validate }
    }

    #[inline]
    pub(super) fn draw(&mut self) -> Drawn {
        let key = self.demand.draw();
        let hash = hash(key);
        Drawn { key, hash, partition: owner(hash, self.partitions) }
    }

    /// Writes a drawn tuple to a place with room for one tuple.
    #[inline]
    pub(super) fn write(&self, drawn: Drawn, tuple: &mut [u8]) {
        if self.validate {
            pattern::fill(tuple, drawn.key);
        } else {
            tuple.copy_from_slice(&self.row);
            pattern::write_number(tuple, drawn.key);
        }
    }
}
