//! Unmodified programs from the distribution on our device: libfabric's `fi_info` and
//! `fi_pingpong`, perftest, qperf, fio, QEMU, rdmacm-utils, `ibv_devinfo`, pyverbs, Open MPI; the
//! MPI wheels, the efa package, NIXL and Mooncake of PyPI; sideway of crates.io; libfabric through
//! the tests of `fabric`; and the programs of `examples/`.
//!
//! Each run asserts its exit code, that nothing complained, and that the device's own packet
//! counters moved. `SOFTEFA_MATRIX=long` (`make consumers`) runs every combination.
#![expect(clippy::unwrap_used, reason = "a step that fails must fail the test")]

mod apart;
mod dapl;
mod efa_package;
mod examples;
mod faults;
mod fio;
mod gateway;
#[path = "../harness/mod.rs"]
mod harness;
mod info;
mod libfabric;
mod liveness;
mod mooncake;
mod mpi;
mod mpi4py;
mod multicast;
mod netns;
mod nixl;
mod openmpi;
mod openshmem;
mod perftest;
mod pingpong;
mod pypi;
mod pyverbs;
mod qemu;
mod qperf;
mod rdma_core;
mod rdmacm;
mod roce;
mod roce_perftest;
mod roce_pyverbs;
mod roce_sealed;
mod roce_wheels;
mod sealed;
mod sideway;
mod tgt;
mod ucx;
mod wheels;
