//! One endpoint with its slots managed, as the benchmarks use it.

use crate::backend::{BURST, Backend, Completion, Kind, Posted};
use crate::failure::Failure;
use crate::spec::Operation;

/// A message that arrived and waits in its slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) slot: usize,
    pub(crate) len_bytes: usize,
}

/// One side of an endpoint pair.
pub(crate) struct Link<B> {
    backend: B,
    operation: Operation,
    tx_free: Vec<usize>,
    /// Messages that arrived and were not handled; room for every posted receive, so that it
    /// never grows.
    pub(crate) arrived: Vec<Arrival>,
    found: [Completion; BURST],
}

impl<B: Backend> Link<B> {
    /// Takes a connected endpoint and posts all its receives.
    pub(crate) fn new(backend: B, operation: Operation) -> Result<Self, Failure> {
        let (tx, rx) = (backend.tx_slots(), backend.rx_slots());
        let mut this = Self {
            backend,
            operation,
            tx_free: (0..tx).rev().collect(),
            arrived: Vec::with_capacity(rx + BURST),
            found: [Completion::NONE; BURST],
        };
        for slot in tx..tx + rx {
            this.repost(slot)?;
        }
        Ok(this)
    }

    pub(crate) const fn backend(&self) -> &B {
        &self.backend
    }

    /// A point with messages of this length begins.
    pub(crate) fn begin(&mut self, size_bytes: usize) {
        self.backend.begin(size_bytes);
    }

    /// Sends in flight now.
    pub(crate) fn in_flight(&self) -> usize {
        self.backend.tx_slots() - self.tx_free.len()
    }

    /// Makes progress: completed sends free their slots, arrivals go to `arrived`. Answers how
    /// many completions there were.
    #[inline]
    pub(crate) fn poll(&mut self) -> Result<usize, Failure> {
        let count = self.backend.poll(&mut self.found)?;
        for done in &self.found[..count] {
            match done.kind {
                Kind::Sent => self.tx_free.push(done.slot),
                Kind::Received => {
                    self.arrived.push(Arrival { slot: done.slot, len_bytes: done.len_bytes });
                }
                Kind::Other => {}
            }
        }
        Ok(count)
    }

    /// A slot to fill for the next send, if one is free.
    #[inline]
    pub(crate) fn next_tx(&self) -> Option<usize> {
        self.tx_free.last().copied()
    }

    /// The payload of a free slot, to fill it.
    #[inline]
    pub(crate) fn payload_mut(&mut self, slot: usize) -> Result<&mut [u8], Failure> {
        self.backend.payload_mut(slot)
    }

    /// The payload of a free slot.
    #[inline]
    pub(crate) fn payload(&self, slot: usize) -> Result<&[u8], Failure> {
        self.backend.payload(slot)
    }

    /// Tries to send the slot that `next_tx` answered; false when the fabric is full.
    #[inline]
    pub(crate) fn try_send(&mut self, len_bytes: usize) -> Result<bool, Failure> {
        let Some(slot) = self.next_tx() else { return Ok(false) };
        let posted = match self.operation {
            Operation::Inject => self.backend.inject(slot, len_bytes)?,
            Operation::Send | Operation::Tagged => self.backend.send(slot, len_bytes)?,
        };
        if posted == Posted::Done {
            self.tx_free.pop();
        }
        Ok(posted != Posted::Full)
    }

    /// Copies a free slot's payload into another free slot.
    #[inline]
    pub(crate) fn copy(&mut self, from: usize, to: usize, len_bytes: usize) -> Result<(), Failure> {
        self.backend.copy(from, to, len_bytes)
    }

    /// Posts a receive slot again.
    #[inline]
    pub(crate) fn repost(&mut self, slot: usize) -> Result<(), Failure> {
        loop {
            if self.backend.receive(slot)? == Posted::Done {
                return Ok(());
            }
            self.poll()?;
        }
    }
}
