//! perftest on a RoCE device: each program, transport and mode, between two processes.

use crate::harness::record::{Case, Consumer, EACH_FAULT, FAULTS};
use crate::harness::{Directions, LIMIT, Outcome, exclusive, free_port, has, is_long};

/// A device with a port for the largest packets.
const DEVICE: &str = "--device roce0=127.0.0.1,profile=roce";

/// A program with the modes in which it is run: those of each run, and those of the long form.
struct Matrix {
    transport: &'static str,
    /// The command line, with the options that it needs to end soon.
    line: &'static str,
    short: &'static [&'static str],
    long: &'static [&'static str],
}

const fn of(
    transport: &'static str,
    line: &'static str,
    short: &'static [&'static str],
    long: &'static [&'static str],
) -> Matrix {
    Matrix { transport, line, short, long }
}

/// The programs. A size and `-a` are modes, too. The sender on an unreliable connection does not
/// wait for a late receiver, so that there are few messages, all of which have receives.
const MATRIX: [Matrix; 22] = [
    of(
        "RC",
        "ib_send_lat -n 300",
        &["-s 64", "-s 65536", "-e", "-R"],
        &["-a", "-I 64 -s 64", "--use-srq", "-U", "-m 1024"],
    ),
    of(
        "RC",
        "ib_send_bw -n 1000",
        &["-s 64", "-s 65536", "-q 8 -b -e --use-srq", "-q 4", "--use-srq"],
        &[
            "-a",
            "-q 8",
            "-b",
            "-e",
            "-I 64 -s 64",
            "-m 1024",
            "-l 8",
            "-R",
            "-t 1",
            "-N",
            "-z",
            "--odp",
            "-D 1",
            "--use_old_post_send",
            "--mr_per_qp",
            "--report-both -b",
            "--reversed",
        ],
    ),
    of("RC", "ib_write_lat -n 100", &["-s 64", "-s 65536"], &["-a", "-I 64 -s 64", "-R"]),
    of(
        "RC",
        "ib_write_bw -n 1000",
        &["-s 64", "-s 65536", "-q 8", "-b", "-R"],
        &["-a", "-I 64 -s 64", "-m 1024", "-l 8", "--odp", "-D 1", "--use_old_post_send"],
    ),
    of("RC", "ib_read_lat -n 200", &["-s 64", "-s 65536"], &["-a", "-e", "-R"]),
    of(
        "RC",
        "ib_read_bw -n 500",
        &["-s 64", "-s 65536", "-q 8 -b -e"],
        &["-a", "-q 8", "-b", "-e", "-m 1024", "-o 1", "-R", "--odp"],
    ),
    of("RC", "ib_atomic_lat -n 200", &["", "-A CMP_AND_SWAP"], &["-e", "-R"]),
    of(
        "RC",
        "ib_atomic_bw -n 300",
        &["", "-q 8 -b -e"],
        &["-A CMP_AND_SWAP", "-q 8", "-b", "-e", "-o 1", "-R"],
    ),
    of("UC", "ib_send_lat -n 300", &["-s 64", "-s 65536"], &["-e", "-I 64 -s 64", "--use-srq"]),
    of("UC", "ib_send_bw -n 100 -s 1024", &[""], &["-b", "-q 2"]),
    of("UC", "ib_write_lat -n 300", &["-s 64", "-s 65536"], &["-I 64 -s 64"]),
    of("UC", "ib_write_bw -n 300", &["-s 65536"], &["-s 64", "-b", "-q 8"]),
    of(
        "UD",
        "ib_send_lat -n 300",
        &["-s 64", "-s 4096"],
        &["-a", "-e -s 1024", "-I 64 -s 64", "-R -s 1024", "--use-srq -s 1024"],
    ),
    of("UD", "ib_send_bw -n 100 -s 1024", &["", "-R"], &["-q 2", "-b", "-e", "--use-srq"]),
    of("XRC", "ib_send_lat -n 300", &["-s 64"], &["-s 65536", "-e"]),
    of("XRC", "ib_send_bw -n 1000", &["-s 65536", "-q 4"], &["-s 64", "-b", "-e"]),
    of("XRC", "ib_write_lat -n 100", &["-s 64"], &["-s 65536"]),
    of("XRC", "ib_write_bw -n 1000", &["-s 65536"], &["-s 64", "-b", "-q 8"]),
    of("XRC", "ib_read_lat -n 200", &["-s 64"], &["-s 65536"]),
    of("XRC", "ib_read_bw -n 500", &["-s 65536"], &["-s 64", "-b", "-q 8"]),
    of("XRC", "ib_atomic_lat -n 200", &[""], &["-A CMP_AND_SWAP"]),
    of("XRC", "ib_atomic_bw -n 300", &[""], &["-A CMP_AND_SWAP", "-q 8"]),
];

