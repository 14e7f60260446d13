//! Faults on purpose under unmodified programs: faults that must be hidden from them are, and
//! faults that must end them do.

use crate::harness::{
    Directions, LIMIT, Launcher, Outcome, damage_counter, exclusive, free_port, has,
};

#[test]
fn damage_dead_paths_and_unready_receivers_do_not_show() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let options = "--integrity crc32c --fault mangle=2%,corrupt=2%,rnr=2%,mtu=3000,qpn-reuse,\
        blackhole=path:0@0s+200ms,blackhole=all@300ms+50ms,delay=10us+-5us,seed=1";
    let line = "ib_send_bw -c SRD -x 0 -F -s 2048 -n 5000";
    let (server, client) = Launcher::new(options).run_pair(line, ["-p", "-p"]);
    for side in [&server, &client] {
        side.assert_clean();
        side.assert_moved(Directions::Both);
    }
    for name in ["fault_mangled", "fault_corrupted", "retrans_pkts"] {
        assert!(client.counter(name) > 0, "{name} stayed 0\n{client}");
    }
    for name in [damage_counter(), "fault_rnr", "rx_rnr"] {
        assert!(server.counter(name) > 0, "{name} stayed 0\n{server}");
    }
    assert_eq!(server.counter("recv_wrs"), 5_000, "{server}");
}

#[test]
fn a_server_that_ends_at_its_time_ends_its_client() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    // On a busy machine the server may end before its client has had an answer.
    let client = [2, 6, 18]
        .into_iter()
        .filter_map(end_of_a_client)
        .find(|client| client.counter("tx_pkts") > 0 && client.counter("rx_pkts") > 0);
    let client = client.expect("a client that gets an answer within 18 s");
    assert_ne!(client.code, 0, "the client took a killed server for a success\n{client}");
    assert_eq!(client.counter("unresponsive_remote_events"), 0, "told by silence only\n{client}");
}

/// Returns the outcome of a client whose server ends after `life_s` seconds; `None` if the server
/// ended too early.
fn end_of_a_client(life_s: u32) -> Option<Outcome> {
    let port = free_port();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 4096 -D 600 -p {port}");
    let doomed = Launcher::new(&format!("--fault peer-kill@{life_s}s"));
    let other = Launcher::new("");
    let mut server = doomed.start("server", &line);
    if !server.comes_to_listen(port) {
        return None;
    }
    let client = other.start("client", &format!("{line} 127.0.0.1"));
    let server = server.wait(LIMIT);
    assert_eq!(server.code, 137, "{server}");
    Some(client.wait(LIMIT))
}
