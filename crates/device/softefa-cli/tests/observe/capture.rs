//! Captures, read back by Wireshark's own program with our dissector.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::{Directions, LIMIT, Launcher, Outcome, exclusive, free_port, has, wait_until};
use crate::wireshark::tshark;
use crate::{PORTS, STREAM};

/// The fields that are read of each packet, in this order.
const FIELDS: [&str; 10] = [
    "frame.interface_name",
    "frame.packet_flags_direction",
    "udp.length",
    "frame.cap_len",
    "srd.kind",
    "srd.flags",
    "srd.psn",
    "srd.op",
    "srd.src_qpn",
    "srd.dst_qpn",
];
const OUT: &str = "0x00000002";
const UDP_HEADER_BYTES: u64 = 8;
const HEADERS_BYTES: u64 = 28;
const FLAG_RTX: u64 = 2;
const FLAG_DATA: u64 = 0x10;

/// A packet as tshark decoded it.
#[derive(Debug)]
struct Packet {
    interface: String,
    is_out: bool,
    bytes: u64,
    captured_bytes: u64,
    kind: u64,
    flags: u64,
    psn: Option<u64>,
    op: Option<u64>,
    qpns: [u64; 2],
}

impl Packet {
    fn parse(line: &str) -> Self {
        let columns: Vec<&str> = line.split('\t').collect();
        assert_eq!(columns.len(), FIELDS.len(), "{line}");
        let number = |at: usize| {
            let text = columns[at];
            match text.strip_prefix("0x") {
                Some(digits) => u64::from_str_radix(digits, 16).ok(),
                None => text.parse().ok(),
            }
        };
        let must = |at| number(at).unwrap_or_else(|| panic!("no {} in: {line}", FIELDS[at]));
        Self {
            interface: columns[0].to_owned(),
            is_out: columns[1] == OUT,
            bytes: must(2) - UDP_HEADER_BYTES,
            captured_bytes: must(3) - HEADERS_BYTES,
            kind: must(4),
            flags: must(5),
            psn: number(6),
            op: number(7),
            qpns: [must(8), must(9)],
        }
    }

    fn was_dropped(&self) -> bool {
        self.interface.ends_with("-dropped")
    }

    fn is_retransmission(&self) -> bool {
        self.flags & FLAG_RTX != 0 && self.flags & FLAG_DATA != 0
    }
}

/// Returns the ports from which the programs of a capture sent packets.
fn own_ports(file: &Path) -> BTreeSet<String> {
    let sent = format!("frame.packet_flags_direction == {OUT}");
    let ports = tshark(file, &["-Y", &sent, "-T", "fields", "-e", "udp.srcport"]);
    ports.lines().map(str::to_owned).collect()
}

/// Returns all packets, none of which may be malformed, except those of strangers: a number may
/// have belonged to a program of another test before, whose peer has not noticed its end.
fn packets(file: &Path) -> Vec<Packet> {
    let wrong = "srd.expert.malformed || srd.check.status == 0 || _ws.malformed || !srd";
    let ports = tshark(file, &["-Y", wrong, "-T", "fields", "-e", "udp.srcport"]);
    if !ports.is_empty() {
        let bytes = tshark(file, &["-Y", wrong, "-x"]);
        let own = own_ports(file);
        assert!(ports.lines().all(|port| !own.contains(port)), "not understood:\n{bytes}");
        eprintln!("a stranger sent:\n{bytes}");
    }
    let understood = format!("!({wrong})");
    let fields = FIELDS.iter().flat_map(|field| ["-e", field]);
    let args: Vec<&str> =
        ["-Y", understood.as_str(), "-T", "fields"].into_iter().chain(fields).collect();
    tshark(file, &args).lines().map(Packet::parse).collect()
}

fn count(packets: &[Packet], which: impl Fn(&Packet) -> bool) -> u64 {
    packets.iter().filter(|packet| which(packet)).count() as u64
}

