//! Unmodified programs on a RoCE device: perftest and the ping-pongs of libibverbs, two processes.

use crate::harness::record::{Case, Consumer, FAULTS};
use crate::harness::{Directions, LIMIT, Session, exclusive, free_port, has, is_long};

const PORTS: [&str; 2] = ["-p", "-p"];
const DEVICE: &str = "--roce";

/// What perftest has for RoCE, by transport, with what each needs to end soon.
const PROGRAMS: [(&str, &str); 13] = [
    ("RC", "ib_send_lat -n 1000"),
    ("RC", "ib_send_bw -n 2000"),
    ("RC", "ib_write_lat -n 300"),
    ("RC", "ib_write_bw -n 1000"),
    ("RC", "ib_read_lat -n 500"),
    ("RC", "ib_read_bw -n 500"),
    ("RC", "ib_atomic_lat -n 300"),
    ("RC", "ib_atomic_bw -n 500"),
    ("UC", "ib_send_lat -n 1000"),
    ("UC", "ib_write_lat -n 300"),
    ("UC", "ib_write_bw -n 300"),
    ("UD", "ib_send_lat -n 1000"),
    ("UD", "ib_send_bw -n 1000"),
];
/// Options that change how they do it.
const WAYS: [(&str, &[&str]); 3] = [
    ("ib_send_bw -n 1000", &["-q 4", "-b", "-e", "-I 64", "-m 1024", "-l 8"]),
    ("ib_write_bw -n 1000", &["-q 4", "-b", "-I 64", "-m 1024", "-l 8"]),
    ("ib_read_bw -n 500", &["-q 4", "-b", "-m 1024"]),
];

fn sizes(program: &str) -> Vec<usize> {
    if program.contains("atomic") {
        return vec![8];
    }
    let all = (1..=16).map(|power| 1 << power);
    all.filter(|&bytes| is_long() || [2, 64, 4096, 65_536].contains(&bytes)).collect()
}

fn perftest(what: &str, faults: &str) -> Case {
    Case::new(&Consumer::debian("perftest"), what, faults)
}

/// Runs a pair of `line` with messages of `bytes` and checks both sides.
fn run(case: &mut Case, transport: &str, line: &str, bytes: usize) {
    let size = if line.contains("atomic") { String::new() } else { format!("-s {bytes}") };
    let line = format!("{line} -c {transport} -x 0 -F {size}");
    // What is not acknowledged goes one way only.
    let is_silent = transport != "RC" && line.contains("_bw") && !line.contains("-b");
    let directions = if is_silent { Directions::Either } else { Directions::Both };
    let (server, client) = case.session(DEVICE).run_pair(&line, PORTS);
    for side in [&server, &client] {
        case.add(side);
        side.assert_clean();
        side.assert_moved(directions);
    }
}

#[test]
fn perftest_on_each_transport() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    for (transport, line) in PROGRAMS {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} -c {transport}, all sizes"), "");
        for bytes in sizes(line) {
            // UD takes one packet; what is unreliable may lose bytes that nobody waits for.
            let is_too_long = transport == "UD" && bytes > 4096;
            if !is_too_long {
                run(&mut case, transport, line, bytes);
            }
        }
        case.pass();
    }
}

#[test]
fn perftest_in_other_ways() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    for (line, ways) in WAYS {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} {}", ways.join(", ")), "");
        for way in ways {
            let bytes = if *way == "-I 64" { 64 } else { 8192 };
            run(&mut case, "RC", &format!("{line} {way}"), bytes);
        }
        case.pass();
    }
}

#[test]
fn perftest_under_faults() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    for line in ["ib_send_bw -n 2000", "ib_write_bw -n 2000", "ib_read_bw -n 1000"] {
        let name = line.split(' ').next().unwrap_or_default();
        let mut case = perftest(&format!("RoCE: {name} -c RC"), FAULTS);
        run(&mut case, "RC", line, 16_384);
        case.pass();
    }
}

#[test]
fn pingpongs_of_libibverbs() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") {
        return;
    }
    let consumer = Consumer::debian("ibverbs-utils");
    for program in ["ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong -s 1024"] {
        let mut case = Case::new(&consumer, &format!("RoCE: {program} -c"), "");
        let session: Session = case.session(DEVICE);
        let port = free_port();
        let line = format!("{program} -g 0 -c -n 200 -p {port}");
        let mut server = session.start("server", &line);
        server.wait_until_listening(port);
        let client = session.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
        for side in [server.wait(LIMIT), client] {
            case.add(&side);
            side.assert_clean();
            side.assert_moved(Directions::Both);
            assert!(!side.stdout.contains("invalid data"), "{side}");
        }
        case.pass();
    }
}
