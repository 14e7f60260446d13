//! Unmodified programs on a RoCE device: perftest and the ping-pongs of libibverbs, two processes.

use std::path::PathBuf;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Session, exclusive, free_port, has, is_long};
use crate::mpi::{LONG_MESSAGE, Mpi};
use crate::pyverbs::{PYTHON, has_pyverbs};
use crate::rdma_core::unpack;

const PORTS: [&str; 2] = ["-p", "-p"];
/// Of an interface that is not loopback, which libfabric leaves out.
const DEVICE: &str = "--roce";
/// Wide enough for the largest packets.
const ON_LOOPBACK: &str = "--device roce0=127.0.0.1,profile=roce";

/// What perftest has for RoCE, by transport, with what each needs to end soon.
const PROGRAMS: [(&str, &str); 21] = [
    ("RC", "ib_send_lat -n 1000"),
    ("RC", "ib_send_bw -n 2000"),
    ("RC", "ib_write_lat -n 300"),
    ("RC", "ib_write_bw -n 1000"),
    ("RC", "ib_read_lat -n 500"),
    ("RC", "ib_read_bw -n 500"),
    ("RC", "ib_atomic_lat -n 300"),
    ("RC", "ib_atomic_bw -n 500"),
    ("UC", "ib_send_lat -n 1000"),
    ("UC", "ib_write_lat -n 300"),
    ("UC", "ib_write_bw -n 300"),
    ("UD", "ib_send_lat -n 1000"),
    ("UD", "ib_send_bw -n 1000"),
    ("XRC", "ib_send_lat -n 1000"),
    ("XRC", "ib_send_bw -n 2000"),
    ("XRC", "ib_write_lat -n 300"),
    ("XRC", "ib_write_bw -n 1000"),
    ("XRC", "ib_read_lat -n 500"),
    ("XRC", "ib_read_bw -n 500"),
    ("XRC", "ib_atomic_lat -n 300"),
    ("XRC", "ib_atomic_bw -n 500"),
];
/// Options that change how they do it.
const WAYS: [(&str, &[&str]); 3] = [
    ("ib_send_bw -n 1000", &["-q 4", "-b", "-e", "-I 64", "-m 1024", "-l 8", "--use-srq"]),
    ("ib_write_bw -n 1000", &["-q 4", "-b", "-I 64", "-m 1024", "-l 8"]),
    ("ib_read_bw -n 500", &["-q 4", "-b", "-m 1024"]),
];

/// Those that are tried each time.
const SHORT_WAYS: [&str; 2] = ["-q 4", "--use-srq"];

fn sizes(program: &str) -> Vec<usize> {
    if program.contains("atomic") {
        return vec![8];
    }
    let all = (1..=16).map(|power| 1 << power);
    all.filter(|&bytes| is_long() || [64, 65_536].contains(&bytes)).collect()
}

fn perftest(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("perftest"), what, faults)
}

/// Runs a pair of `line` with messages of `bytes` and checks both sides.
fn run(case: &mut Case, transport: &str, line: &str, bytes: usize) {
    let size = if line.contains("atomic") { String::new() } else { format!("-s {bytes}") };
    let line = format!("{line} -c {transport} -x 0 -F {size}");
    // What is not acknowledged goes one way only.
    let is_silent =
        ["UC", "UD"].contains(&transport) && line.contains("_bw") && !line.contains("-b");
    let directions = if is_silent { Directions::Either } else { Directions::Both };
    let (server, client) = case.session(ON_LOOPBACK).run_pair(&line, PORTS);
    for side in [&server, &client] {
        case.add(side);
        side.assert_clean();
        side.assert_moved(directions);
    }
}

#[test]
fn perftest_on_each_transport() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    for (transport, line) in PROGRAMS {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} -c {transport}, all sizes"), "");
        for bytes in sizes(line) {
            // A datagram is a packet.
            let bytes = if transport == "UD" { bytes.min(4096) } else { bytes };
            run(&mut case, transport, line, bytes);
        }
        case.pass();
    }
}

#[test]
fn perftest_in_other_ways() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    for (line, ways) in WAYS {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} {}", ways.join(", ")), "");
        for way in ways.iter().filter(|way| is_long() || SHORT_WAYS.contains(way)) {
            let bytes = if *way == "-I 64" { 64 } else { 8192 };
            run(&mut case, "RC", &format!("{line} {way}"), bytes);
        }
        case.pass();
    }
}

#[test]
fn perftest_under_faults() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let lines = [
        ("RC", "ib_send_bw -n 2000"),
        ("XRC", "ib_send_bw -n 2000"),
        ("XRC", "ib_write_lat -n 1000"),
        ("XRC", "ib_read_bw -n 1000"),
        ("RC", "ib_write_bw -n 2000"),
        ("RC", "ib_read_bw -n 1000"),
    ];
    for (transport, line) in &lines[..if is_long() { 6 } else { 4 }] {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} -c {transport}"), FAULTS);
        run(&mut case, transport, line, 16_384);
        case.pass();
    }
}

