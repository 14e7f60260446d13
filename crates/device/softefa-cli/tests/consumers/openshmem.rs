//! OpenSHMEM programs.

use crate::harness::record::Consumer;

/// It was tried by hand on the device (two PEs, traces and backtraces of both), because no package
/// contains it.
#[test]
fn sandia_openshmem_is_not_run() {
    let consumer = Consumer::new("Sandia OpenSHMEM", "8649160d", "sources");
    consumer.not_run(
        "barriers, put and atomics of two PEs, libfabric 1.17 efa",
        "A usual build hangs in its first barrier, on hardware as well: the provider emulates atomics \
         and needs its target to enter libfabric (`efa_user_info_alter_rxr` turns FI_PROGRESS_AUTO into \
         manual progress when a program asks for RMA), while both PEs wait on plain memory. A put to \
         itself is never counted either (`rxr_rma_inject_write` sends it through shm, whose endpoint has \
         no counters). It works when built with `--enable-ofi-mr=basic --enable-hard-polling \
         --enable-manual-progress` and run with `SHMEM_BARRIER_ALGORITHM=dissem \
         FI_EFA_ENABLE_SHM_TRANSFER=0`. 1.5.3 binds two endpoints to an address vector, which the \
         provider refuses",
    );
}
