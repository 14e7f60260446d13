//! What is seen of programs that seal what they send, without the key and with it.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};

use crate::harness::{LIMIT, Session, exclusive, has, wait_until};
use crate::wireshark::tshark;
use crate::{PORTS, STREAM};

fn key_file(dir: &Path, name: &str, byte: u8) -> PathBuf {
    let path = dir.join(name);
    fs::write(&path, [byte; 32]).unwrap();
    path
}

/// How many packets of `file` tshark shows for `filter`.
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
    let session = Session::new(&format!("--key-file {}", key.display()));
    let (server, client) = session.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || session.live_tx_pkts() > 2_000);
    let capture = |options: &[&str]| {
        let file = dir.path().join("live.pcapng");
        let mut command = session.command();
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

/// `softefa run --pcap` writes what is on the wire.
#[test]
fn a_run_is_captured_sealed() {
    let _one = exclusive();
    if !has("ib_send_lat") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (key, file) = (key_file(dir.path(), "key", 1), dir.path().join("both.pcapng"));
    let options = format!("--key-file {} --pcap {}", key.display(), file.display());
    let session = Session::new(&options);
    let line = "ib_send_lat -c SRD -x 0 -F -s 100 -n 200 -p";
    let port = crate::harness::free_port();
    let script = format!("{line} {port} & until {line} {port} 127.0.0.1; do sleep 0.1; done; wait");
    let outcome = session.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    let packets = outcome.counter("tx_pkts") + outcome.counter("rx_pkts");
    assert_eq!(count(&file, "srd.kind == 8") as u64, packets, "{outcome}");
    assert_eq!(count(&file, "srd.kind != 8"), 0, "{outcome}");
}
