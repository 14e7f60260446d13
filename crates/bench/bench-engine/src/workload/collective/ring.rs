//! Rings: every rank only sends to the next rank, and passes on what it gets from the rank before.

use std::ops::Range;

use bench_record::failure::Failure;

use super::contents::add;
use super::mesh::{Exchange, Mesh};
use crate::backend::Backend;

/// Gives every rank all blocks of `block_bytes`; the block of this rank is in its place.
pub(super) fn allgather<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    all: &mut [u8],
    block_bytes: usize,
) -> Result<(), Failure> {
    let block = |number: usize| number * block_bytes..(number + 1) * block_bytes;
    let first = mesh.rank;
    pass_on(mesh, all, 0, first, &block, |mine, theirs| mine.copy_from_slice(theirs))
}

/// Adds the data of all ranks, so that every rank gets the sum; the addend of this rank is in
/// `sums`. First each block is summed up on its way round, then the sums go round.
pub(super) fn allreduce<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    sums: &mut [u8],
) -> Result<(), Failure> {
    let (rank, ranks, integers) = (mesh.rank, mesh.ranks, sums.len() / 4);
    let block = |number: usize| {
        let start = |number: usize| number * integers / ranks * 4;
        start(number)..start(number + 1)
    };
    pass_on(mesh, sums, 0, rank, &block, add)?;
    let first = (rank + 1) % ranks;
    let steps = ranks as u32 - 1;
    pass_on(mesh, sums, steps, first, &block, |mine, theirs| mine.copy_from_slice(theirs))
}

/// Adds the data of all ranks, so that every rank gets its block of `block_bytes` of the sum, in
/// its place. All addends of this rank are in `sums`, which is used up.
pub(super) fn reduce_scatter<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    sums: &mut [u8],
    block_bytes: usize,
) -> Result<(), Failure> {
    let block = |number: usize| number * block_bytes..(number + 1) * block_bytes;
    // The last block that comes is the one of this rank.
    let first = (mesh.rank + mesh.ranks - 1) % mesh.ranks;
    pass_on(mesh, sums, 0, first, &block, add)
}

/// Sends a block to the next rank and takes the one before it from the rank before, until each
/// block has been everywhere; `first` is sent first. Steps count from `step`.
fn pass_on<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    data: &mut [u8],
    step: u32,
    first: usize,
    block: &dyn Fn(usize) -> Range<usize>,
    take: impl Fn(&mut [u8], &[u8]),
) -> Result<(), Failure> {
    let ranks = mesh.ranks;
    let (next, before) = ((mesh.rank + 1) % ranks, (mesh.rank + ranks - 1) % ranks);
    for turn in 0..ranks - 1 {
        let out = block((first + ranks - turn) % ranks);
        let into = block((first + ranks - turn - 1) % ranks);
        let exchange = Exchange {
            step: step + turn as u32,
            to: next,
            sent_bytes: out.len(),
            from: before,
            received_bytes: into.len(),
        };
        mesh.exchange(
            exchange,
            data,
            |data, part| &data[out.start + part.start..out.start + part.end],
            |data, offset, bytes| {
                let at = into.start + offset;
                take(&mut data[at..at + bytes.len()], bytes);
            },
        )?;
    }
    Ok(())
}
