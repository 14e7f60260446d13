//! Unmodified programs of rdmacm-utils and rsockets that connect through librdmacm.

use std::fs;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, exclusive, free_port, has, has_ipv6};
use crate::pyverbs::{PYTHON, has_pyverbs};
use crate::rdma_core::unpack;

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";

/// The command lines of server and client of one program, each to be followed by a port; the server
/// ends by itself.
struct Pair {
    what: &'static str,
    server: &'static str,
    client: &'static str,
}

const PAIRS: [Pair; 11] = [
    Pair {
        what: "rping -V, 100 messages",
        server: "rping -s -a 127.0.0.1 -C 100 -V -p",
        client: "rping -c -a 127.0.0.1 -C 100 -V -p",
    },
    Pair {
        what: "rping -V, 10 messages of 60,000 bytes",
        server: "rping -s -C 10 -S 60000 -V -p",
        client: "rping -c -a 127.0.0.1 -C 10 -S 60000 -V -p",
    },
    Pair {
        what: "ucmatose, 20 connections",
        server: "ucmatose -b 127.0.0.1 -c 20 -C 50 -S 5000 -p",
        client: "ucmatose -s 127.0.0.1 -c 20 -C 50 -S 5000 -p",
    },
    Pair {
        what: "ucmatose -m, ids that change their channel",
        server: "ucmatose -c 5 -m -p",
        client: "ucmatose -s 127.0.0.1 -c 5 -m -p",
    },
    Pair { what: "rdma_server", server: "rdma_server -p", client: "rdma_client -s 127.0.0.1 -p" },
    Pair {
        what: "rstream, data verified",
        server: "rstream -b 127.0.0.1 -S 65536 -C 20 -I 5 -T v -p",
        client: "rstream -s 127.0.0.1 -S 65536 -C 20 -I 5 -T v -p",
    },
    Pair {
        what: "rstream, nonblocking",
        server: "rstream -S 1024 -C 20 -I 5 -T n -p",
        client: "rstream -s 127.0.0.1 -S 1024 -C 20 -I 5 -T n -p",
    },
    Pair {
        what: "rstream, address by librdmacm",
        server: "rstream -b 127.0.0.1 -S 1024 -C 20 -I 5 -T r -p",
        client: "rstream -s 127.0.0.1 -S 1024 -C 20 -I 5 -T r -p",
    },
    Pair {
        what: "rstream, blocking",
        server: "rstream -S 1024 -C 20 -I 5 -T b -p",
        client: "rstream -s 127.0.0.1 -S 1024 -C 20 -I 5 -T b -p",
    },
    Pair {
        what: "rstream, all sizes",
        server: "rstream -S all -C 20 -p",
        client: "rstream -s 127.0.0.1 -S all -C 20 -p",
    },
    Pair {
        what: "riostream, data verified",
        server: "riostream -b 127.0.0.1 -S 1024 -C 20 -I 5 -T v -p",
        client: "riostream -s 127.0.0.1 -S 1024 -C 20 -I 5 -T v -p",
    },
];

/// The device at an IPv6 address.
const DEVICE_V6: &str = "--device roce0=::1,profile=roce";
const PAIRS_V6: [Pair; 5] = [
    Pair {
        what: "rping -V over IPv6",
        server: "rping -s -a ::1 -C 100 -V -p",
        client: "rping -c -a ::1 -C 100 -V -p",
    },
    Pair {
        what: "rping -V over IPv6, listener at every address",
        server: "rping -s -a :: -C 10 -V -p",
        client: "rping -c -a ::1 -C 10 -V -p",
    },
    Pair {
        what: "rping -V over IPv6, asked for at 127.0.0.1",
        server: "rping -s -a 127.0.0.1 -C 10 -V -p",
        client: "rping -c -a 127.0.0.1 -C 10 -V -p",
    },
    Pair {
        what: "ucmatose over IPv6, 20 connections",
        server: "ucmatose -b ::1 -c 20 -C 50 -S 5000 -p",
        client: "ucmatose -s ::1 -c 20 -C 50 -S 5000 -p",
    },
    Pair {
        what: "rstream over IPv6, data verified",
        server: "rstream -b ::1 -S 65536 -C 20 -I 5 -T v -p",
        client: "rstream -s ::1 -S 65536 -C 20 -I 5 -T v -p",
    },
];

fn case(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("rdmacm-utils"), what, faults)
}

fn run(pair: &Pair, faults: &str) {
    run_at(DEVICE, pair, pair.what, faults);
}

fn run_at(device: &str, pair: &Pair, what: &str, faults: &str) {
    let mut case = case(what, faults);
    let (launcher, port) = (case.launcher(device), free_port());
    let mut server = launcher.start("server", &format!("{} {port}", pair.server));
    server.wait_until_bound(port);
    let client = launcher.start("client", &format!("{} {port}", pair.client)).wait(LIMIT);
    for side in [client, server.wait(LIMIT)] {
        case.add(&side);
        side.assert_clean();
        side.assert_moved(Directions::Both);
    }
    case.pass();
}

