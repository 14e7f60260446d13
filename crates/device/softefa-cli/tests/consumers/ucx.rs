//! UCX's own tools on the device.

use crate::harness::record::{Case, Consumer};
use crate::harness::{Directions, LIMIT, exclusive, free_port, has, has_ipv6};

/// Returns transport and device of each resource that `ucx_info -d` found on our device.
fn transports(text: &str) -> Vec<&str> {
    let mut transport = "";
    let mut found = Vec::new();
    for line in text.lines() {
        let line = line.trim_start_matches(['#', ' ']);
        if let Some(name) = line.strip_prefix("Transport: ") {
            transport = name;
        } else if line == "Device: rdmap0s6:1" {
            found.push(transport);
        }
    }
    found
}

/// UCX 1.13 is older than its support of EFA: it finds the device and lists datagrams on it, but
/// cannot open them with the limits of a queue pair of EFA.
#[test]
fn ucx_info_lists_the_device() {
    let _one = exclusive();
    if !has("ucx_info") {
        return;
    }
    let what = "ucx_info -d: the device with ud_verbs";
    let mut case = Case::new(&Consumer::debian("ucx-utils"), what, "");
    let outcome = case.launcher("").run("ucx_info -d");
    case.add(&outcome);
    assert_eq!(outcome.code, 0, "{outcome}");
    assert_eq!(transports(&outcome.stdout), ["ud_verbs"], "{outcome}");
    // Hardware, too, refuses a program that asks for more inline data than EFA has.
    assert!(outcome.stdout.contains(" inl:64 "), "refused for another reason\n{outcome}");
    case.note(
        "UCX before 1.19 cannot open it: its UD wants 64 bytes of inline data, 6 segments and \
         atomics; EFA has 32, 2 and none",
    );
    case.pass_without_traffic();
}

/// The UD of UCX expects datagrams of the family that the service level of a completion names.
#[test]
fn ucx_perftest_runs_over_ipv6() {
    let _one = exclusive();
    if !has("ucx_perftest") || !has_ipv6() {
        return;
    }
    for transport in ["rc_v", "ud_v"] {
        let what = format!("RoCE over IPv6: ucx_perftest -t tag_lat on {transport}");
        let mut case = Case::new(&Consumer::debian("ucx-utils"), &what, "");
        let launcher = case.launcher("--device roce0=::1,profile=roce");
        let port = free_port();
        let env = format!("env UCX_TLS={transport},self UCX_NET_DEVICES=roce0:1");
        let line = format!("{env} ucx_perftest -t tag_lat -n 500 -p {port}");
        let mut server = launcher.start("server", &line);
        server.wait_until_listening(port);
        let client = launcher.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
        for side in [client, server.wait(LIMIT)] {
            case.add(&side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
        }
        case.pass();
    }
}

/// It was tried by hand with the tools and unit tests of UCX, and with UCX's own mock of EFA, which
/// behaves in the same way.
#[test]
fn ucx_does_not_sleep_on_srd() {
    Consumer::new("UCX", "9466d104a3", "sources").not_run(
        "ucx_perftest -E sleep over srd",
        "UCX offers no events over EFA (`ib_efa_md.c`: `req_notify_cq_support = 0`), so a program that \
         asks for UCP_FEATURE_WAKEUP finds no transport: \"no send completion event\". Poll instead",
    );
}