/// Checks that the capture of a side contains every datagram that its device counted.
fn check_complete(side: &Outcome, file: &Path) -> Vec<Packet> {
    side.assert_moved(Directions::Both);
    assert!(side.stderr.contains(" 0 lost because"), "{side}");
    let packets = packets(file);
    let sent = |p: &Packet| p.is_out && !p.was_dropped();
    assert_eq!(count(&packets, sent), side.counter("tx_pkts"), "{side}");
    assert_eq!(count(&packets, |p| !p.is_out), side.counter("rx_pkts"), "{side}");
    assert_eq!(count(&packets, Packet::was_dropped), side.counter("fault_lost"), "{side}");
    let bytes: u64 = packets.iter().filter(|p| sent(p)).map(|p| p.bytes).sum();
    assert_eq!(bytes, side.counter("tx_bytes"), "{side}");
    packets
}

/// Makes a launcher that captures, and returns the file.
fn recorded(options: &str, dir: &Path, name: &str) -> (Launcher, PathBuf) {
    let file = dir.join(name);
    (Launcher::new(&format!("{options} --pcap {}", file.display())), file)
}

#[test]
fn a_run_with_losses_is_captured_whole() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let fault = "--fault loss=2%,seed=5";
    let (there, server_file) = recorded(fault, dir.path(), "server.pcapng");
    let (here, client_file) = recorded(fault, dir.path(), "client.pcapng");
    let port = free_port();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 1024 -n 1000 -p {port}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(port);
    let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    let server = server.wait(LIMIT);
    assert_eq!((server.code, client.code), (0, 0), "{client}");
    check_complete(&server, &server_file);
    let packets = check_complete(&client, &client_file);
    let out = |p: &&Packet| p.is_out;
    assert_eq!(
        count(&packets, |p| p.is_out && p.is_retransmission()),
        client.counter("retrans_pkts")
    );
    let messages: BTreeSet<_> =
        packets.iter().filter(out).filter(|p| p.op == Some(0)).map(|p| p.psn).collect();
    assert_eq!(messages.len() as u64, client.counter("send_wrs"), "each message once");
    // The notes that Wireshark's expert window shows.
    let notes = tshark(&client_file, &["-q", "-z", "expert,note"]);
    assert!(notes.contains("Retransmission"), "{notes}");
    let lost = tshark(&client_file, &["-Y", "frame.comment contains \"dropped on purpose\""]);
    assert_eq!(lost.lines().count() as u64, client.counter("fault_lost"));
}

/// SRD-14: each message is shown, whether it has a datagram of its own or not.
#[test]
fn messages_that_share_a_datagram_are_shown() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    for wire in ["udp", "auto"] {
        let dir = tempfile::tempdir().unwrap();
        let (launcher, file) = recorded(&format!("--wire {wire}"), dir.path(), FILE);
        let port = free_port();
        let line = format!("ib_send_bw -c SRD -x 0 -F -s 100 -n 2000 -p {port}");
        let script = format!("{line} & until {line} 127.0.0.1; do sleep 0.1; done; wait");
        let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
        let packets = check_complete(&outcome, &file);
        let frames = count(&packets, |p| p.is_out && p.kind == 5);
        assert!(frames > 0, "no frame over {wire}\n{outcome}");
        let sent = "frame.packet_flags_direction == 2 && srd.op == 0";
        let fields = ["-e", "srd.psn", "-e", "srd.message.psn"];
        let numbers = tshark(&file, &[&["-Y", sent, "-T", "fields"][..], &fields].concat());
        let shown: BTreeSet<&str> = numbers
            .lines()
            .filter_map(|line| line.split_once('\t'))
            .flat_map(|(psn, messages)| if messages.is_empty() { psn } else { messages }.split(','))
            .collect();
        assert_eq!(shown.len() as u64, outcome.counter("send_wrs"), "{outcome}");
    }
}