#[test]
fn programs_of_librdmacm() {
    let _one = exclusive();
    if has("rping") {
        PAIRS.iter().for_each(|pair| run(pair, ""));
    }
}

#[test]
fn programs_of_librdmacm_over_ipv6() {
    let _one = exclusive();
    if has("rping") && has_ipv6() {
        for pair in &PAIRS_V6 {
            run_at(DEVICE_V6, pair, pair.what, "");
            // With fewer messages not every fault would be dealt.
            if pair.client.contains("-C 100") || pair.what.contains("verified") {
                run_at(DEVICE_V6, pair, pair.what, FAULTS);
            }
        }
    }
}

#[test]
fn programs_of_librdmacm_under_faults() {
    let _one = exclusive();
    if has("rping") {
        let reliable =
            PAIRS.iter().filter(|pair| pair.what.contains("-V,") || pair.what.contains("verified"));
        reliable.for_each(|pair| run(pair, FAULTS));
    }
}

#[test]
fn ways_of_rstream_that_prove_nothing() {
    let consumer = Consumer::debian("rdmacm-utils");
    consumer.not_run(
        "rstream -T f (fork), -T s (sockets)",
        "With these options it uses ordinary sockets, on hardware as well",
    );
    consumer.not_run(
        "rstream -T a (poll)",
        "If POLLHUP comes with the last POLLIN, it takes this for a failure (exit 16). Its peer \
         disconnects right after the last bytes, so which of the two it sees first is a race, on \
         hardware as well (8 of 20 runs pass here)",
    );
}

/// The number of rdma-core's own tests of connections and multicast groups.
const CONNECTED: usize = 10;

#[test]
fn tests_of_rdma_core_connect() {
    let _one = exclusive();
    let dir = tempfile::tempdir().unwrap();
    if !has_pyverbs() || unpack(dir.path()).is_none() {
        return;
    }
    let consumer = Consumer::debian("python3-pyverbs");
    let mut case = Case::new(&consumer, "RoCE: rdma-core's own tests of connections", "");
    let root = dir.path().to_str().unwrap();
    let names = "test_rdmacm.CMTestCase";
    let script = format!(
        "cd {root} && PYTHONPATH={root} {PYTHON} -B tests/run_tests.py -v {names} --dev roce0 --port 1 --gid 0"
    );
    let outcome = case.launcher(DEVICE).start_words("suite", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    let passed = outcome.stderr.lines().filter(|line| line.ends_with("... ok")).count();
    assert_eq!(passed, CONNECTED, "{outcome}");
    case.add(&outcome);
    case.pass();
}

/// `udaddy` answers the sender of a datagram, and uses its own port only.
#[test]
fn udaddy_answers_datagrams() {
    const PORT: u16 = 7174;
    let _one = exclusive();
    if !has("udaddy") {
        return;
    }
    let mut case = case("udaddy, 5 queue pairs", "");
    let launcher = case.launcher("--device roce0=127.0.0.77,profile=roce");
    let mut server = launcher.start("server", "udaddy -b 127.0.0.77 -c 5 -C 20 -S 1000");
    server.wait_until_bound(PORT);
    let line = "udaddy -s 127.0.0.77 -c 5 -C 20 -S 1000";
    for side in [launcher.start("client", line).wait(LIMIT), server.wait(LIMIT)] {
        case.add(&side);
        side.assert_clean();
        side.assert_moved(Directions::Both);
    }
    case.pass();
}

#[test]
fn rcopy_copies_a_file() {
    let _one = exclusive();
    if !has("rcopy") {
        return;
    }
    let mut case = case("rcopy, 3 MB", "");
    let (launcher, port) = (case.launcher(DEVICE), free_port());
    let path = |name: &str| launcher.runtime_dir().join(name).to_str().unwrap().to_owned();
    let (from, to) = (path("from"), path("to"));
    let bytes: Vec<u8> =
        (0..3_000_000_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    fs::write(&from, &bytes).unwrap();
    let mut server = launcher.start("server", &format!("rcopy -p {port}"));
    server.wait_until_bound(port);
    let line = format!("rcopy {from} 127.0.0.1:{to} -p {port}");
    let client = launcher.start("client", &line).wait(LIMIT);
    client.assert_clean();
    client.assert_moved(Directions::Both);
    assert!(fs::read(to).unwrap() == bytes, "the copy differs");
    case.add(&client);
    case.pass();
}

/// The server runs for ever.
#[test]
fn connections_by_the_hundred() {
    let _one = exclusive();
    if !has("cmtime") {
        return;
    }
    let mut case = case("cmtime -c 100", "");
    let (launcher, port) = (case.launcher(DEVICE), free_port());
    let mut server = launcher.start("server", &format!("cmtime -b 127.0.0.1 -c 100 -p {port}"));
    server.wait_until_bound(port);
    let client = launcher.start("client", &format!("cmtime -s 127.0.0.1 -c 100 -p {port}"));
    let client = client.wait(LIMIT);
    client.assert_clean();
    assert!(client.stdout.contains("us / conn"), "{client}");
    case.add(&client);
    case.pass_without_traffic();
}
