//! A disk over iSER, which tgt serves and the programs of libiscsi read by RDMA of the target.

use std::fs::File;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{Directions, LIMIT, exclusive, free_port, has, is_long, wait_until};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
const TARGET: &str = "iqn.2026-11.org.soft-efa:disk";
const INITIATOR: &str = "iqn.2026-11.org.soft-efa:initiator";
const DISK_BYTES: u64 = 16 << 20;

/// Returns a port of 15 bits, as tgt requires. The connection manager's ports are UDP ports of the
/// kernel.
fn free_low_port() -> u16 {
    let is_free = |port: &u16| UdpSocket::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    (20_000..0x8000).find(is_free).expect("a port is free")
}

/// Sends a request to the target at `socket`, and returns true if it was carried out.
fn administer(socket: &Path, line: &str) -> bool {
    let mut command = Command::new("tgtadm");
    command.args(["--lld", "iser", "--mode"]).args(line.split_whitespace());
    command.env("TGT_IPC_SOCKET", socket).output().unwrap().status.success()
}

fn run(faults: &str) {
    let consumer = Consumer::debian("tgt");
    let what = "tgtd (iSER) and libiscsi: iscsi-inq, iscsi-readcapacity16, iscsi-perf";
    let mut case = Case::new(&consumer, what, faults);
    let launcher = case.launcher(DEVICE);
    let [disk, socket] = ["disk", "tgtd"].map(|name| launcher.runtime_dir().join(name));
    File::create(&disk).unwrap().set_len(DISK_BYTES).unwrap();
    let launcher = launcher.with_env(&[("TGT_IPC_SOCKET", socket.to_str().unwrap())]);
    let (port, unused) = (free_low_port(), free_port());
    let line = format!("tgtd -f --iser port={port} --iscsi portal=127.0.0.1:{unused}");
    let mut server = launcher.start("server", &line);
    server.wait_until_bound(port);
    let target = format!("target --op new --tid 1 -T {TARGET}");
    wait_until("tgtd takes commands", || administer(&socket, &target));
    for line in [
        format!("logicalunit --op new --tid 1 --lun 1 -b {}", disk.display()),
        "target --op bind --tid 1 -I ALL".to_owned(),
        // The target checks both lists.
        format!("target --op bind --tid 1 -Q {INITIATOR}"),
    ] {
        assert!(administer(&socket, &line), "{line}");
    }
    let url = format!("iscsi://127.0.0.1:{port}/{TARGET}/1?iser");
    // iscsi-test-cu is left out, because libiscsi 1.19 follows a null pointer while it makes the
    // commands of that program.
    for line in ["iscsi-inq", "iscsi-readcapacity16", "iscsi-perf -m 16 -b 64 -t 1"] {
        let (program, options) = line.split_once(' ').unwrap_or((line, ""));
        let line = format!("{program} -i {INITIATOR} {options}");
        let client = launcher.start("client", &format!("{line} {url}")).wait(LIMIT);
        assert_eq!(client.code, 0, "{client}");
        client.assert_moved(Directions::Both);
        case.add(&client);
    }
    // tgt ends by a signal when it removes a target that had connections.
    drop(server);
    case.pass();
}

#[test]
fn a_disk_over_iser() {
    let _one = exclusive();
    if is_long() && has("tgtd") && has("iscsi-perf") {
        run("");
        EACH_FAULT.iter().for_each(|faults| run(faults));
    }
}
