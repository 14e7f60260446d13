//! The data of ranks before an operation, and the expected data after it.

use bench_record::failure::Failure;
use bench_record::workload::{CollectiveSpec, Pattern};

use crate::pattern;
use crate::workload::filled;

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
    /// The bytes that this rank has before an operation.
    pub(super) mine: Vec<u8>,
    /// The bytes that this rank gets.
    pub(super) all: Vec<u8>,
    wanted: Vec<u8>,
}

impl Contents {
    /// Makes contents for operations with `bytes` of each rank.
    pub(super) fn new(
        spec: CollectiveSpec,
        rank: usize,
        ranks: usize,
        bytes: usize,
    ) -> Result<Self, Failure> {
        let whole = if spec.pattern.is_in_parts() { bytes.saturating_mul(ranks) } else { bytes };
        let (mine, wanted) = match spec.pattern {
            Pattern::Alltoall => (whole, bytes),
            Pattern::ReduceScatter => (whole, whole),
            _ => (bytes, bytes),
        };
        let zeros =
            |count| filled(count, 0, format_args!("{bytes} bytes of each of {ranks} ranks"));
        let (mine, all, wanted) = (zeros(mine)?, zeros(whole)?, zeros(wanted)?);
        Ok(Self { spec, rank, ranks, mine, all, wanted })
    }

    /// Fills in the data of this rank before an operation, which differs for each operation.
    pub(super) fn prepare(&mut self, operation: u64) {
        match self.spec.pattern {
            Pattern::Allgather | Pattern::Gather => fill(&mut self.mine, self.rank, operation),
            Pattern::Alltoall if self.wanted.is_empty() => {}
            Pattern::Alltoall => {
                let parts = self.mine.chunks_mut(self.wanted.len());
                parts.enumerate().for_each(|(to, part)| for_one(part, self.rank, to, operation));
            }
            Pattern::Allreduce | Pattern::ReduceScatter => {
                addends(&mut self.mine, self.rank as u32 + 1, operation);
            }
            Pattern::Bcast if self.rank == 0 => fill(&mut self.all, 0, operation),
            Pattern::Bcast => self.all.fill(0),
            Pattern::Barrier => {}
        }
    }

    /// Returns true if this rank has got the expected data.
    pub(super) fn verify(&mut self, operation: u64) -> bool {
        match self.spec.pattern {
            // The other ranks only pass parts on.
            Pattern::Gather if self.rank > 0 => true,
            pattern if pattern.is_in_parts() && self.wanted.is_empty() => true,
            Pattern::Allgather | Pattern::Gather => {
                self.all_parts_are(|wanted, from, _| fill(wanted, from, operation))
            }
            Pattern::Alltoall => {
                self.all_parts_are(|wanted, from, own| for_one(wanted, from, own, operation))
            }
            Pattern::ReduceScatter => {
                let ranks = self.ranks as u32;
                addends(&mut self.wanted, ranks * (ranks + 1) / 2, operation);
                let bytes = self.wanted.len() / self.ranks;
                let own = self.rank * bytes..(self.rank + 1) * bytes;
                self.all[own.clone()] == self.wanted[own]
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

    /// Returns true if each part has the bytes that `write` writes for its sender and this rank.
    fn all_parts_are(&mut self, write: impl Fn(&mut [u8], usize, usize)) -> bool {
        let Self { all, wanted, rank, .. } = self;
        all.chunks(wanted.len()).enumerate().all(|(from, part)| {
            write(wanted, from, *rank);
            part == wanted.as_slice()
        })
    }
}

/// Writes the bytes of one rank that are for another one.
fn for_one(bytes: &mut [u8], from: usize, to: usize, operation: u64) {
    pattern::fill(bytes, operation << 16 | (from << 8 | to) as u64);
}

/// Writes the bytes of a rank.
fn fill(bytes: &mut [u8], rank: usize, operation: u64) {
    pattern::fill(bytes, operation << 8 | rank as u64);
}

/// Writes integers that are multiples of `factor`.
fn addends(bytes: &mut [u8], factor: u32, operation: u64) {
    for (integer, index) in bytes.chunks_exact_mut(4).zip(operation as u32..) {
        integer.copy_from_slice(&factor.wrapping_mul(index).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use bench_record::workload::Algorithm;

    use super::*;

    /// A lack of memory must not end the server.
    #[test]
    fn contents_that_no_memory_can_hold_are_refused() {
        let spec = CollectiveSpec { pattern: Pattern::Allgather, algorithm: Algorithm::Ring };
        for bytes in [1 << 60, usize::MAX] {
            let refusal = Contents::new(spec, 0, 4, bytes).err().expect("no room").to_string();
            assert!(refusal.contains("no memory for"), "{refusal}");
        }
        assert!(Contents::new(spec, 0, 4, 8).is_ok());
    }
}
