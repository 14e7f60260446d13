//! The view of programs that seal their packets, without the key and with it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};

use crate::harness::{LIMIT, Launcher, exclusive, has, wait_until};
use crate::live::Capture;
use crate::wireshark::tshark;
use crate::{PORTS, STREAM, roce};

fn key_file(dir: &Path, name: &str, byte: u8) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, [byte; 32]).unwrap();
    path
}

/// Returns how many packets of `file` tshark shows for `filter`.
fn count(file: &Path, filter: &str) -> usize {
    tshark(file, &["-Y", filter]).lines().count()
}

#[test]
fn only_who_has_the_key_sees_what_is_sent() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [key, other] =
        [("key", 1), ("other", 2)].map(|(name, byte)| key_file(dir.path(), name, byte));
    let launcher = Launcher::new(&format!("--key-file {}", key.display()));
    let (server, client) = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let capture = |options: &[&str]| {
        let file = dir.path().join("live.pcapng");
        let mut command = launcher.command();
        command.args(["pcap", "--count", "1000", "--write"]).arg(&file).args(options);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        (file, String::from_utf8(output.stderr).unwrap())
    };
    let (file, said) = capture(&[]);
    assert_eq!((count(&file, "srd.kind == 8"), count(&file, "srd")), (1_000, 1_000), "{said}");
    assert_eq!(count(&file, "srd.op"), 0, "in the clear");
    let with_key = |key: &Path| capture(&["--key-file", key.to_str().unwrap()]);
    let (file, said) = with_key(&other);
    assert_eq!(count(&file, "srd.kind == 8"), 1_000, "{said}");
    assert!(said.contains("1000 do not open with this key"), "{said}");
    let (file, said) = with_key(&key);
    assert_eq!(
        (count(&file, "srd.kind == 8"), count(&file, "srd.kind == 0")),
        (0, 1_000),
        "{said}"
    );
    assert!(count(&file, "srd.op == 0") > 300, "no messages");
    let wrong = "srd.expert.malformed || srd.check.status == 0 || _ws.malformed || !srd";
    assert_eq!(tshark(&file, &["-Y", wrong]), "", "not understood");
    for side in [&client, &server] {
        kill_process(side.pid(), Signal::TERM).unwrap();
    }
    assert_eq!((client.wait(LIMIT).code, server.wait(LIMIT).code), (143, 143));
}

/// `softefa run --pcap` writes the packets as they are on the wire.
#[test]
fn a_run_is_captured_sealed() {
    let _one = exclusive();
    if !has("ib_send_lat") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (key, file) = (key_file(dir.path(), "key", 1), dir.path().join("both.pcapng"));
    let options = format!("--key-file {} --pcap {}", key.display(), file.display());
    let launcher = Launcher::new(&options);
    let line = "ib_send_lat -c SRD -x 0 -F -s 100 -n 200 -p";
    let port = crate::harness::free_port();
    let script = format!("{line} {port} & until {line} {port} 127.0.0.1; do sleep 0.1; done; wait");
    let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    let packets = outcome.counter("tx_pkts") + outcome.counter("rx_pkts");
    assert_eq!(count(&file, "srd.kind == 8") as u64, packets, "{outcome}");
    assert_eq!(count(&file, "srd.kind != 8"), 0, "{outcome}");
}

/// Packets of a RoCE device, and messages of its connection manager: without the key nothing of
/// them is readable, with it every tool decodes them.
#[test]
fn a_roce_device_is_captured_sealed_and_opened() {
    let _one = exclusive();
    if !has("rping") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (key, sealed) = (key_file(dir.path(), "key", 1), dir.path().join("sealed.pcapng"));
    let device = "--device roce0=127.0.0.1,profile=roce";
    let launcher = Launcher::new(&format!("{device} --key-file {}", key.display()));
    let port = crate::harness::free_port();
    let captures = [("sealed", None), ("open", Some(&key))].map(|(name, key)| {
        Capture::begin(&launcher, dir.path().join(format!("{name}.pcapng")), key)
    });
    let mut server = launcher.start("server", &format!("rping -s -a 127.0.0.1 -C 50 -V -p {port}"));
    server.wait_until_bound(port);
    let client = launcher.start("client", &format!("rping -c -a 127.0.0.1 -C 50 -V -p {port}"));
    for side in [client.wait(LIMIT), server.wait(LIMIT)] {
        side.assert_clean();
        assert!(side.counter("cm_rx_msgs") > 0 && side.counter("rx_pkts") > 100, "{side}");
        // rx_drops is left out, because the last acknowledgement may find a queue pair that has
        // ended.
        for refused in ["rx_seal_errors", "rx_seal_replays", "rx_seal_late", "rx_crc_errors"] {
            assert_eq!(side.counter(refused), 0, "{refused}: {side}");
        }
    }
    let files = captures.map(Capture::end);
    assert!(count(&files[0], "udp") > 200, "nothing was captured");
    assert_eq!(count(&sealed, "infiniband"), 0, "in the clear");
    // Guesses do not come first, because R-GOOSE takes some packets of RDMA for its own.
    let count = |file: &Path, filter: &str| roce::tshark(file, &["-Y", filter]).lines().count();
    let kinds = ["infiniband.mad", "infiniband.bth.opcode == 4", "infiniband.bth.opcode == 17"];
    for kind in kinds {
        assert!(count(&files[1], kind) > 0, "no {kind} in what was opened");
    }
    let closed = roce::tshark(&files[1], &["-x", "-Y", "udp && !infiniband"]);
    assert_eq!(closed, "", "not opened");
}
