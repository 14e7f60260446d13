//! A binomial tree from rank 0: who has the data tells the rank 2^k after it, the farthest first.

use bench_record::failure::Failure;

use super::mesh::Mesh;
use crate::backend::Backend;

/// Every rank gets what rank 0 has.
pub(super) fn bcast<B: Backend>(mesh: &mut Mesh<'_, B>, data: &mut [u8]) -> Result<(), Failure> {
    let (rank, ranks) = (mesh.rank, mesh.ranks);
    // The lowest bit of the number says from whom it comes; rank 0 has it.
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
