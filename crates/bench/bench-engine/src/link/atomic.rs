//! Atomics of an endpoint. Their slots wait in `fetched` when they are done.

use bench_record::failure::Failure;

use super::Link;
use crate::backend::{Atomic, Backend, Posted};

impl<B: Backend> Link<B> {
    /// Makes room for all that may be fetched at a time.
    pub(crate) fn keep_atomics(&mut self) {
        self.fetched.reserve(self.backend.tx_slots());
    }

    /// Tries an atomic with the slot that `next_tx` answered, on the word of the peer's memory that
    /// begins there; false when the fabric is full.
    #[inline]
    pub(crate) fn try_atomic(&mut self, atomic: Atomic, offset: u64) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        if self.backend.post_atomic(atomic, offset, slot)? == Posted::Full {
            return Ok(false);
        }
        self.tx_free.pop();
        Ok(true)
    }

    /// Returns what the atomic has fetched that had this slot of `fetched`.
    #[inline]
    pub(crate) fn fetched_word(&self, slot: usize) -> Result<u64, Failure> {
        self.backend.fetched(self.operation, slot)
    }

    /// Copies the front of the memory that the peer uses.
    pub(crate) fn read_window(&self, bytes: &mut [u8]) -> Result<(), Failure> {
        self.backend.read_window(bytes)
    }
}
