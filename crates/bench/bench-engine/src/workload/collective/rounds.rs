//! Rounds of operations: rank 0 announces their number, all ranks do them one after the other with
//! barriers between, and rank 0 hears how long each took on each rank. An operation lasts as long
//! as on its slowest rank.

use std::time::{Duration, Instant};

use bench_record::spec::Limit;
use bench_record::workload::{Algorithm, CollectiveSpec, Pattern};

use super::barrier::barrier;
use super::contents::Contents;
use super::mesh::{Mesh, wrong};
use super::{Collective, doubling, longest_part, pairs, ring, tree};
use crate::bench::{RoundTrips, rma};
use crate::measure::Random;
use crate::workload::prelude::*;

/// The number of operations of the first round; later ones have more while a round is shorter than
/// `ROUND`.
const ROUND_FROM: usize = 16;
/// The time that a round should last, so that the time between rounds costs little.
const ROUND: Duration = Duration::from_millis(2);
/// The most operations of a round.
const ROUND_MAX: usize = 4096;
/// The length of a time, of a check, and of the number of operations of a round, in bytes.
const WORD_BYTES: usize = 8;
/// The most words of a round: the times and their check.
const WORDS_MAX: usize = ROUND_MAX + 1;

/// The operations of one rank within a point.
struct Rounds<'a, B> {
    mesh: Mesh<'a, B>,
    spec: CollectiveSpec,
    contents: Contents,
    validate: bool,
    operation: u64,
    validated: u64,
    /// The times of each operation of a round at this rank in ns, and their check.
    times_ns: Vec<u8>,
    /// The same of another rank.
    theirs_ns: Vec<u8>,
}

/// Runs one rank's part of a point; rank 0 returns the times.
pub(super) fn take_part<B: Backend>(part: Part<'_, B>, own: &Collective) -> Outcome {
    let Part { links, port, point } = part;
    let Collective { spec, rank } = *own;
    let (ranks, bytes) = (links.len() + 1, point.size_bytes);
    let contents = Contents::new(spec, rank, ranks, bytes)?;
    let longest = contents.all.len().max(WORDS_MAX * WORD_BYTES);
    let part_bytes = longest_part(bytes, point.parameter);
    let mesh = Mesh::new(links, &port.signals, rank, part_bytes, longest);
    let mut rounds = Rounds {
        mesh,
        spec,
        contents,
        validate: point.validate,
        operation: 0,
        validated: 0,
        times_ns: vec![0; WORDS_MAX * WORD_BYTES],
        theirs_ns: vec![0; WORDS_MAX * WORD_BYTES],
    };
    if rank == 0 {
        return rounds.lead(point);
    }
    while rounds.follow()? {}
    rma::serve(links, port)
}

