//! Binomial trees. Down from rank 0: a rank that has the data sends it to the ranks 2^k after it,
//! the farthest first. Up to rank 0: a rank that has the parts of 2^k ranks, itself the first,
//! sends them to the rank 2^k before it.

use bench_record::failure::Failure;

use super::mesh::Mesh;
use crate::backend::Backend;

/// Gives every rank the data of rank 0.
pub(super) fn bcast<B: Backend>(mesh: &mut Mesh<'_, B>, data: &mut [u8]) -> Result<(), Failure> {
    let (rank, ranks) = (mesh.rank, mesh.ranks);
    // The lowest bit of the number tells the rank from which the data comes; rank 0 has it.
    let lowest = if rank == 0 { ranks.next_power_of_two() } else { rank & rank.wrapping_neg() };
    if rank > 0 {
        mesh.receive(rank - lowest, 0, data.len(), |offset, bytes| {
            data[offset..offset + bytes.len()].copy_from_slice(bytes);
        })?;
    }
    let mut distance = lowest / 2;
    while distance > 0 {
        if rank + distance < ranks {
            mesh.send(rank + distance, 0, data)?;
        }
        distance /= 2;
    }
    Ok(())
}

/// Gives rank 0 the parts of all ranks, of `part_bytes` each; the part of each rank is in its
/// place. The other ranks need the rest of `all` for the parts that they pass on.
pub(super) fn gather<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    all: &mut [u8],
    part_bytes: usize,
) -> Result<(), Failure> {
    let (rank, ranks) = (mesh.rank, mesh.ranks);
    let lowest = if rank == 0 { ranks.next_power_of_two() } else { rank & rank.wrapping_neg() };
    // The range of the parts of `count` ranks from `first` on.
    let parts =
        |first: usize, count: usize| first * part_bytes..ranks.min(first + count) * part_bytes;
    let mut distance = 1;
    while distance < lowest && rank + distance < ranks {
        let into = &mut all[parts(rank + distance, distance)];
        mesh.receive(rank + distance, 0, into.len(), |offset, bytes| {
            into[offset..offset + bytes.len()].copy_from_slice(bytes);
        })?;
        distance *= 2;
    }
    if rank > 0 {
        mesh.send(rank - lowest, 0, &all[parts(rank, lowest)])?;
    }
    Ok(())
}
