//! Unmodified programs whose datagrams are sealed. `make consumers` runs all other programs sealed,
//! too, in their short form.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, free_port, has};

const PERFTEST: [&str; 2] = ["-p", "-p"];
const PINGPONG: [&str; 2] = ["-B", "-P"];

fn key_file(dir: &Path, byte: u8) -> PathBuf {
    let path = dir.join(format!("key-{byte}"));
    fs::write(&path, [byte; 32]).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Runs a pair sealed and checks both sides.
fn run(
    case: &mut Case,
    line: &str,
    ports: [&str; 2],
    directions: Directions,
) -> (Outcome, Outcome) {
    let dir = tempfile::tempdir().unwrap();
    let options = format!("--key-file {}", key_file(dir.path(), 1).display());
    let (server, client) = case.launcher(&options).run_pair(line, ports);
    for side in [&server, &client] {
        case.add(side);
        side.assert_clean();
        side.assert_moved(directions);
        for trouble in ["rx_seal_errors", "rx_crc_errors", "rx_notices", "tx_notices"] {
            assert_eq!(side.counter(trouble), 0, "{trouble}\n{side}");
        }
    }
    (server, client)
}

#[test]
fn perftest_with_a_key() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let perftest = Consumer::debian("perftest");
    for faults in ["", FAULTS] {
        let mut case = Case::new(&perftest, "ib_send_bw, ib_send_lat -c SRD, --key-file", faults);
        for bytes in [2, 4096, 8192] {
            let bw = format!("ib_send_bw -c SRD -x 0 -F -s {bytes} -n 2000");
            let (server, _) = run(&mut case, &bw, PERFTEST, Directions::Both);
            assert!(server.counter("recv_bytes") >= 2000 * bytes, "{server}");
            let replays = server.counter("rx_seal_replays");
            assert_eq!(replays > 0, !faults.is_empty(), "{replays} of doubled datagrams\n{server}");
            let lat = format!("ib_send_lat -c SRD -x 0 -F -s {bytes} -n 500");
            run(&mut case, &lat, PERFTEST, Directions::Both);
        }
        case.pass();
    }
    let mut case = Case::new(&perftest, "ib_send_bw, ib_send_lat -c UD, --key-file", "");
    let bw = "ib_send_bw -c UD -x 0 -F -s 4096 -n 500 -r 1024";
    run(&mut case, bw, PERFTEST, Directions::Either);
    run(&mut case, "ib_send_lat -c UD -x 0 -F -s 64 -n 500", PERFTEST, Directions::Both);
    case.pass();
}

#[test]
fn fi_pingpong_with_a_key() {
    let _one = exclusive();
    if !has("fi_pingpong") {
        return;
    }
    let libfabric = Consumer::debian("libfabric-bin");
    for (endpoint, faults) in [("rdm", ""), ("rdm", FAULTS), ("dgram", "")] {
        let what = format!("fi_pingpong -e {endpoint}, --key-file");
        let mut case = Case::new(&libfabric, &what, faults);
        let line = format!("fi_pingpong -p efa -e {endpoint} -c -I 50");
        run(&mut case, &line, PINGPONG, Directions::Both);
        case.pass();
    }
}

/// The client must learn of it instead of waiting for ever, and standard error must give the
/// reason.
#[test]
fn two_keys_end_a_transfer() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let options = |byte| format!("--key-file {}", key_file(dir.path(), byte).display());
    for [there, here] in
        [[options(1), options(2)], [options(1), String::new()], [String::new(), options(1)]]
    {
        let port = free_port();
        let line = format!("ib_send_bw -c SRD -x 0 -F -s 64 -n 100 -p {port}");
        let (there, here) = (without_key(&there), without_key(&here));
        let mut server = there.start("server", &line);
        server.wait_until_listening(port);
        let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
        assert_ne!(client.code, 0, "{client}");
        // perftest prints the status as vendor error 9.
        assert!(format!("{}{}", client.stdout, client.stderr).contains("syndrom 0x9"), "{client}");
        assert_eq!(
            client.counter("unresponsive_remote_events"),
            0,
            "told by silence only\n{client}"
        );
        // The server would wait two minutes for messages.
        kill_process(server.pid(), Signal::TERM).unwrap();
        let server = server.wait(LIMIT);
        assert!(server.counter("rx_seal_errors") > 0, "{server}");
        let lines = server.stderr.lines().filter(|line| line.contains("cannot be opened"));
        assert_eq!(lines.count(), 1, "{server}");
    }
}

/// Makes a launcher with these options only, even if all other programs are run with a key.
fn without_key(options: &str) -> Launcher {
    Launcher::new(options).with_env(&[("SOFTEFA_KEY_FILE", "")])
}
