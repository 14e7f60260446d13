//! Recursive doubling: in step k each rank adds up with the rank whose number differs in bit k. If
//! the number of ranks is not a power of two, the first ranks pair up before that, and their
//! partners tell them the result.

use bench_record::failure::Failure;

use super::contents::add;
use super::mesh::{Exchange, Mesh};
use crate::backend::Backend;

/// The step before those of doubling.
const FOLD: u32 = 0;
/// The step after those of doubling.
const UNFOLD: u32 = 1;
/// The first step of doubling.
const FIRST: u32 = 2;

/// Adds the data of all ranks, so that every rank gets the sum; the addend of this rank is in
/// `sums`.
pub(super) fn allreduce<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    sums: &mut [u8],
) -> Result<(), Failure> {
    let (rank, power) = (mesh.rank, 1 << mesh.ranks.ilog2());
    // This many of the first ranks work in pairs, each as one.
    let pairs = mesh.ranks - power;
    let number = match rank {
        _ if rank >= 2 * pairs => rank - pairs,
        _ if rank % 2 == 0 => {
            mesh.send(rank + 1, FOLD, sums)?;
            return mesh.receive(rank + 1, UNFOLD, sums.len(), |offset, bytes| {
                sums[offset..offset + bytes.len()].copy_from_slice(bytes);
            });
        }
        _ => {
            take(mesh, rank - 1, FOLD, sums)?;
            rank / 2
        }
    };
    let (mut bit, mut step) = (1, FIRST);
    while bit < power {
        let other = number ^ bit;
        let other = if other < pairs { 2 * other + 1 } else { other + pairs };
        let len = sums.len();
        let exchange =
            Exchange { step, to: other, sent_bytes: len, from: other, received_bytes: len };
        mesh.exchange(
            exchange,
            sums,
            |sums, part| &sums[part],
            |sums, offset, bytes| add(&mut sums[offset..offset + bytes.len()], bytes),
        )?;
        bit *= 2;
        step += 1;
    }
    if rank < 2 * pairs {
        mesh.send(rank - 1, UNFOLD, sums)?;
    }
    Ok(())
}

/// Receives the data of another rank and adds it.
fn take<B: Backend>(
    mesh: &mut Mesh<'_, B>,
    from: usize,
    step: u32,
    sums: &mut [u8],
) -> Result<(), Failure> {
    mesh.receive(from, step, sums.len(), |offset, bytes| {
        add(&mut sums[offset..offset + bytes.len()], bytes);
    })
}
