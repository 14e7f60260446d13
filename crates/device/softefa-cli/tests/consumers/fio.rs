//! fio's engine for RDMA on a RoCE device: one process gives memory away, another writes or reads
//! it.

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{Directions, LIMIT, exclusive, free_port, has, is_long};

const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";

/// Runs a job of `kib` KiB; `verb` is the operation of the client, `counted` the counter of its
/// bytes.
fn run((verb, counted): (&str, &str), kib: u64, faults: &str) {
    let what = format!("ioengine=rdma, verb={verb}");
    let mut case = Case::new(&Consumer::debian("fio"), &what, faults);
    let (launcher, port) = (case.launcher(DEVICE), free_port());
    let job = format!("--ioengine=rdma --port={port} --bs=16k --iodepth=16 --size={kib}k");
    let mut server = launcher.start("server", &format!("fio --name=server {job} --rw=read"));
    server.wait_until_bound(port);
    let line = format!("fio --name=client {job} --rw=write --hostname=127.0.0.1 --verb={verb}");
    let client = launcher.start("client", &line).wait(LIMIT);
    for side in [server.wait(LIMIT), client] {
        case.add(&side);
        assert_eq!(side.code, 0, "{side}");
        assert!(side.stdout.contains("err= 0"), "{side}");
        side.assert_moved(Directions::Both);
    }
    assert_eq!(case.counter(counted), kib << 10, "{counted}");
    case.pass();
}

const VERBS: [(&str, &str); 2] = [("write", "rdma_write_bytes"), ("read", "rdma_read_bytes")];

#[test]
fn fio_writes_and_reads() {
    let _one = exclusive();
    if has("fio") {
        VERBS.iter().for_each(|&verb| run(verb, if is_long() { 64 << 10 } else { 4 << 10 }, ""));
    }
}

#[test]
fn fio_under_faults() {
    let _one = exclusive();
    if !has("fio") || !is_long() {
        return;
    }
    for verb in VERBS {
        EACH_FAULT.iter().for_each(|faults| run(verb, 4 << 10, faults));
    }
}

#[test]
fn fio_does_not_wait_for_receives() {
    Consumer::debian("fio").not_run(
        "ioengine=rdma, verb=send",
        "fio asks for connections without a retry when the receiver is not ready (`rnr_retry_count` 0), \
         and posts its receives only when it is scheduled. A faster sender ends with status 13, on \
         hardware as well",
    );
}
