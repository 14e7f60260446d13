//! The messages of the connection manager as others see them: Wireshark decodes them without our
//! dissector, and they are counted.

use std::process::Command;

use crate::harness::{LIMIT, Launcher, exclusive, free_port, has};

#[test]
fn connections_are_captured_and_counted() {
    let _one = exclusive();
    if !has("rping") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("server.pcap");
    let device = "--device roce0=127.0.0.1,profile=roce";
    let server = Launcher::new(&format!("{device} --pcap {}", file.display()));
    let port = free_port();
    let mut running = server.start("server", &format!("rping -s -a 127.0.0.1 -C 3 -V -p {port}"));
    running.wait_until_bound(port);
    let line = format!("rping -c -a 127.0.0.1 -C 3 -V -p {port}");
    let client = Launcher::new(device).start("client", &line).wait(LIMIT);
    let server = running.wait(LIMIT);
    client.assert_clean();
    server.assert_clean();
    // The client sends REQ, RTU and one side of the end, and receives REP. It may exit before the
    // other side of the end comes.
    assert!(client.counter("cm_tx_msgs") >= 3 && client.counter("cm_rx_msgs") >= 1, "{client}");
    assert!(server.counter("cm_tx_msgs") >= 2 && server.counter("cm_rx_msgs") >= 3, "{server}");
    let shown = Command::new("tshark").arg("-r").arg(&file).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout);
    let names =
        ["ConnectRequest", "ConnectReply", "ReadyToUse", "DisconnectRequest", "DisconnectReply"];
    let missing = names.iter().find(|name| !shown.contains(&format!("CM: {name}")));
    assert_eq!(missing, None, "{shown}");
    assert!(!shown.contains("Malformed"), "{shown}");
}
