//! For how long another process may copy our memory.
//!
//! A lease is a word at a fixed address of this process, which whoever copies reads *after* the
//! bytes (SRD-10.7). Ending it is the promise the owner needs: no byte that is read later counts.
//! Values count up from a random one, so that no two processes have the same.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::generation::PerProcess;
use crate::host;

/// Value of a lease that nobody has.
pub(crate) const ENDED: u64 = 0;

/// A word of memory; must be ended before the memory is used for something else.
#[derive(Debug)]
pub(crate) struct Lease(AtomicU64);

impl Lease {
    pub(crate) const fn new() -> Self {
        Self(AtomicU64::new(ENDED))
    }

    /// Gives the word a value no lease of this process had before.
    pub(crate) fn begin(&self) {
        static FIRST: PerProcess<u64> = PerProcess::new();
        static BEGUN: AtomicU64 = AtomicU64::new(0);
        let number = BEGUN.fetch_add(1, Ordering::Relaxed);
        let value = FIRST.get_or_init(host::random_u64).wrapping_add(number).max(ENDED + 1);
        self.0.store(value, Ordering::Release);
    }

    /// Ends the lease: nothing that is copied from now on counts. Answers whether it had not been
    /// ended before.
    pub(crate) fn end(&self) -> bool {
        let before = self.0.swap(ENDED, Ordering::AcqRel);
        // The owner's next store to the memory must not be seen before.
        fence(Ordering::SeqCst);
        before != ENDED
    }

    pub(crate) fn is_live(&self) -> bool {
        self.value() != ENDED
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    pub(crate) fn addr(&self) -> u64 {
        self.0.as_ptr() as usize as u64
    }
}