/// Datagrams that receivers drop because of their check are shown as damaged, and no others.
#[test]
fn damage_is_told_from_what_is_whole() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (launcher, file) = recorded("--fault mangle=10%,seed=1", dir.path(), FILE);
    let port = free_port();
    let line = format!("ib_send_bw -c SRD -x 0 -F -s 256 -n 200 -p {port}");
    let script = format!("{line} & until {line} 127.0.0.1; do sleep 0.1; done; wait");
    let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    assert_eq!(outcome.code, 0, "{outcome}");
    let damaged = "!(srd.check.status == 1) && frame.packet_flags_direction == 2";
    let damaged = tshark(&file, &["-Y", damaged]).lines().count() as u64;
    assert_eq!(damaged, outcome.counter("fault_mangled"), "{outcome}");
    assert!(damaged > 10, "{outcome}");
}

#[test]
fn unreliable_datagrams_are_understood() {
    let _one = exclusive();
    if !has("ib_send_lat") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let (launcher, file) = recorded("", dir.path(), "both.pcapng");
    let port = free_port();
    // Two processes of one run are in one file.
    let line = format!("ib_send_lat -c UD -x 0 -F -s 100 -n 200 -p {port}");
    let script = format!("{line} & until {line} 127.0.0.1; do sleep 0.1; done; wait");
    let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    let packets = check_complete(&outcome, &file);
    let interfaces: BTreeSet<_> = packets.iter().map(|p| &p.interface).collect();
    assert_eq!(interfaces.len(), 2, "one for each process: {interfaces:?}");
    assert_eq!(count(&packets, |p| p.is_out && p.kind == 2), outcome.counter("send_wrs"));
}

/// Runs two processes of one run that communicate through pyverbs, and returns the packets of both;
/// `None`, and a report, without pyverbs.
fn pyverbs(options: &str, cases: &str) -> Option<(Outcome, Vec<Packet>, tempfile::TempDir)> {
    const PYTHON: &str = "/usr/bin/python3";
    const MAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pyverbs/main.py");
    let import = Command::new(PYTHON).args(["-c", "import pyverbs"]).status();
    let has_pyverbs = import.is_ok_and(|status| status.success()) || has("python3-pyverbs");
    if !has_pyverbs || !has("tshark") {
        return None;
    }
    let dir = tempfile::tempdir().unwrap();
    let (launcher, file) = recorded(options, dir.path(), FILE);
    let port = free_port();
    let line = |role| format!("{PYTHON} -B {MAIN} {role} {port} {cases}");
    let script =
        format!("{} & until {}; do sleep 0.1; done; wait", line("listen"), line("connect"));
    let outcome = launcher.start_words("both", &["sh", "-c", &script]).wait(LIMIT);
    let packets = check_complete(&outcome, &file);
    Some((outcome, packets, dir))
}

/// The name of the capture.
const FILE: &str = "both.pcapng";

#[test]
fn rdma_is_understood() {
    let _one = exclusive();
    // The blocks in front of the bytes are tested; 4 MiB of bytes would only take time.
    for (options, operations) in [
        ("--wire-only --snaplen 512", &[(1, "WRITE"), (2, "READ"), (3, "READ DATA")][..]),
        ("--snaplen 512", &[(16, "WRITE LOCAL"), (17, "READ GRANT"), (18, "READ CONFIRM")]),
    ] {
        let Some((outcome, packets, dir)) = pyverbs(options, "Reads Writes") else { return };
        assert!(packets.iter().all(|packet| packet.captured_bytes <= 512));
        for (op, what) in operations {
            assert!(count(&packets, |packet| packet.op == Some(*op)) > 0, "no {what}");
        }
        // The filter finds the beginning of each READ that was served, on the wire or by a grant.
        let begin = "(srd.op == 3 || srd.op == 17) && srd.rdma.offset == 0 \
            && srd.flags.rtx == 0 && frame.packet_flags_direction == 2";
        let file = dir.path().join(FILE);
        let totals = tshark(&file, &["-Y", begin, "-T", "fields", "-e", "srd.rdma.total"]);
        let total: u64 = totals.lines().map(|line| line.parse::<u64>().unwrap()).sum();
        assert_eq!(total, outcome.counter("rdma_read_resp_bytes"), "{totals}");
    }
}

