//! Unmodified programs on a RoCE device: the ping-pongs of libibverbs, Open MPI over UCX,
//! libfabric.

use std::path::PathBuf;

use crate::harness::record::{Case, Consumer, EACH_FAULT, FAULTS};
use crate::harness::{
    Directions, LIMIT, Launcher, Outcome, efa_bench, exclusive, free_port, has, has_ipv6, is_long,
};
use crate::mpi::{LONG_MESSAGE, Mpi};
use crate::pingpong;
use crate::pyverbs::{PYTHON, has_pyverbs};
use crate::rdma_core::unpack;

/// A device of an interface that is not loopback, which libfabric leaves out.
const DEVICE: &str = "--roce";

/// Runs one of the ping-pongs between two processes, each of which checks what it receives (`-c`).
fn ibv_pingpong(program: &str, faults: &str) {
    ibv_pingpong_at((DEVICE, 0), &format!("RoCE: {program} -c"), program, faults);
}

/// Runs a ping-pong at a device whose address has this index in its GID table.
fn ibv_pingpong_at((device, gid): (&str, u8), what: &str, program: &str, faults: &str) {
    let consumer = Consumer::debian("ibverbs-utils");
    let mut case = Case::new(&consumer, what, faults);
    let launcher: Launcher = case.launcher(device);
    let port = free_port();
    let line = format!("{program} -g {gid} -c -n 200 -p {port}");
    let mut server = launcher.start("server", &line);
    server.wait_until_listening(port);
    let client = launcher.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    for side in [server.wait(LIMIT), client] {
        case.add(&side);
        side.assert_clean();
        side.assert_moved(Directions::Both);
        assert!(!side.stdout.contains("invalid data"), "{side}");
    }
    case.pass();
}

#[test]
fn pingpongs_of_libibverbs() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") {
        return;
    }
    for program in [
        "ibv_rc_pingpong",
        "ibv_rc_pingpong -e",
        "ibv_uc_pingpong",
        "ibv_ud_pingpong -s 1024",
        "ibv_srq_pingpong",
    ] {
        ibv_pingpong(program, "");
    }
}

#[test]
fn pingpongs_of_libibverbs_over_ipv6() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") || !has_ipv6() {
        return;
    }
    let device = ("--device roce0=::1,profile=roce", 0);
    for program in ["ibv_rc_pingpong -e", "ibv_uc_pingpong", "ibv_ud_pingpong -s 1024"] {
        let what = format!("RoCE over IPv6: {program} -c");
        ibv_pingpong_at(device, &what, program, "");
    }
    ibv_pingpong_at(device, "RoCE over IPv6: ibv_rc_pingpong -c", "ibv_rc_pingpong", FAULTS);
}

/// Programs such as peercache take index 3, that of the IPv4 address of a ConnectX adapter.
#[test]
fn pingpongs_of_libibverbs_at_another_index_of_the_gid_table() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") {
        return;
    }
    let device = "--device roce0=127.0.0.1,profile=roce,gids=4";
    for program in ["ibv_rc_pingpong", "ibv_ud_pingpong -s 1024"] {
        ibv_pingpong_at((device, 3), &format!("RoCE, GID index 3: {program} -c"), program, "");
    }
    // The table ends there.
    let client = Launcher::new(device).run("ibv_rc_pingpong -g 4 127.0.0.1");
    assert!(client.code != 0 && client.stderr.contains("can't read sgid of index 4"), "{client}");
}

/// The ping-pongs of reliable connections, because others do not repeat lost datagrams.
#[test]
fn pingpongs_of_libibverbs_under_faults() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") {
        return;
    }
    ibv_pingpong("ibv_rc_pingpong", FAULTS);
    for program in ["ibv_rc_pingpong -e", "ibv_srq_pingpong"].iter().filter(|_| is_long()) {
        EACH_FAULT.iter().for_each(|faults| ibv_pingpong(program, faults));
    }
}

/// Two clients send to one shared receive queue, and the server answers each of them through its
/// own.
#[test]
fn shared_queues_of_extended_connections() {
    let _one = exclusive();
    if !has("ibv_xsrq_pingpong") {
        return;
    }
    for faults in ["", FAULTS] {
        let what = "RoCE: ibv_xsrq_pingpong, two clients";
        let mut case = Case::new(&Consumer::debian("ibverbs-utils"), what, faults);
        let launcher: Launcher = case.launcher(DEVICE);
        let port = free_port();
        let line = format!("ibv_xsrq_pingpong -g 0 -n 500 -p {port}");
        let mut server = launcher.start("server", &format!("{line} -c 2"));
        server.wait_until_listening(port);
        let clients = ["first", "second"];
        let clients = clients.map(|name| launcher.start(name, &format!("{line} 127.0.0.1")));
        for side in clients.into_iter().chain([server]).map(|side| side.wait(LIMIT)) {
            case.add(&side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
        }
        case.pass();
    }
}

/// The tests of rdma-core that are about extended connections.
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
        let launcher: Launcher = case.launcher(DEVICE);
        let outcome = launcher.start_words("suite", &["sh", "-c", &script]).wait(2 * LIMIT);
        case.add(&outcome);
        assert_eq!(outcome.code, 0, "{outcome}");
        let said = &outcome.stderr;
        assert!(said.contains("\nRan 7 tests") && said.ends_with("\nOK\n"), "{outcome}");
        case.pass();
    }
}

