//! Atomic operations of an endpoint. Their slots wait in `fetched` when they are done.

use bench_record::failure::Failure;

use super::Link;
use crate::backend::{Atomic, Backend, Posted};

impl<B: Backend> Link<B> {
    /// Makes room for all slots that may wait in `fetched`.
    pub(crate) fn keep_atomics(&mut self) {
        self.fetched.reserve(self.backend.tx_slots());
    }

    /// Tries an atomic operation with the slot from `next_tx` on the word of the peer's memory at
    /// `offset`. Returns false if the fabric is full.
    #[inline]
    pub(crate) fn try_atomic(&mut self, atomic: Atomic, offset: u64) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        if self.backend.post_atomic(atomic, offset, slot)? == Posted::Full {
            return Ok(false);
        }
        self.tx_free.pop();
        Ok(true)
    }

    /// Returns the value that the atomic operation with this slot of `fetched` has fetched.
    #[inline]
    pub(crate) fn fetched_word(&self, slot: usize) -> Result<u64, Failure> {
        self.backend.fetched(self.operation, slot)
    }

    /// Copies the front of the memory that the peer uses.
    pub(crate) fn read_window(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.backend.read_window(bytes)
    }
}