#[test]
fn refusals_are_named() {
    let _one = exclusive();
    let cases = "RemoteKeys WrongQueueKey NotReady ShortReceive";
    let Some((outcome, _, dir)) = pyverbs("--integrity crc32c", cases) else { return };
    // Datagrams that are acknowledged one by one on a connection, or sent before there is one.
    let args = ["-Y", "srd.ack.drop || srd.kind == 3", "-T", "fields"];
    let fields = ["-e", "srd.ack.drop.status", "-e", "srd.refused.status"];
    let statuses = tshark(&dir.path().join(FILE), &[&args[..], &fields].concat());
    let statuses: BTreeSet<&str> = statuses.split([',', '\t', '\n']).collect();
    for status in ["7", "9", "10", "11"] {
        assert!(statuses.contains(status), "{status} is not in {statuses:?}\n{outcome}");
    }
    let expert = tshark(&dir.path().join(FILE), &["-q", "-z", "expert,note"]);
    for summary in ["REMOTE_ERROR_RNR", "REMOTE_ERROR_BAD_ADDRESS"] {
        assert!(expert.contains(summary), "{summary} is not in\n{expert}");
    }
}

#[test]
fn what_runs_already_can_be_captured() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let launcher = Launcher::new("");
    let (server, client) = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let capture = |args: &[&str]| {
        let file = dir.path().join("live.pcapng");
        let mut command = launcher.command();
        command.args(["pcap", "--snaplen", "256", "--write"]).arg(&file).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        packets(&file)
    };
    let all = capture(&["--count", "3000"]);
    assert!((2900..=3000).contains(&all.len()), "{} packets", all.len());
    let interfaces: BTreeSet<_> = all.iter().map(|p| &p.interface).collect();
    assert_eq!(interfaces.len(), 2, "both processes: {interfaces:?}");
    assert!(all.iter().all(|packet| packet.captured_bytes <= 256));
    assert!(all.iter().any(|packet| packet.bytes > 4096), "cut, not shortened");
    let qpn = all[0].qpns[0];
    let some = capture(&["--count", "100", "--qp", &qpn.to_string()]);
    let others: Vec<_> = some.iter().filter(|packet| !packet.qpns.contains(&qpn)).collect();
    // A stranger's packet, of another test, may be one of the packets that were requested.
    let is_enough = (90..=100).contains(&some.len());
    assert!(is_enough && others.is_empty(), "{} of {qpn}, {others:?}", some.len());
    assert!(capture(&["--duration", "0.2", "--device", "other"]).is_empty());
    let file = dir.path().join("interrupted.pcapng");
    let mut endless = launcher.command();
    let endless = endless.args(["pcap", "--write"]).arg(&file).stderr(Stdio::piped());
    let mut endless = endless.spawn().unwrap();
    let has_packets = || file.metadata().is_ok_and(|meta| meta.len() > 1 << 20);
    wait_until("the capture grows", has_packets);
    kill_process(Pid::from_child(&endless), Signal::INT).unwrap();
    assert!(endless.wait().unwrap().success(), "Ctrl-C is how a capture ends");
    assert!(packets(&file).len() > 100);
    for side in [&client, &server] {
        kill_process(side.pid(), Signal::TERM).unwrap();
    }
    assert_eq!((client.wait(LIMIT).code, server.wait(LIMIT).code), (143, 143));
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_the_program_starts() {
    for args in [
        &["run", "--pcap", "/nonexistent/x", "--", "echo", "started"][..],
        &["pcap", "--write", "/nonexistent/x"],
    ] {
        let output = Launcher::new("").command().args(args).output().unwrap();
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(125), "{text}");
        assert!(text.contains("/nonexistent/x") && text.lines().count() == 1, "{text}");
        assert!(output.stdout.is_empty(), "the program ran");
    }
}
