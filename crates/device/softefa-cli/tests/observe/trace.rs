//! Traces: lines about what happens and why.

use std::fs;
use std::path::Path;

use rustix::process::{Signal, kill_process};

use crate::harness::{LIMIT, Launcher, Outcome, exclusive, free_port, has, wait_until};
use crate::{PORTS, STREAM};

const EVENTS: [&str; 14] = [
    "post",
    "transmit",
    "retransmit",
    "receive",
    "accept",
    "reject",
    "drop",
    "ack",
    "loss",
    "timer",
    "completion",
    "state",
    "peer",
    "fault",
];

/// The event and the text of a line.
#[derive(Debug)]
struct Line {
    event: String,
    text: String,
}

impl Line {
    fn value(&self, key: &str) -> Option<&str> {
        self.text.split(' ').find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }
}

/// Parses lines as docs/TRACE.md describes them, and checks their order of time for each queue
/// pair.
fn parse(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        let columns: Vec<&str> = line.splitn(5, ' ').collect();
        let [time, event, local, _, rest] = columns[..] else { panic!("not a line: {line}") };
        assert!(time.parse::<u64>().is_ok_and(|ns| ns > 1 << 60), "{line}");
        assert!(EVENTS.contains(&event) && local.starts_with("rdmap0s6:"), "{line}");
        assert!(rest.contains('='), "{line}");
        Line { event: event.to_owned(), text: rest.to_owned() }
    };
    text.lines().map(line).collect()
}

fn read(path: &Path) -> Vec<Line> {
    parse(&fs::read_to_string(path).unwrap())
}

fn count(lines: &[Line], event: &str) -> u64 {
    lines.iter().filter(|line| line.event == event).count() as u64
}

/// Runs a pair of which each side has its own launcher; returns server and client.
fn run_pair([there, here]: [&Launcher; 2], line: &str) -> [Outcome; 2] {
    let port = free_port();
    let line = format!("{line} -p {port}");
    let mut server = there.start("server", &line);
    server.wait_until_listening(port);
    let client = here.start("client", &format!("{line} 127.0.0.1")).wait(LIMIT);
    [server.wait(LIMIT), client]
}

#[test]
fn a_run_with_losses_says_what_was_lost_and_sent_again() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [server_file, client_file] = ["server", "client"].map(|name| dir.path().join(name));
    let launcher = |file: &Path| {
        Launcher::new(&format!("--fault loss=3%,mangle=3%,seed=2 --trace {}", file.display()))
    };
    let (there, here) = (launcher(&server_file), launcher(&client_file));
    let sides = run_pair([&there, &here], "ib_send_lat -c SRD -x 0 -F -s 64 -n 300");
    for (side, file) in sides.iter().zip([&server_file, &client_file]) {
        assert_eq!(side.code, 0, "{side}");
        let lines = read(file);
        for (event, counter) in [
            ("post", "send_wrs"),
            ("transmit", "send_wrs"),
            ("accept", "recv_wrs"),
            ("retransmit", "retrans_pkts"),
            ("drop", "rx_drops"),
        ] {
            assert_eq!(count(&lines, event), side.counter(counter), "{event}\n{side}");
        }
        let again = lines.iter().filter(|line| line.value("again") == Some("true")).count() as u64;
        assert_eq!(again, side.counter("rx_duplicates"), "{side}");
        assert!(count(&lines, "loss") > 0 && count(&lines, "drop") > 0, "{side}");
        // Each loss is followed by a repetition of the same message on another path.
        for (at, loss) in lines.iter().enumerate().filter(|(_, line)| line.event == "loss") {
            let is_it =
                |line: &&Line| line.event == "retransmit" && line.value("psn") == loss.value("psn");
            let again = lines[at..].iter().find(is_it);
            let again = again.unwrap_or_else(|| panic!("{loss:?} was not repeated\n{side}"));
            assert_ne!(again.value("path"), loss.value("path"), "{loss:?} {again:?}");
        }
        let states: Vec<_> = lines.iter().filter_map(|line| line.value("to")).collect();
        assert_eq!(states, ["Init", "ReadyToReceive", "ReadyToSend", "Destroyed"]);
    }
}

#[test]
fn only_what_is_asked_for_goes_to_a_file_of_each_process() {
    let _one = exclusive();
    if !has("ib_send_bw") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("%p.trace");
    let events = "--trace-events completion,peer,state";
    let launcher = Launcher::new(&format!("--trace {} {events}", file.display()));
    let (server, client) = launcher.start_pair(STREAM, PORTS);
    wait_until("the transfer is under way", || launcher.live_tx_pkts() > 2_000);
    let victim = server.program_pid().unwrap();
    let survivor = client.program_pid().unwrap();
    kill_process(victim, Signal::KILL).unwrap();
    assert_ne!(client.wait(LIMIT).code, 0);
    assert_eq!(server.wait(LIMIT).code, 137);
    let of = |pid: rustix::process::Pid| {
        read(&dir.path().join(format!("{}.trace", pid.as_raw_nonzero())))
    };
    let wanted = |line: &Line| ["completion", "peer", "state"].contains(&line.event.as_str());
    assert!(of(victim).iter().all(wanted), "the other events were not asked for");
    let lines = of(survivor);
    assert!(lines.iter().all(wanted));
    let is = |what: &str| lines.iter().any(|line| line.value("is") == Some(what));
    assert!(is("up") && is("refused"), "the peer came and went");
    let refused = Some("9:RemoteBadDestQpn");
    assert!(lines.iter().any(|line| line.value("status") == refused), "and sends failed");
}

#[test]
fn a_variable_is_enough() {
    let _one = exclusive();
    if !has("ib_send_lat") {
        return;
    }
    let launcher = Launcher::new("");
    let line =
        "SOFTEFA_TRACE=1 SOFTEFA_TRACE_EVENTS=transmit,receive ib_send_lat -c UD -x 0 -F -n 50";
    let port = free_port();
    let mut server = launcher.start_words("server", &["sh", "-c", &format!("{line} -p {port}")]);
    server.wait_until_listening(port);
    let client = format!("{line} -p {port} 127.0.0.1");
    let client = launcher.start_words("client", &["sh", "-c", &client]).wait(LIMIT);
    let server = server.wait(LIMIT);
    for side in [&server, &client] {
        assert_eq!(side.code, 0, "{side}");
        let traced: Vec<&str> =
            side.stderr.lines().filter(|line| line.contains(" op=UD_SEND ")).collect();
        let lines = parse(&traced.join("\n"));
        assert_eq!(count(&lines, "transmit"), side.counter("send_wrs"), "{side}");
        assert_eq!(count(&lines, "receive"), side.counter("recv_wrs"), "{side}");
        assert!(side.counter("send_wrs") >= 50, "{side}");
    }
}
