//! perftest: latency and bandwidth over SRD and UD, two processes.

use std::time::Duration;

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, has, is_long};

const PORTS: [&str; 2] = ["-p", "-p"];
/// The longest UD message of perftest, which is limited by the verbs MTU whatever the device
/// permits.
const UD_MAX_BYTES: usize = 4096;

fn sizes() -> Vec<usize> {
    let all = (1..=13).map(|power| 1 << power);
    all.filter(|&bytes| is_long() || [2, 64, 4096, 8192].contains(&bytes)).collect()
}

fn case(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("perftest"), what, faults)
}

/// Runs a pair and checks both sides; returns the row the client printed for `bytes`.
fn run(
    case: &mut Case,
    program: &str,
    transport: &str,
    bytes: usize,
    extra: &str,
) -> (Outcome, Outcome, Vec<f64>) {
    let line = format!("{program} -c {transport} -x 0 -F -s {bytes} {extra}");
    let one_way = transport == "UD" && program == "ib_send_bw";
    let directions = if one_way { Directions::Either } else { Directions::Both };
    let (server, client) = case.launcher("").run_pair(&line, PORTS);
    for side in [&server, &client] {
        case.add(side);
        side.assert_clean();
        side.assert_moved(directions);
    }
    let row = row(&client, bytes);
    (server, client, row)
}

/// Returns the numbers of the row whose first column is `bytes`.
#[track_caller]
fn row(outcome: &Outcome, bytes: usize) -> Vec<f64> {
    let size = bytes.to_string();
    let rows = outcome.stdout.lines().skip_while(|line| !line.trim_start().starts_with("#bytes"));
    let row = rows.skip(1).find(|line| line.split_whitespace().next() == Some(&size));
    let row = row.unwrap_or_else(|| panic!("no result for {bytes} bytes\n{outcome}"));
    row.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[test]
fn latency_of_all_sizes() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    // UD may lose messages that perftest waits for, so that faults are not possible.
    for (transport, faults) in [("SRD", ""), ("UD", ""), ("SRD", FAULTS)] {
        let mut case = case(&format!("ib_send_lat -c {transport}, all sizes"), faults);
        for bytes in sizes() {
            if transport == "UD" && bytes > UD_MAX_BYTES {
                continue;
            }
            let (server, client, row) = run(&mut case, "ib_send_lat", transport, bytes, "-n 1000");
            let typical_us = row[4];
            assert!(typical_us > 0.1, "{transport} {bytes}: nothing is that fast\n{client}");
            let received = server.counter("recv_wrs").min(client.counter("recv_wrs"));
            assert!(received >= 1000, "{transport} {bytes}: {received} arrived\n{server}");
        }
        case.pass();
    }
}

#[test]
fn bandwidth_of_all_sizes() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    for faults in ["", FAULTS] {
        let mut case = case("ib_send_bw -c SRD, all sizes", faults);
        for bytes in sizes() {
            let (server, client, row) = run(&mut case, "ib_send_bw", "SRD", bytes, "-n 5000");
            assert!(row[3] > 0.0, "{client}");
            assert!(server.counter("recv_bytes") >= 5000 * bytes as u64, "{server}");
        }
        case.pass();
    }
}

#[test]
fn unreliable_datagrams_of_all_sizes() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let mut case = case("ib_send_bw -c UD, all sizes", "");
    // The receive queue has room for all of them, because a datagram lost for lack of a receive
    // would make perftest hang.
    for bytes in sizes().into_iter().filter(|&bytes| bytes <= UD_MAX_BYTES) {
        let (server, _, _) = run(&mut case, "ib_send_bw", "UD", bytes, "-n 500 -r 1024");
        assert!(server.counter("recv_wrs") >= 500, "{server}");
    }
    case.pass();
}