/// Runs a pair and checks both sides. With `-R` and `-z` they use the connection manager.
fn run(case: &mut Case, transport: &str, line: &str) {
    let options = format!("{line} -c {transport} -F");
    let [server, client] = if line.contains(" -R") || line.contains(" -z") {
        connected(case, &options)
    } else {
        case.launcher(DEVICE).run_pair(&format!("{options} -x 0"), ["-p", "-p"]).into()
    };
    // Packets of unreliable transports go one way only.
    let is_silent =
        ["UC", "UD"].contains(&transport) && line.contains("_bw") && !line.contains("-b");
    for side in [server, client] {
        case.add(&side);
        side.assert_clean();
        side.assert_moved(if is_silent { Directions::Either } else { Directions::Both });
    }
}

fn connected(case: &Case, options: &str) -> [Outcome; 2] {
    let (launcher, port) = (case.launcher(DEVICE), free_port());
    let line = format!("{options} -p {port}");
    let mut server = launcher.start("server", &line);
    server.wait_until_bound(port);
    let client = launcher.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    [server.wait(LIMIT), client]
}

#[test]
fn every_program_on_every_transport_in_every_way() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    for Matrix { transport, line, short, long } in MATRIX {
        let program = line.split(' ').next().unwrap_or_default();
        let ways: Vec<&str> = short.iter().chain(long).copied().collect();
        let named: Vec<&str> = ways.iter().copied().filter(|way| !way.is_empty()).collect();
        let what = format!("RoCE: {program} -c {transport} {}", named.join(", "));
        let mut case = Case::new(&Consumer::debian("perftest"), what.trim_end(), "");
        for way in &ways[..if is_long() { ways.len() } else { short.len() }] {
            run(&mut case, transport, &format!("{line} {way}"));
        }
        case.pass();
    }
}

/// Bandwidth only: if each message waited for an answer, only a timer would repeat a lost one.
#[test]
fn reliable_ones_under_faults() {
    const LINES: [(&str, &str); 6] = [
        ("RC", "ib_send_bw -n 2000 -s 16384"),
        ("XRC", "ib_send_bw -n 2000 -s 16384"),
        ("RC", "ib_write_bw -n 2000 -s 16384"),
        ("RC", "ib_read_bw -n 1000 -s 16384"),
        ("XRC", "ib_read_bw -n 1000 -s 16384"),
        ("RC", "ib_atomic_bw -n 2000"),
    ];
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let run_under = |(transport, line): (&str, &str), faults: &str| {
        let program = line.split(' ').next().unwrap_or_default();
        let what = format!("RoCE: {program} -c {transport}");
        let mut case = Case::new(&Consumer::debian("perftest"), &what, faults);
        run(&mut case, transport, line);
        case.pass();
    };
    LINES[..2].iter().for_each(|line| run_under(*line, FAULTS));
    for line in LINES.iter().filter(|_| is_long()) {
        EACH_FAULT.iter().for_each(|faults| run_under(*line, faults));
    }
}
