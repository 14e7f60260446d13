//! What ranks have before an operation, and what they must have after it.

use bench_record::workload::{CollectiveSpec, Pattern};

use crate::pattern;

/// Adds 32-bit integers.
#[inline]
pub(super) fn add(sums: &mut [u8], addends: &[u8]) {
    for (sum, addend) in sums.chunks_exact_mut(4).zip(addends.chunks_exact(4)) {
        let value = |bytes: &[u8]| bytes.first_chunk().map_or(0, |own| u32::from_le_bytes(*own));
        let total = value(sum).wrapping_add(value(addend));
        sum.copy_from_slice(&total.to_le_bytes());
    }
}

/// The memory of one rank.
pub(super) struct Contents {
    spec: CollectiveSpec,
    rank: usize,
    ranks: usize,
    /// What this rank has.
    pub(super) mine: Vec<u8>,
    /// What it gets.
    pub(super) all: Vec<u8>,
    wanted: Vec<u8>,
}

impl Contents {
    /// For operations with `bytes` of each rank.
    pub(super) fn new(spec: CollectiveSpec, rank: usize, ranks: usize, bytes: usize) -> Self {
        let blocks = if spec.pattern == Pattern::Allgather { ranks } else { 1 };
        Self {
            spec,
            rank,
            ranks,
            mine: vec![0; bytes],
            all: vec![0; bytes * blocks],
            wanted: vec![0; bytes],
        }
    }

    /// Fills in what this rank has, other bytes for each operation.
    pub(super) fn prepare(&mut self, operation: u64) {
        match self.spec.pattern {
            Pattern::Allgather => fill(&mut self.mine, self.rank, operation),
            Pattern::Allreduce => addends(&mut self.mine, self.rank as u32 + 1, operation),
            Pattern::Bcast if self.rank == 0 => fill(&mut self.all, 0, operation),
            Pattern::Bcast => self.all.fill(0),
            Pattern::Barrier => {}
        }
    }

    /// Whether this rank has got what it should.
    pub(super) fn verify(&mut self, operation: u64) -> bool {
        match self.spec.pattern {
            Pattern::Allgather if self.wanted.is_empty() => true,
            Pattern::Allgather => {
                let Self { all, wanted, .. } = self;
                all.chunks(wanted.len()).enumerate().all(|(rank, block)| {
                    fill(wanted, rank, operation);
                    block == wanted.as_slice()
                })
            }
            Pattern::Allreduce => {
                let ranks = self.ranks as u32;
                addends(&mut self.wanted, ranks * (ranks + 1) / 2, operation);
                self.all == self.wanted
            }
            Pattern::Bcast => {
                fill(&mut self.wanted, 0, operation);
                self.all == self.wanted
            }
            Pattern::Barrier => true,
        }
    }
}

/// Bytes of a rank.
fn fill(bytes: &mut [u8], rank: usize, operation: u64) {
    pattern::fill(bytes, operation << 8 | rank as u64);
}

/// Integers that are multiples of `factor`.
fn addends(bytes: &mut [u8], factor: u32, operation: u64) {
    for (integer, index) in bytes.chunks_exact_mut(4).zip(operation as u32..) {
        integer.copy_from_slice(&factor.wrapping_mul(index).to_le_bytes());
    }
}
