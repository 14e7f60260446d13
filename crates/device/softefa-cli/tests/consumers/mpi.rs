//! An MPI installation on the device: a program of ours, compiled by the installation's own
//! compiler, exchanges messages between all ranks in every way and checks every byte.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::harness::record::{Case, Consumer};
use crate::harness::{Outcome, is_long};

/// The time limit of a run: ranks outnumber the cores, and each of them polls.
pub(crate) const MPI_LIMIT: Duration = Duration::from_secs(180);
/// A size far above that at which messages become RDMA READs.
pub(crate) const LONG_MESSAGE: &str = "4 MiB";

/// An MPI and one of the ways that its messages can take.
pub(crate) struct Mpi {
    pub(crate) consumer: Consumer,
    /// The way as the document names it.
    pub(crate) way: &'static str,
    /// The options of the device for `softefa run`.
    pub(crate) device: &'static str,
    /// The compiler wrapper of this installation.
    pub(crate) mpicc: PathBuf,
    /// The launcher with the options that choose the way; `-np N PROGRAM` follows.
    pub(crate) launcher: String,
    pub(crate) env: Vec<(&'static str, String)>,
}

impl Mpi {
    /// Sends messages of 1 B to `longest` (`16 KiB`, `4 MiB`) from each rank to all others.
    #[track_caller]
    pub(crate) fn exchange(&self, ranks: usize, longest: &str, faults: &str) {
        let what = format!(
            "{}: point to point and collectives, 1 B to {longest}, {ranks} ranks",
            self.way
        );
        let mut case = Case::new(&self.consumer, &what, faults);
        let program = self.compile("exchange.c");
        let rounds = if is_long() { 3 } else { 1 };
        let outcome = self.launch(&case, ranks, &format!("{program} {} {rounds}", bytes(longest)));
        outcome.assert_clean();
        let sent = outcome.stdout.lines().find_map(|line| line.strip_prefix("sent "));
        let sent: u64 = sent.and_then(|bytes| bytes.parse().ok()).expect("prints what it sent");
        assert_carried(&outcome, ranks, sent);
        case.add(&outcome);
        case.pass();
    }

    /// Runs `line` on `ranks` ranks in a launcher of the case.
    #[track_caller]
    pub(crate) fn launch(&self, case: &Case, ranks: usize, line: &str) -> Outcome {
        let env: Vec<_> = self.env.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let launcher = case.launcher(self.device).with_env(&env);
        let line = format!("{} -np {ranks} {line}", self.launcher);
        launcher.start("mpi", &line).wait(MPI_LIMIT)
    }

    /// Builds a program in the directory of the MPI programs with the installation's compiler.
    fn compile(&self, source: &str) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/mpi").join(source);
        let name = self.mpicc.display().to_string().replace('/', "-");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("exchange{name}"));
        let status = Command::new(&self.mpicc)
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-std=c11", "-o"])
            .args([&program, &source])
            .status()
            .unwrap_or_else(|error| panic!("{}: {error}", self.mpicc.display()));
        assert!(status.success(), "{} does not compile", source.display());
        program.display().to_string()
    }
}

/// Returns the number of bytes of a size with its unit.
fn bytes(size: &str) -> u64 {
    let (count, unit) = size.split_once(' ').expect("a number, a blank, a unit");
    let shift = match unit {
        "KiB" => 10,
        "MiB" => 20,
        _ => panic!("unit of '{size}'"),
    };
    count.parse::<u64>().unwrap() << shift
}

/// Asserts that every rank used the device, and that the device carried all that the ranks sent, so
/// that no byte went another way.
#[track_caller]
fn assert_carried(outcome: &Outcome, ranks: usize, sent: u64) {
    let processes = outcome.counters["processes"].as_array().cloned().unwrap_or_default();
    let senders = processes.iter().filter(|one| one["counters"]["tx_pkts"].as_u64() > Some(0));
    assert_eq!(senders.count(), ranks, "ranks that sent through the device\n{outcome}");
    let carried = ["send_bytes", "rdma_read_bytes", "rdma_write_bytes"];
    let carried: u64 = carried.map(|name| outcome.counter(name)).iter().sum();
    assert!(carried >= sent, "of {sent} bytes the device carried {carried}\n{outcome}");
}
