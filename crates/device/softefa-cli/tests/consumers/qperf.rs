//! qperf on a RoCE device: its tests of reliable connections, set up by the connection manager.

use crate::harness::record::{Case, Consumer, EACH_FAULT};
use crate::harness::{Directions, LIMIT, exclusive, free_port, has, is_long};

/// The device, whose address the client also uses to find the server.
const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";
/// The tests. Both ends of those that verify compare the results of atomics.
const TESTS: [&str; 11] = [
    "rc_lat",
    "rc_bw",
    "ver_rc_fetch_add",
    "ver_rc_compare_swap",
    "rc_bi_bw",
    "rc_rdma_write_lat",
    "rc_rdma_write_poll_lat",
    "rc_rdma_write_bw",
    "rc_rdma_read_lat",
    "rc_rdma_read_bw",
    "rc_compare_swap_mr",
];
const SHORT: usize = 3;

fn consumer() -> Consumer {
    Consumer::debian("qperf")
}

/// Runs each test for a second, the shortest possible time.
fn run(tests: &[&str], faults: &str) {
    let mut case = Case::new(&consumer(), &tests.join(", "), faults);
    let (launcher, port) = (case.launcher(DEVICE), free_port());
    let mut server = launcher.start("server", &format!("qperf -lp {port}"));
    server.wait_until_listening(port);
    let line = format!("qperf 127.0.0.1 -lp {port} -cm1 -t 1 {}", tests.join(" "));
    let client = launcher.start("client", &line).wait(LIMIT);
    client.assert_clean();
    client.assert_moved(Directions::Both);
    for test in tests {
        assert!(client.stdout.contains(&format!("{test}:\n")), "{test} did not run\n{client}");
    }
    assert_eq!(client.stdout.matches(" = ").count(), tests.len(), "{client}");
    case.add(&client);
    // The server serves for ever, and ends when it is dropped.
    drop(server);
    case.pass();
}

#[test]
fn reliable_connections_of_qperf() {
    let _one = exclusive();
    if has("qperf") {
        run(&TESTS[..if is_long() { TESTS.len() } else { SHORT }], "");
    }
}

#[test]
fn reliable_connections_of_qperf_under_faults() {
    let _one = exclusive();
    if has("qperf") && is_long() {
        EACH_FAULT.iter().for_each(|faults| run(&TESTS[..SHORT], faults));
    }
}

#[test]
fn qperf_addresses_no_gid_by_itself() {
    consumer().not_run(
        "uc_*, ud_*, and rc_* without -cm1",
        "Without the connection manager qperf addresses peers by LID and gives no GRH (its source knows \
         no GID), so that no RoCE device takes its address vectors. With the connection manager it has \
         RC only",
    );
}