#[test]
fn pingpongs_of_libibverbs() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") {
        return;
    }
    let consumer = Consumer::debian("ibverbs-utils");
    for program in [
        "ibv_rc_pingpong",
        "ibv_rc_pingpong -e",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong -s 1024",
        "ibv_srq_pingpong",
    ] {
        let mut case = Case::new(&consumer, &format!("RoCE: {program} -c"), "");
        let session: Session = case.session(DEVICE);
        let port = free_port();
        let line = format!("{program} -g 0 -c -n 200 -p {port}");
        let mut server = session.start("server", &line);
        server.wait_until_listening(port);
        let client = session.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
        for side in [server.wait(LIMIT), client] {
            case.add(&side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
            assert!(!side.stdout.contains("invalid data"), "{side}");
        }
        case.pass();
    }
}

/// Two clients send to one shared receive queue, and the server answers each of them through its own.
#[test]
fn shared_queues_of_extended_connections() {
    let _one = exclusive();
    if !has("ibv_xsrq_pingpong") {
        return;
    }
    for faults in ["", FAULTS] {
        let what = "RoCE: ibv_xsrq_pingpong, two clients";
        let mut case = Case::new(&Consumer::debian("ibverbs-utils"), what, faults);
        let session: Session = case.session(DEVICE);
        let port = free_port();
        let line = format!("ibv_xsrq_pingpong -g 0 -n 500 -p {port}");
        let mut server = session.start("server", &format!("{line} -c 2"));
        server.wait_until_listening(port);
        let clients = ["first", "second"];
        let clients = clients.map(|name| session.start(name, &format!("{line} 127.0.0.1")));
        for side in clients.into_iter().chain([server]).map(|side| side.wait(LIMIT)) {
            case.add(&side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
        }
        case.pass();
    }
}

/// Those of rdma-core's own tests that are about extended connections.
#[test]
fn pyverbs_on_extended_connections() {
    let _one = exclusive();
    let dir = tempfile::tempdir().unwrap();
    if !has_pyverbs() || unpack(dir.path()).is_none() {
        return;
    }
    let root = dir.path().to_str().unwrap();
    let suite = format!("cd {root} && PYTHONPATH={root} {PYTHON} -B tests/run_tests.py -v");
    for faults in ["", FAULTS] {
        let what = "RoCE: rdma-core's own tests of XRC";
        let mut case = Case::new(&Consumer::debian("python3-pyverbs"), what, faults);
        let script = format!("{suite} --dev roce0 --port 1 --gid 0 -k xrc");
        let session: Session = case.session(DEVICE);
        let outcome = session.start_words("suite", &["sh", "-c", &script]).wait(2 * LIMIT);
        case.add(&outcome);
        assert_eq!(outcome.code, 0, "{outcome}");
        let said = &outcome.stderr;
        assert!(said.contains("\nRan 7 tests") && said.ends_with("\nOK\n"), "{outcome}");
        case.pass();
    }
}

/// Debian's Open MPI over UCX on one of its transports for RoCE.
fn openmpi(way: &'static str, transport: &str) -> Mpi {
    let launcher = format!(
        "mpirun --allow-run-as-root --oversubscribe --mca pml ucx --mca osc ucx \
         -x UCX_TLS={transport},self -x UCX_NET_DEVICES=roce0:1"
    );
    Mpi {
        consumer: Consumer::debian("openmpi-bin"),
        way,
        device: DEVICE,
        mpicc: PathBuf::from("mpicc"),
        launcher,
        env: Vec::new(),
    }
}

#[test]
fn open_mpi_on_reliable_connections() {
    let _one = exclusive();
    if !has("mpirun") {
        return;
    }
    let mpi = openmpi("RoCE: pml ucx, rc_verbs", "rc_v");
    mpi.exchange(2, if is_long() { LONG_MESSAGE } else { "256 KiB" }, "");
    if is_long() {
        mpi.exchange(4, LONG_MESSAGE, "");
        // Going back over all that follows takes its time, for each packet that is overtaken.
        mpi.exchange(2, "64 KiB", FAULTS);
    }
}

#[test]
fn open_mpi_on_unreliable_datagrams() {
    let _one = exclusive();
    if has("mpirun") && is_long() {
        openmpi("RoCE: pml ucx, ud_verbs", "ud_v").exchange(2, "256 KiB", "");
    }
}

#[test]
fn libfabric_on_its_verbs_provider() {
    let _one = exclusive();
    if !has("fi_pingpong") {
        return;
    }
    for (provider, endpoint) in [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")] {
        let what = format!("RoCE: fi_pingpong -p {provider} -e {endpoint}, all sizes");
        let mut case = Case::new(&Consumer::debian("libfabric-bin"), &what, "");
        let line = format!("fi_pingpong -p {provider} -e {endpoint} -c -I 100");
        // The provider leaves interfaces of loopback out.
        let (server, client) = case.session(DEVICE).run_pair(&line, ["-B", "-P"]);
        for side in [&server, &client] {
            case.add(side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
            let rows = side.stdout.lines().skip_while(|line| !line.starts_with("bytes")).skip(1);
            assert!(rows.count() >= 4, "fewer sizes than expected\n{side}");
        }
        case.pass();
    }
}
