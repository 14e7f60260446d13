//! An exchange in pairs: in step k each rank sends the k-th rank after it the part for that rank,
//! and receives its part from the k-th rank before it, so that no two ranks send to the same one.

use bench_record::failure::Failure;

use super::mesh::{Exchange, Mesh};
use crate::backend::Backend;

/// Exchanges parts of `part_bytes` between all ranks: part r of `mine` is for rank r, and part r of
/// `all` comes from it.
pub(super) fn alltoall<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    mine: &[u8],
    all: &mut [u8],
    part_bytes: usize,
) -> Result<(), Failure> {
    let part = |rank: usize| rank * part_bytes..(rank + 1) * part_bytes;
    let (rank, ranks) = (mesh.rank, mesh.ranks);
    all[part(rank)].copy_from_slice(&mine[part(rank)]);
    for step in 1..ranks {
        let (to, from) = ((rank + step) % ranks, (rank + ranks - step) % ranks);
        let exchange = Exchange {
            step: step as u32,
            to,
            sent_bytes: part_bytes,
            from,
            received_bytes: part_bytes,
        };
        let mut both = (&mine[part(to)], &mut all[part(from)]);
        mesh.exchange(
            exchange,
            &mut both,
            |(out, _), part| &out[part],
            |(_, into), offset, bytes| into[offset..offset + bytes.len()].copy_from_slice(bytes),
        )?;
    }
    Ok(())
}
