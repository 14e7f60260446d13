//! Unmodified programs on RoCE devices that seal all packets.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::process::{Signal, kill_process};

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, free_port, has};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
/// The counters that stay 0 between ends that share a key.
const TROUBLE: [&str; 4] = ["rx_seal_errors", "rx_crc_errors", "rx_notices", "tx_notices"];

fn key_file(dir: &Path, byte: u8) -> PathBuf {
    let path = dir.join(format!("key-{byte}"));
    fs::write(&path, [byte; 32]).unwrap();
    path
}

fn with_key(dir: &Path, byte: u8) -> String {
    format!("{DEVICE} --key-file {}", key_file(dir, byte).display())
}

fn check(case: &mut Case, side: &Outcome) {
    case.add(side);
    side.assert_clean();
    side.assert_moved(Directions::Either);
    for trouble in TROUBLE {
        assert_eq!(side.counter(trouble), 0, "{trouble}\n{side}");
    }
}

/// The programs connect by the connection manager, whose messages are sealed, too.
#[test]
fn programs_that_connect_with_a_key() {
    let _one = exclusive();
    if !has("rping") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let consumer = Consumer::debian("rdmacm-utils");
    let lines = [
        ("rping -V", "rping -s -C 50 -V -p", "rping -c -a 127.0.0.1 -C 50 -V -p"),
        ("ucmatose", "ucmatose -c 5 -C 200 -p", "ucmatose -s 127.0.0.1 -c 5 -C 200 -p"),
        (
            "rstream -T v",
            "rstream -S 65536 -C 20 -T v -p",
            "rstream -s 127.0.0.1 -S 65536 -C 20 -T v -p",
        ),
    ];
    for (what, server, client) in lines {
        for faults in ["", FAULTS] {
            let mut case = Case::new(&consumer, &format!("{what}, --key-file"), faults);
            let launcher = case.launcher(&with_key(dir.path(), 1));
            let port = free_port();
            let mut server = launcher.start("server", &format!("{server} {port}"));
            server.wait_until_bound(port);
            let client = launcher.start("client", &format!("{client} {port}")).wait(LIMIT);
            for side in [client, server.wait(LIMIT)] {
                assert!(side.counter("cm_rx_msgs") > 0, "{side}");
                check(&mut case, &side);
            }
            case.pass();
        }
    }
}

#[test]
fn perftest_with_a_key() {
    let _one = exclusive();
    if !has("ib_write_bw") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let consumer = Consumer::debian("perftest");
    for line in [
        "ib_write_bw -c RC -F -s 65536 -n 500",
        "ib_write_lat -c RC -F -s 8 -n 500",
        "ib_read_bw -c RC -F -s 65536 -n 500",
        "ib_atomic_lat -F -n 500",
        "ib_send_lat -c UC -F -s 5000 -n 500",
        "ib_send_lat -c UD -F -s 1000 -n 500",
    ] {
        let mut case = Case::new(&consumer, &format!("{line}, --key-file"), "");
        let launcher = case.launcher(&with_key(dir.path(), 1));
        let (server, client) = launcher.run_pair(&format!("{line} -x 0"), ["-p", "-p"]);
        [server, client].iter().for_each(|side| check(&mut case, side));
        case.pass();
    }
}

/// Both ends learn of it at once, and standard error gives the reason.
#[test]
fn two_keys_are_two_networks() {
    let _one = exclusive();
    if !has("rping") || !has("ibv_rc_pingpong") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [there, here] = [1, 2].map(|byte| {
        Launcher::new(&with_key(dir.path(), byte)).with_env(&[("SOFTEFA_KEY_FILE", "")])
    });
    let port = free_port();
    let mut server = there.start("server", &format!("rping -s -C 1 -p {port}"));
    server.wait_until_bound(port);
    let began = Instant::now();
    let client = here.start("client", &format!("rping -c -a 127.0.0.1 -C 1 -p {port}")).wait(LIMIT);
    assert_ne!(client.code, 0, "{client}");
    let told = format!("{}{}", client.stdout, client.stderr);
    assert!(told.contains("RDMA_CM_EVENT_REJECTED"), "after {:?}\n{client}", began.elapsed());
    assert!(client.counter("rx_notices") > 0, "{client}");
    kill_process(server.pid(), Signal::TERM).unwrap();
    // The server has opened no device, because it listens at every address.
    let server = server.wait(LIMIT);
    let lines = server.stderr.lines().filter(|line| line.contains("cannot be opened"));
    assert_eq!(lines.count(), 1, "{server}");

    let port = free_port();
    let mut server = there.start("server", &format!("ibv_rc_pingpong -g 0 -n 10 -p {port}"));
    server.wait_until_listening(port);
    let line = format!("ibv_rc_pingpong -g 0 -n 10 -p {port} 127.0.0.1");
    let client = here.start("client", &line).wait(LIMIT);
    assert_ne!(client.code, 0, "{client}");
    let told = format!("{}{}", client.stdout, client.stderr);
    assert!(told.contains("status transport retry counter exceeded (12)"), "{client}");
    kill_process(server.pid(), Signal::TERM).unwrap();
    assert!(server.wait(LIMIT).counter("rx_seal_errors") > 0);
}
