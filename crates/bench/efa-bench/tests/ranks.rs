//! Ranks that find each other: under Open MPI's `mpirun` (PMIx), and by files in a folder.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::common::{
    Ended, PROGRAM, Words, alone, assert_fails, command, efa_bench, read_json, softefa,
};
use serde_json::Value;

/// Ranks outnumber the processors of a busy machine; nothing here takes this long if all is well.
const PATIENCE: Duration = Duration::from_secs(60);
const MPIRUN: &str = "mpirun --allow-run-as-root --oversubscribe";
const MEASURE: &str = "-n 200 -s 64,4096 --validate --json - --no-host-checks";

/// Returns `false` without Open MPI, which CI does not allow.
fn has_mpirun() -> bool {
    let found = Command::new("mpirun").arg("--version").output().is_ok();
    assert!(found || std::env::var_os("CI").is_none(), "no mpirun: apt-get install openmpi-bin");
    if !found {
        eprintln!("SKIPPED: no mpirun here (openmpi-bin)");
    }
    found
}

fn run(words: impl Words) -> Ended {
    let _alone = alone();
    let words = words.words();
    Ended::of(Command::new(words[0]).args(&words[1..]))
}

/// Returns the runs that a successful `output` printed.
fn runs(output: &Ended) -> Vec<Value> {
    output.json()["runs"].as_array().expect("runs").clone()
}

/// Checks that every message of both points was checked: 200 measured, 100 to warm up, 1 to end.
fn assert_measured(run: &Value) {
    assert_eq!(run["complete"], true, "{run}");
    let points = run["points"].as_array().expect("points");
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["validated"], 301, "{point}");
    }
}

#[test]
fn two_ranks_of_mpirun_measure_without_knowing_each_other() {
    if !has_mpirun() {
        return;
    }
    let output = run(format!("{MPIRUN} -np 2 {PROGRAM} run latency -p tcp {MEASURE}"));
    let runs = runs(&output);
    assert_eq!(runs.len(), 1);
    assert_measured(&runs[0]);
    let said = output.errors();
    assert!(said.contains("rank 0 of 2 by OpenPMIx") && said.contains("servers: rank 1"), "{said}");
    assert!(!said.contains("finalize"), "the launcher complains: {said}");
}

#[test]
fn two_ranks_of_mpirun_measure_soft_efa() {
    if !has_mpirun() {
        return;
    }
    let folder = tempfile::tempdir().expect("tempdir");
    let file = folder.path().join("counters.json");
    let (softefa, counters) = (softefa().display().to_string(), file.display().to_string());
    let device = format!("{softefa} run --counters {counters} --");
    for fabric in ["libfabric:efa", "verbs:srd"] {
        let ranks = format!("-np 2 {PROGRAM} run latency --fabric {fabric}");
        let runs = runs(&run(format!("{device} {MPIRUN} {ranks} {MEASURE}")));
        assert_measured(&runs[0]);
        let found = read_json(&file);
        let processes = found["processes"].as_array().expect("processes");
        let sent = processes.iter().filter_map(|one| one["counters"]["tx_pkts"].as_u64());
        // Of each rank a packet for each message; mpirun itself has none.
        let senders = sent.filter(|packets| *packets >= 602).count();
        assert_eq!(senders, 2, "{fabric}: {found}");
    }
}

#[test]
fn each_of_several_servers_is_measured() {
    if !has_mpirun() {
        return;
    }
    let ranks = format!("-np 3 {PROGRAM} run latency --fabric tcp");
    let runs = runs(&run(format!("{MPIRUN} {ranks} {MEASURE}")));
    assert_eq!(runs.len(), 2);
    for (rank, run) in (1..).zip(&runs) {
        assert_measured(run);
        let name = run["name"].as_str().expect("a name");
        assert!(name.starts_with(&format!("TCP sockets to rank {rank} ")), "{name}");
    }
}

#[test]
fn a_rank_that_never_comes_is_named() {
    if !has_mpirun() {
        return;
    }
    let ours = format!("-np 1 {PROGRAM} run latency --join-timeout 2");
    let started = Instant::now();
    let output = run(format!("{MPIRUN} {ours} : -np 1 sleep 1000"));
    let said = output.errors();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("no word from rank 1 of 2"), "{said}");
    assert!(started.elapsed() < PATIENCE, "{:?}", started.elapsed());
}

#[test]
fn a_launcher_that_is_gone_is_one_line() {
    let mut command = command("run latency --join-timeout 5");
    let output = Ended::of(command.env("PMIX_RANK", "0").env("PMIX_NAMESPACE", "nobody"));
    let said = output.errors();
    let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("efa-bench")).collect();
    assert_eq!((output.status.code(), ours.len()), (Some(4), 1), "{said}");
    assert!(ours[0].contains("PMIx"), "{said}");
}

#[test]
fn a_run_needs_a_host_or_ranks() {
    assert_fails(&efa_bench("run latency"), 2, &["--host", "mpirun", "--rendezvous"]);
    let alone = "run latency --rendezvous /tmp --rank 0 --ranks 1";
    assert_fails(&efa_bench(alone), 2, &["two or more"]);
    assert_fails(&efa_bench("run latency --rank 0"), 2, &["--rendezvous"]);
}

/// A rank that finds the others by files, and ends with the test.
struct Rank(Child);

impl Rank {
    fn start(folder: &Path, rank: &str, benchmark: &str) -> Self {
        let child = command(format!("run {benchmark} --rank {rank} --ranks 2 --no-host-checks"))
            .arg("--rendezvous")
            .arg(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a rank starts");
        Self(child)
    }

    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if let Some(status) = self.0.try_wait().expect("waits") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        panic!("still there after {PATIENCE:?}");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn ranks_find_each_other_by_files_beside_those_of_a_dead_job() {
    let folder = tempfile::tempdir().expect("tempdir");
    let left_over = folder.path().join("efa-bench-rank-1.json");
    let dead =
        r#"{"host":"x","machine":"","addresses":["127.0.0.1"],"port":9,"leash_port":9,"token":1}"#;
    std::fs::write(&left_over, dead).expect("written");
    let benchmark = "latency --fabric tcp -n 200 -s 64";
    let mut first = Rank::start(folder.path(), "0", benchmark);
    let mut second = Rank::start(folder.path(), "1", benchmark);
    assert_eq!((first.code(), second.code()), (Some(0), Some(0)));
    assert_eq!(std::fs::read_dir(folder.path()).expect("folder").count(), 0, "nothing is left");
}

#[test]
fn a_server_whose_rank_0_is_killed_ends_with_its_code() {
    let folder = tempfile::tempdir().expect("tempdir");
    let benchmark = "latency --fabric tcp -t 100 -s 64";
    let mut second = Rank::start(folder.path(), "1", benchmark);
    let mut first = Rank::start(folder.path(), "0", benchmark);
    let said = BufReader::new(first.0.stderr.take().expect("piped"));
    let mut lines = said.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("rank 0 of 2")), "rank 0 never came");
    first.0.kill().expect("killed");
    assert_eq!(second.code(), Some(7));
}
