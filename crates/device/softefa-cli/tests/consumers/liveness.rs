//! Unannounced ends of processes, after which no other process may hang.

use rustix::process::{Signal, kill_process};

use crate::harness::{
    Directions, LIMIT, Launcher, Running, efa_bench, exclusive, free_port, has, is_long, wait_until,
};

const PORTS: [&str; 2] = ["-p", "-p"];
/// The number of packets after which a transfer is in its middle.
const MIDDLE_PKTS: u64 = 2_000;

/// Kills the program itself, not `softefa`, in the middle of its transfer.
fn kill_in_the_middle(launcher: &Launcher, victim: &Running) {
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > MIDDLE_PKTS);
    let program = victim.program_pid().expect("the program runs");
    kill_process(program, Signal::KILL).unwrap();
}

/// Checks that the side that sends notices a receiver that was killed. (A side that only waits for
/// messages cannot: like EFA, the device is connectionless and has nothing under way to fail.)
fn sender_notices(line: &str) {
    let launcher = Launcher::new("");
    let (server, client) = launcher.start_pair(line, PORTS);
    kill_in_the_middle(&launcher, &server);
    let client = client.wait(LIMIT);
    assert_ne!(client.code, 0, "the client took a killed server for a success\n{client}");
    assert_eq!(client.counter("unresponsive_remote_events"), 0, "told by silence only\n{client}");
    client.assert_moved(Directions::Both);
    assert_eq!(server.wait(LIMIT).code, 137);
}

#[test]
fn killed_receiver_ends_the_sender() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    sender_notices("ib_send_bw -c SRD -x 0 -F -s 4096 -D 600");
    if is_long() {
        sender_notices("ib_send_bw -c SRD -x 0 -F -s 64 -t 1024 -D 600");
        sender_notices("ib_send_bw -c SRD -x 0 -F -s 8192 -q 8 -D 600");
    }
}

/// Whatever the remaining side was doing, its reliable connection ends with an error.
#[test]
fn a_killed_peer_ends_a_reliable_connection() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let lines = ["ib_send_bw", "ib_write_bw", "ib_read_bw"];
    for line in &lines[..if is_long() { lines.len() } else { 1 }] {
        let launcher = Launcher::new("--device roce0=127.0.0.1,profile=roce");
        let (server, client) =
            launcher.start_pair(&format!("{line} -c RC -x 0 -F -s 4096 -D 600"), PORTS);
        kill_in_the_middle(&launcher, &server);
        let client = client.wait(LIMIT);
        assert_ne!(client.code, 0, "the client took a killed server for a success\n{client}");
        client.assert_moved(Directions::Both);
        assert_eq!(server.wait(LIMIT).code, 137);
    }
}

/// libfabric gets a killed peer reported through its completion queue.
#[test]
fn killed_libfabric_receiver_ends_the_sender() {
    let _one = exclusive();
    let launcher = Launcher::new("");
    let efa_bench = efa_bench().display();
    let port = free_port();
    let mut server =
        launcher.start("server", &format!("{efa_bench} server --bind 127.0.0.1 --port {port}"));
    server.wait_until_listening(port);
    let client =
        format!("{efa_bench} run bandwidth -p efa -H 127.0.0.1 --port {port} -s 4096 -t 600");
    let client = launcher.start("client", &client);
    kill_in_the_middle(&launcher, &server);
    let client = client.wait(LIMIT);
    assert_ne!(client.code, 0, "the client took a killed server for a success\n{client}");
    client.assert_moved(Directions::Both);
    assert_eq!(server.wait(LIMIT).code, 137);
}

/// The server exits as soon as it has everything, with its last acknowledgements under way or
/// not yet sent: the client must not hang on them, and must not take them for an error.
#[test]
fn exit_with_acknowledgements_under_way() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let rounds = if is_long() { 200 } else { 20 };
    for round in 0..rounds {
        let line = format!("ib_send_bw -c SRD -x 0 -F -s {} -n 5 -t 16", 64 << (round % 8));
        let (server, client) = Launcher::new("").run_pair(&line, PORTS);
        for side in [&server, &client] {
            assert_eq!(side.code, 0, "round {round} of {rounds}\n{side}");
            side.assert_moved(Directions::Both);
        }
    }
}

/// The same holds for libfabric, whose `fi_close` waits for every send.
#[test]
fn libfabric_exit_with_acknowledgements_under_way() {
    let _one = exclusive();
    if !has("fi_pingpong") {
        return;
    }
    let rounds = if is_long() { 50 } else { 5 };
    for round in 0..rounds {
        let faults = if round % 2 == 0 { "" } else { "--fault loss=5%,seed=3" };
        let line = "fi_pingpong -p efa -e rdm -S 64 -I 10";
        let (server, client) = Launcher::new(faults).run_pair(line, ["-B", "-P"]);
        for side in [&server, &client] {
            assert_eq!(side.code, 0, "round {round} of {rounds}\n{side}");
        }
    }
}
