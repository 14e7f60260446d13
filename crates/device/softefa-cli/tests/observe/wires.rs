//! Captures, counters and traces show the same packets on every wire.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::harness::{LIMIT, Launcher, Outcome, exclusive, free_port, has};
use crate::wireshark::tshark;

/// Programs that send one way and both ways, one packet and several, each with its operation.
const PROGRAMS: [&str; 4] = [
    "ib_send_lat -c SRD -s 64 -n 400",
    "ib_send_bw -c SRD -s 8192 -n 1000",
    "ib_read_bw -c SRD -s 16384 -n 200",
    "ib_send_lat -c UD -s 1000 -n 300",
];
/// The counters of what programs did, which do not depend on the speed of packets.
const DEEDS: [&str; 6] =
    ["send_wrs", "send_bytes", "recv_wrs", "recv_bytes", "rdma_read_wrs", "rdma_read_bytes"];
/// The fields of events that are the same in each run; numbers are drawn at random.
const KEYS: [&str; 5] = ["op", "len", "status", "from", "to"];
const HEADERS_BYTES: u64 = 8;

/// How often each item was seen.
type Census = BTreeMap<String, u64>;

/// The view of one side over one wire.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    deeds: Census,
    sent: Census,
    received: Census,
    events: Census,
}

fn census(lines: impl Iterator<Item = String>) -> Census {
    lines.fold(Census::new(), |mut census, line| {
        *census.entry(line).or_default() += 1;
        census
    })
}

/// Returns the first transmissions of packets with data in one direction, because repetitions
/// depend on time.
fn packets(file: &Path, direction: u8) -> Census {
    let wanted = format!(
        "frame.packet_flags_direction == {direction} && (srd.op || srd.kind == 2) && !(srd.flags.rtx == 1)"
    );
    let fields = ["srd.kind", "srd.op", "srd.len"].map(|field| ["-e", field]);
    let args = [&["-Y", &wanted, "-T", "fields"], fields.as_flattened()].concat();
    census(tshark(file, &args).lines().map(str::to_owned))
}

/// Checks that the capture contains the datagrams that the counters count.
fn check_counters(side: &Outcome, file: &Path) {
    for (direction, name) in [(2, "tx"), (1, "rx")] {
        let wanted = format!("frame.packet_flags_direction == {direction}");
        let lengths = tshark(file, &["-Y", &wanted, "-T", "fields", "-e", "udp.length"]);
        let lengths: Vec<u64> = lengths.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(lengths.len() as u64, side.counter(&format!("{name}_pkts")), "{side}");
        let bytes: u64 = lengths.iter().map(|len| len - HEADERS_BYTES).sum();
        assert_eq!(bytes, side.counter(&format!("{name}_bytes")), "{side}");
    }
}

fn events(file: &Path) -> Census {
    let event = |line: &str| {
        let columns: Vec<&str> = line.splitn(5, ' ').collect();
        let keys = columns[4]
            .split(' ')
            .filter(|pair| pair.split_once('=').is_some_and(|(key, _)| KEYS.contains(&key)));
        let is_repeated = columns[4].contains("again=true");
        let is_wanted =
            ["post", "transmit", "receive", "completion", "state"].contains(&columns[1]);
        (is_wanted && !is_repeated)
            .then(|| format!("{} {}", columns[1], keys.collect::<Vec<_>>().join(" ")))
    };
    census(fs::read_to_string(file).unwrap().lines().filter_map(event))
}

/// Runs both sides of `program` over `wire`, and returns the views of the server and of the client.
fn run(program: &str, wire: &str) -> [Seen; 2] {
    let dir = tempfile::tempdir().unwrap();
    let file = |side: &str, end: &str| dir.path().join(format!("{side}.{end}"));
    let launcher = |side: &str| {
        let (pcap, trace) = (file(side, "pcapng"), file(side, "trace"));
        let (pcap, trace) = (pcap.display(), trace.display());
        Launcher::new(&format!("--profile efa1 --wire {wire} --pcap {pcap} --trace {trace}"))
    };
    let (there, here) = (launcher("server"), launcher("client"));
    let port = free_port();
    let line = format!("{program} -x 0 -F -p {port}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(port);
    let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    let sides = [("server", server.wait(LIMIT)), ("client", client)];
    // The kernel wakes a side that sleeps, so that packets to the target of READs take UDP.
    let in_memory: u64 = sides.iter().map(|(_, side)| side.counter("tx_memory_pkts")).sum();
    assert_eq!(in_memory > 100, wire != "udp", "{in_memory} packets through memory: {program}");
    sides.map(|(name, side)| {
        assert_eq!(side.code, 0, "{side}");
        let pcap = file(name, "pcapng");
        check_counters(&side, &pcap);
        Seen {
            deeds: DEEDS.map(|deed| (deed.to_owned(), side.counter(deed))).into(),
            sent: packets(&pcap, 2),
            received: packets(&pcap, 1),
            events: events(&file(name, "trace")),
        }
    })
}

#[test]
fn both_wires_show_the_same_packets() {
    let _one = exclusive();
    if !has("ib_send_bw") || !has("tshark") {
        return;
    }
    for program in PROGRAMS {
        let [through_memory, over_udp] = ["auto", "udp"].map(|wire| run(program, wire));
        assert_eq!(through_memory, over_udp, "{program}");
        let packets: u64 = over_udp.iter().map(|side| side.sent.values().sum::<u64>()).sum();
        assert!(packets >= 200, "{program}: {over_udp:?}");
    }
}
