//! Unmodified programs from the distribution on our device: libfabric's `fi_info` and
//! `fi_pingpong`, perftest's `ib_send_lat` and `ib_send_bw`, `ibv_devinfo`, pyverbs, Open MPI; the
//! MPI wheels, the efa package and NIXL of PyPI; libfabric through the tests of `fabric`; and the
//! programs of `examples/`.
//!
//! Each run asserts its exit code, that nothing complained, and that the device's own packet
//! counters moved. `SOFTEFA_MATRIX=long` (`make consumers`) runs every combination.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod apart;
mod efa_package;
mod examples;
mod faults;
mod gateway;
#[path = "../harness/mod.rs"]
mod harness;
mod info;
mod libfabric;
mod liveness;
mod mpi;
mod mpi4py;
mod netns;
mod nixl;
mod openmpi;
mod openshmem;
mod perftest;
mod pingpong;
mod pypi;
mod pyverbs;
mod rdma_core;
mod rdmacm;
mod roce;
mod sealed;
mod ucx;
mod wheels;