#[test]
fn depths_and_queue_pairs() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let all = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    let depths: Vec<u32> =
        all.into_iter().filter(|d| is_long() || [1, 16, 1024].contains(d)).collect();
    let queue_pairs = if is_long() { vec![1, 2, 3, 4, 5, 6, 7, 8] } else { vec![2, 8] };
    for faults in ["", FAULTS] {
        let what = "ib_send_bw -c SRD, depths, several queue pairs, legacy calls, inline data";
        let mut case = case(what, faults);
        let mut run = |bytes, extra: &str| run(&mut case, "ib_send_bw", "SRD", bytes, extra);
        for depth in &depths {
            run(1024, &format!("-n 5000 -t {depth} -r 2048"));
        }
        for count in &queue_pairs {
            run(4096, &format!("-n 2000 -q {count}"));
        }
        run(2048, "-n 2000 --use_old_post_send");
        run(32, "-n 2000 -I 32");
        case.pass();
    }
}

#[test]
fn programs_that_sleep_until_an_event() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    // perftest refuses events on SRD, whatever the device supports.
    let mut case = case("ib_send_lat, ib_send_bw -c UD, asleep between events (-e)", "");
    for bytes in [64, UD_MAX_BYTES] {
        let (server, client, _) = run(&mut case, "ib_send_lat", "UD", bytes, "-n 1000 -e");
        for side in [&server, &client] {
            // The service thread makes progress for a side that sleeps.
            assert!(side.counter("recv_wrs") >= 1000, "{side}");
            assert!(side.counter("service_turns") >= 500, "{side}");
        }
        let (server, _, _) = run(&mut case, "ib_send_bw", "UD", bytes, "-n 500 -r 1024 -e");
        assert!(server.counter("recv_wrs") >= 500, "{server}");
    }
    case.pass();
}

#[test]
fn a_duration_is_kept() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let seconds = if is_long() { 5 } else { 2 };
    let mut case = case("ib_send_bw, ib_send_lat for a duration (-D)", "");
    let extra = format!("-D {seconds} -f 0");
    for program in ["ib_send_bw", "ib_send_lat"] {
        let line = format!("{program} -c SRD -x 0 -F -s 4096 {extra}");
        let (server, client) = case.launcher("").run_pair(&line, PORTS);
        for side in [&server, &client] {
            case.add(side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
        }
        row(&client, 4096);
    }
    case.pass();
}

#[test]
fn endless_run_prints_until_it_is_ended() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let mut case = case("ib_send_bw --run_infinitely, ended by a signal", "");
    let launcher = case.launcher("");
    let line = "ib_send_bw -c SRD -x 0 -F -s 4096 --run_infinitely -D 1";
    let (server, client) = launcher.start_pair(line, PORTS);
    let out = launcher.runtime_dir().join("client.out");
    let rows = || {
        let text = std::fs::read_to_string(&out).unwrap_or_default();
        text.lines().filter(|line| line.trim_start().starts_with("4096 ")).count()
    };
    crate::harness::wait_until("two results are printed", || rows() >= 2);
    for side in [client, server] {
        rustix::process::kill_process(side.pid(), rustix::process::Signal::TERM).unwrap();
        let outcome = side.wait(LIMIT.min(Duration::from_secs(10)));
        assert_eq!(outcome.code, 143, "ended by the signal\n{outcome}");
        outcome.assert_moved(Directions::Both);
        case.add(&outcome);
    }
    case.pass();
}

#[test]
fn connected_transports_are_refused() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    // Like EFA, the device has no reliable connections. The server fails before it would wait for a
    // client, or right after the client came.
    // right after the client came.
    let launcher = Launcher::new("");
    let port = crate::harness::free_port();
    let mut server = launcher.start("server", &format!("ib_send_bw -c RC -F -x 0 -p {port}"));
    let client = format!("ib_send_bw -c RC -F -x 0 -p {port} 127.0.0.1");
    server.wait_until_listening(port);
    assert_ne!(launcher.start("client", &client).wait(LIMIT).code, 0);
    assert_ne!(server.wait(LIMIT).code, 0);
}
