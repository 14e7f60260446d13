//! The distribution's Open MPI through libfabric's `efa` provider.

use std::path::PathBuf;

use crate::harness::record::{Consumer, FAULTS};
use crate::harness::{exclusive, has, is_long};
use crate::mpi::{LONG_MESSAGE, Mpi};

/// Returns Open MPI; `None` if it is not installed.
pub(crate) fn openmpi() -> Option<Mpi> {
    let launcher = "mpirun --allow-run-as-root --oversubscribe \
         --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include efa";
    has("mpirun").then(|| Mpi {
        consumer: Consumer::debian("openmpi-bin"),
        way: "mtl ofi, efa",
        device: "",
        mpicc: PathBuf::from("mpicc"),
        launcher: launcher.to_owned(),
        env: Vec::new(),
    })
}

#[test]
fn two_ranks_exchange_data() {
    let _one = exclusive();
    let Some(mpi) = openmpi() else { return };
    for faults in ["", FAULTS] {
        mpi.exchange(2, LONG_MESSAGE, faults);
    }
}

#[test]
fn four_ranks_exchange_data() {
    let _one = exclusive();
    let Some(mpi) = openmpi() else { return };
    if is_long() {
        mpi.exchange(4, LONG_MESSAGE, "");
        mpi.exchange(4, LONG_MESSAGE, FAULTS);
    } else {
        // Four busy ranks on two cores are slow.
        mpi.exchange(4, "256 KiB", "");
    }
}