impl<B: Backend> Rounds<'_, B> {
    /// Warms up, measures and ends; for rank 0.
    fn lead(&mut self, point: PointSpec) -> Outcome {
        let mut round = ROUND_FROM;
        let (warmup, window) = match point.limit {
            Limit::DurationMs(ms) => (Limit::DurationMs(point.warmup_ms), Limit::DurationMs(ms)),
            Limit::Iterations(n) => {
                (Limit::Iterations(point.warmup_iterations()), Limit::Iterations(n))
            }
        };
        self.rounds(warmup, &mut round, &mut RoundTrips::new()?)?;
        let mut times = RoundTrips::new()?;
        self.rounds(window, &mut round, &mut times)?;
        self.announce(0)?;
        times.validated = self.validated * self.mesh.ranks as u64;
        Ok(Measured::RoundTrips(Box::new(times)))
    }

    /// Runs rounds until the limit is reached; for rank 0.
    fn rounds(
        &mut self,
        limit: Limit,
        round: &mut usize,
        times: &mut RoundTrips,
    ) -> Result<(), Failure> {
        let begun = Instant::now();
        loop {
            let count = match limit {
                Limit::DurationMs(ms) if begun.elapsed() >= Duration::from_millis(ms) => 0,
                Limit::DurationMs(_) => *round,
                Limit::Iterations(n) => ROUND_MAX.min((n - times.count) as usize),
            };
            if count == 0 {
                return Ok(());
            }
            let since = Instant::now();
            self.announce(count)?;
            self.operate(count)?;
            self.gather(count, times)?;
            // Rounds should be so long that the time between them costs little.
            if since.elapsed() < ROUND {
                *round = ROUND_MAX.min(*round * 2);
            }
        }
    }

    /// Announces this many operations; 0: no more; for rank 0.
    fn announce(&mut self, count: usize) -> Result<(), Failure> {
        self.mesh.next_operation();
        for rank in 1..self.mesh.ranks {
            self.mesh.send(rank, 0, &announced(count))?;
        }
        Ok(())
    }

    /// Collects the times of all ranks; for rank 0.
    fn gather(&mut self, count: usize, times: &mut RoundTrips) -> Result<(), Failure> {
        let Self { mesh, times_ns, theirs_ns, .. } = self;
        let own = &mut times_ns[..count * WORD_BYTES];
        let theirs = &mut theirs_ns[..(count + 1) * WORD_BYTES];
        mesh.next_operation();
        for rank in 1..mesh.ranks {
            mesh.receive(rank, 0, theirs.len(), |offset, bytes| {
                theirs[offset..offset + bytes.len()].copy_from_slice(bytes);
            })?;
            let (times, check) = theirs.split_at(count * WORD_BYTES);
            if word(check) != check_of(times) {
                return Err(wrong("holds other times than were sent"));
            }
            for (own, theirs) in own.chunks_mut(WORD_BYTES).zip(times.chunks(WORD_BYTES)) {
                if word(theirs) > word(own) {
                    own.copy_from_slice(theirs);
                }
            }
        }
        own.chunks(WORD_BYTES).for_each(|ns| times.note(Duration::from_nanos(word(ns))));
        Ok(())
    }

    /// Runs one round; for the other ranks. Returns false if there are no more rounds.
    fn follow(&mut self) -> Result<bool, Failure> {
        self.mesh.next_operation();
        let mut count = [0; WORD_BYTES];
        self.mesh.receive(0, 0, WORD_BYTES, |_, bytes| count.copy_from_slice(bytes))?;
        let count = operations(count).ok_or_else(|| wrong("asks for operations and is damaged"))?;
        if count == 0 {
            return Ok(false);
        }
        self.operate(count)?;
        self.mesh.next_operation();
        let (times, rest) = self.times_ns.split_at_mut(count * WORD_BYTES);
        rest[..WORD_BYTES].copy_from_slice(&check_of(times).to_le_bytes());
        self.mesh.send(0, 0, &self.times_ns[..(count + 1) * WORD_BYTES])?;
        Ok(true)
    }

    /// Runs the operations of a round. The results of the first and the last one are always
    /// checked.
    fn operate(&mut self, count: usize) -> Result<(), Failure> {
        for number in 0..count {
            let is_checked = self.validate || number == 0 || number + 1 == count;
            if is_checked {
                self.contents.prepare(self.operation);
            }
            self.mesh.next_operation();
            barrier(&mut self.mesh)?;
            let since = Instant::now();
            self.once()?;
            let took_ns = u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX);
            self.times_ns[number * WORD_BYTES..][..WORD_BYTES]
                .copy_from_slice(&took_ns.to_le_bytes());
            if is_checked && self.spec.pattern != Pattern::Barrier {
                if !self.contents.verify(self.operation) {
                    return Err(Failure::Data(format!(
                        "operation {} has a wrong result at rank {}: the fabric damages data",
                        self.operation, self.mesh.rank
                    )));
                }
                self.validated += 1;
            }
            self.operation += 1;
        }
        Ok(())
    }

    #[inline]
    fn once(&mut self) -> Result<(), Failure> {
        let Self { mesh, contents, spec, .. } = self;
        match (spec.pattern, spec.algorithm) {
            (Pattern::Barrier, _) => {
                // The steps must differ from those of the barrier before the operation.
                mesh.next_operation();
                barrier(mesh)
            }
            (Pattern::Bcast, _) => tree::bcast(mesh, &mut contents.all),
            (Pattern::Allgather, _) => {
                let bytes = contents.mine.len();
                contents.all[mesh.rank * bytes..][..bytes].copy_from_slice(&contents.mine);
                ring::allgather(mesh, &mut contents.all, bytes)
            }
            (Pattern::Alltoall, _) => {
                let bytes = contents.mine.len() / mesh.ranks;
                pairs::alltoall(mesh, &contents.mine, &mut contents.all, bytes)
            }
            (Pattern::Gather, _) => {
                let bytes = contents.mine.len();
                contents.all[mesh.rank * bytes..][..bytes].copy_from_slice(&contents.mine);
                tree::gather(mesh, &mut contents.all, bytes)
            }
            (Pattern::ReduceScatter, _) => {
                contents.all.copy_from_slice(&contents.mine);
                let bytes = contents.all.len() / mesh.ranks;
                ring::reduce_scatter(mesh, &mut contents.all, bytes)
            }
            (Pattern::Allreduce, algorithm) => {
                contents.all.copy_from_slice(&contents.mine);
                match algorithm {
                    Algorithm::Ring => ring::allreduce(mesh, &mut contents.all),
                    Algorithm::Doubling => doubling::allreduce(mesh, &mut contents.all),
                }
            }
        }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

/// Returns the word that announces operations. It holds the number twice, so that damage is
/// noticed: otherwise the other ranks would wait for a rank that does more operations.
fn announced(count: usize) -> [u8; WORD_BYTES] {
    let count = count as u32;
    (u64::from(!count) << 32 | u64::from(count)).to_le_bytes()
}

/// Returns the number of operations that a word announces; `None` if it is damaged.
fn operations(announced: [u8; WORD_BYTES]) -> Option<usize> {
    let both = u64::from_le_bytes(announced);
    let count = both as u32;
    ((both >> 32) as u32 == !count && count as usize <= ROUND_MAX).then_some(count as usize)
}

/// Returns the check of all times.
fn check_of(times_ns: &[u8]) -> u64 {
    let times = times_ns.chunks(WORD_BYTES);
    times.fold(0, |check, ns| Random::new(check ^ word(ns)).next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_survive_and_damage_is_noticed() {
        for count in [0, 1, ROUND_FROM, ROUND_MAX] {
            let announced = announced(count);
            assert_eq!(operations(announced), Some(count));
            for bit in 0..WORD_BYTES * 8 {
                let mut damaged = announced;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(operations(damaged), None, "bit {bit}");
            }
        }
        assert_eq!(operations(announced(ROUND_MAX + 1)), None);
    }

    #[test]
    fn damaged_times_are_noticed() {
        let mut times: Vec<u8> = (0..5 * WORD_BYTES as u8).collect();
        let check = check_of(&times);
        for bit in 0..times.len() * 8 {
            times[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(check_of(&times), check, "bit {bit}");
            times[bit / 8] ^= 1 << (bit % 8);
        }
    }
}
