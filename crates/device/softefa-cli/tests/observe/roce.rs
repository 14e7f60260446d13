//! The packets of a RoCE device as every tool decodes them: tshark without our dissector.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::{LIMIT, Launcher, Outcome, exclusive, free_port, has};

const HEADERS_BYTES: u64 = 8;

/// The number of packets of each opcode that one direction of a program has, in order of opcodes.
/// Acknowledgements are left out, because their coalescing depends on time.
type Opcodes = BTreeMap<u8, u64>;

struct Program {
    line: &'static str,
    /// The packets of the client, without acknowledgements.
    requests: &'static [(u8, u64)],
    /// The packets of the server, without acknowledgements.
    responses: &'static [(u8, u64)],
}

const ACKNOWLEDGE: u8 = 0x11;
/// The number of runs of a program. A run in which packets were sent again, because the machine was
/// busy, does not show what the program sends otherwise.
const TRIES: usize = 5;

const PROGRAMS: [Program; 6] = [
    Program {
        line: "ib_send_bw -c RC -m 1024 -s 8192 -n 100",
        requests: &[(0x00, 100), (0x01, 600), (0x02, 100)],
        responses: &[],
    },
    Program {
        line: "ib_write_bw -c RC -m 4096 -s 10000 -n 100",
        requests: &[(0x06, 100), (0x07, 100), (0x08, 100)],
        responses: &[],
    },
    Program {
        line: "ib_read_bw -c RC -m 2048 -s 6144 -n 50",
        requests: &[(0x0c, 50)],
        responses: &[(0x0d, 50), (0x0e, 50), (0x0f, 50)],
    },
    Program {
        line: "ib_send_lat -c RC -s 61 -n 100",
        requests: &[(0x04, 100)],
        responses: &[(0x04, 100)],
    },
    Program {
        line: "ib_write_bw -c UC -m 4096 -s 64 -n 100",
        requests: &[(0x2a, 100)],
        responses: &[],
    },
    Program {
        line: "ib_send_lat -c UD -s 1000 -n 100",
        requests: &[(0x64, 100)],
        responses: &[(0x64, 100)],
    },
];

/// Runs tshark as a user does, without our dissector and without guesses that take precedence over
/// ports.
pub(crate) fn tshark(file: &Path, args: &[&str]) -> String {
    // A dissector that guesses takes short SENDs for RPC over RDMA.
    let mut command = Command::new("tshark");
    command.args(["--disable-protocol", "rpcordma", "-r"]).arg(file).args(args);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the first transmissions of one direction by opcode. A repetition has a number that was
/// there before, except that a READ continues with another request where its response broke off.
fn opcodes(file: &Path, direction: u8) -> Opcodes {
    let wanted = format!("frame.packet_flags_direction == {direction}");
    let fields = ["-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn"];
    let lines = tshark(file, &[&["-Y", &wanted], &fields[..]].concat());
    let mut seen = std::collections::HashSet::new();
    let mut found = Opcodes::new();
    for line in lines.lines() {
        let (opcode, psn) = line.split_once('\t').unwrap_or_else(|| panic!("no packet: {line:?}"));
        let opcode = opcode.parse().unwrap_or_else(|_| panic!("not decoded: {line:?}"));
        if opcode != ACKNOWLEDGE && seen.insert((opcode, psn.to_owned())) {
            *found.entry(opcode).or_default() += 1;
        }
    }
    found
}

/// Checks that the capture contains the packets that the counters count, and that the tool reports
/// nothing unusual.
fn check(side: &Outcome, file: &Path) {
    assert_eq!(side.code, 0, "{side}");
    assert_eq!(tshark(file, &["-Y", "_ws.malformed || !infiniband"]), "", "{side}");
    for (direction, name) in [(2, "tx"), (1, "rx")] {
        let wanted = format!("frame.packet_flags_direction == {direction}");
        let lengths = tshark(file, &["-Y", &wanted, "-T", "fields", "-e", "udp.length"]);
        let lengths: Vec<u64> = lengths.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lengths.len() as u64, side.counter(&format!("{name}_pkts")), "{side}");
        let bytes: u64 = lengths.iter().map(|len| len - HEADERS_BYTES).sum();
        assert_eq!(bytes, side.counter(&format!("{name}_bytes")), "{side}");
    }
}

#[test]
fn every_tool_reads_what_a_roce_device_sends() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    for program in &PROGRAMS {
        for wire in ["auto", "udp"] {
            let is_told = (0..TRIES).any(|_| tells_what_it_sends(program, wire));
            assert!(is_told, "{} over {wire}: each of {TRIES} runs sent again", program.line);
        }
    }
}

/// Runs a program between two devices and checks both captures. Returns false if a READ was sent
/// again, because the number of packets of each opcode is then unknown. Other messages may be sent
/// again, because an end does nothing else for a millisecond while it makes its memory for the
/// other.
fn tells_what_it_sends(program: &Program, wire: &str) -> bool {
    let Program { line, requests, responses } = program;
    let dir = tempfile::tempdir().unwrap();
    let file = |side: &str| dir.path().join(format!("{side}.pcapng"));
    let launcher = |side: &str| {
        let pcap = file(side);
        let device = "--device roce0=127.0.0.1,profile=roce";
        Launcher::new(&format!("{device} --wire {wire} --pcap {}", pcap.display()))
    };
    let (there, here, port) = (launcher("server"), launcher("client"), free_port());
    let line = format!("{line} -x 0 -F -p {port}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(port);
    let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    let server = server.wait(LIMIT);
    for (side, name) in [(&server, "server"), (&client, "client")] {
        check(side, &file(name));
    }
    let repeated = client.counter("retrans_pkts") + server.counter("retrans_pkts");
    if line.contains("read") && repeated > 0 {
        return false;
    }
    let [requests, responses] =
        [requests, responses].map(|all| all.iter().copied().collect::<Opcodes>());
    assert_eq!(opcodes(&file("client"), 2), requests, "{client}");
    assert_eq!(opcodes(&file("server"), 2), responses, "{server}");
    true
}
