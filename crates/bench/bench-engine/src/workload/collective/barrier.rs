//! A barrier by dissemination (Hensgen, Finkel, Manber, 1988): in round k each rank sends a message
//! to the rank 2^k after it; after log2 n rounds each has heard of all.

use bench_record::failure::Failure;

use super::mesh::Mesh;
use crate::backend::Backend;

/// The steps of barriers, apart from those of the operations that follow.
const STEPS: u32 = 1 << 31;

/// Returns when all ranks have reached the barrier.
pub(super) fn barrier<B: Backend>(mesh: &mut Mesh<'_, B>) -> Result<(), Failure> {
    let (rank, ranks) = (mesh.rank, mesh.ranks);
    let (mut distance, mut step) = (1, STEPS);
    while distance < ranks {
        mesh.send((rank + distance) % ranks, step, &[])?;
        mesh.receive((rank + ranks - distance) % ranks, step, 0, |_, _| {})?;
        distance *= 2;
        step += 1;
    }
    Ok(())
}