/// Returns Debian's Open MPI over UCX on one of its transports for RoCE.
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
        // Going back after each packet that is overtaken takes time.
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

/// Open MPI 4 through libfabric instead of UCX.
#[test]
fn open_mpi_through_libfabric() {
    let _one = exclusive();
    if !has("mpirun") || !is_long() {
        return;
    }
    let options = "--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include verbs;ofi_rxm";
    let launcher = format!("mpirun --allow-run-as-root --oversubscribe {options}");
    let mpi = Mpi { way: "RoCE: mtl ofi, verbs;ofi_rxm", launcher, ..openmpi("", "") };
    mpi.exchange(2, LONG_MESSAGE, "");
    mpi.exchange(4, "256 KiB", "");
    mpi.exchange(2, "16 KiB", FAULTS);
}

#[test]
fn open_mpi_has_no_own_way_to_roce() {
    Consumer::debian("openmpi-bin").not_run(
        "RoCE: btl openib",
        "Debian builds it without rdmacm, and its other method to connect (udcm) serves InfiniBand links \
         only: \"no CPCs for port\", on hardware as well",
    );
}

/// efa-bench's own backend of libfabric on a RoCE device, with every byte checked.
#[test]
fn efa_bench_on_the_verbs_provider() {
    let _one = exclusive();
    for faults in if is_long() { &["", FAULTS][..] } else { &[""] } {
        let what = "RoCE: efa-bench on libfabric:verbs;ofi_rxm, latency and bandwidth";
        let mut case = Case::new(&Consumer::debian("libfabric1"), what, faults);
        let launcher = case.launcher(DEVICE);
        for test in ["latency", "bandwidth -d 16"] {
            let line = format!(
                "{} local {test} -p verbs;ofi_rxm -s 64,4096,65536 -n 500 --validate --timeout 60",
                efa_bench().display()
            );
            let outcome = launcher.start("both", &line).wait(LIMIT);
            case.add(&outcome);
            assert_eq!(outcome.code, 0, "{outcome}");
            outcome.assert_moved(Directions::Both);
        }
        case.pass();
    }
}

#[test]
fn libfabric_on_its_verbs_provider() {
    let _one = exclusive();
    if has("fi_pingpong") {
        for (provider, endpoint) in [("verbs", "msg"), ("verbs;ofi_rxm", "rdm")] {
            fi_pingpong(provider, endpoint, "");
            EACH_FAULT
                .iter()
                .filter(|_| is_long())
                .for_each(|faults| fi_pingpong(provider, endpoint, faults));
        }
    }
}

#[test]
fn libfabric_has_no_global_ipv6_addresses_on_its_verbs_provider() {
    Consumer::debian("libfabric-bin").not_run(
        "RoCE over IPv6: fi_pingpong -6 -p verbs between hosts",
        "The provider looks for the interface of a device by `ADDRESS%INTERFACE`, which the C library \
         accepts only for link-local addresses. So a device with another address has no name that peers \
         could be told, on hardware as well. Two programs of one host meet at 127.0.0.1",
    );
}

fn fi_pingpong(provider: &str, endpoint: &str, faults: &str) {
    let what = format!("RoCE: fi_pingpong -p {provider} -e {endpoint}, all sizes");
    let mut case = Case::new(&Consumer::debian("libfabric-bin"), &what, faults);
    let line = format!("fi_pingpong -p {provider} -e {endpoint} -c -I 100");
    // The provider leaves out loopback interfaces.
    let launcher = case.launcher(DEVICE);
    let pair = || launcher.run_pair(&line, ["-B", "-P"]);
    let runs = std::iter::repeat_with(pair).take(TRIES);
    let is_whole = |sides: &(Outcome, Outcome)| {
        let (server, client) = sides;
        ![server, client].iter().any(|it| is_early(it, faults))
    };
    let mut runs = runs.filter(is_whole);
    let (server, client) = runs.next().expect("a run that libfabric does not end early");
    pingpong::check(&mut case, [&server, &client]);
    case.pass();
}

const TRIES: usize = 4;
const UNACKNOWLEDGED: &str = "cq_readerr: transport retry counter exceeded";

/// Returns true if a connection has ended before this side read its last completion. `fi_pingpong`
/// ends as soon as it has the last message of its peer:
/// * If rxm finds that the peer has gone while it was not running, it destroys the queue pair
///   before it checks whether its own last message has arrived, and reports that message as
///   flushed. NICs drop completions of destroyed queue pairs, too.
/// * If the acknowledgement of the last message is lost, nobody is left to repeat it.
fn is_early(side: &Outcome, faults: &str) -> bool {
    let is_lost = faults.contains("loss") && side.stderr.contains(UNACKNOWLEDGED);
    side.code != 0
        && side.stdout.contains("\n1m ")
        && (is_lost || side.stderr.contains("cq_readerr: Work Request Flushed Error"))
}
