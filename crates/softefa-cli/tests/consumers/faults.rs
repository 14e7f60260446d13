//! Faults on purpose under unmodified programs: what must be hidden from them is, what must end them
//! does.

use std::time::Duration;

use crate::harness::{Directions, LIMIT, Session, exclusive, free_port, has};

/// The other side must have noticed by then.
const NOTICE_LIMIT: Duration = Duration::from_secs(10);

#[test]
fn damage_dead_paths_and_unready_receivers_do_not_show() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let options = "--integrity crc32c --fault mangle=2%,corrupt=2%,rnr=2%,mtu=3000,qpn-reuse,\
        blackhole=path:0@0s+200ms,blackhole=all@300ms+50ms,delay=10us+-5us,seed=1";
    let line = "ib_send_bw -c SRD -x 0 -F -s 2048 -n 5000";
    let (server, client) = Session::new(options).run_pair(line, ["-p", "-p"]);
    for side in [&server, &client] {
        side.assert_clean();
        side.assert_moved(Directions::Both);
    }
    for name in ["fault_mangled", "fault_corrupted", "retrans_pkts"] {
        assert!(client.counter(name) > 0, "{name} stayed 0\n{client}");
    }
    for name in ["rx_crc_errors", "fault_rnr", "rx_rnr"] {
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
    let port = free_port();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 4096 -D 60 -p {port}");
    let (doomed, other) = (Session::new("--fault peer-kill@2s"), Session::new(""));
    let mut server = doomed.start("server", &line);
    server.wait_until_listening(port);
    let client = other.start("client", &format!("{line} 127.0.0.1"));
    let server = server.wait(LIMIT);
    assert_eq!(server.code, 137, "{server}");
    let client = client.wait(NOTICE_LIMIT);
    assert_ne!(client.code, 0, "the client took a killed server for a success\n{client}");
    client.assert_moved(Directions::Both);
}
