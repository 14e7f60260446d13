//! RoCE devices behind `softefa gateway`: two hosts over UDP port 4791, and a NIC that is not ours.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::harness::{
    Directions, LIMIT, Launcher, Outcome, exclusive, has, is_root, is_sealed, softefa, wait_until,
};
use crate::netns::{CLIENT, CLIENT_V6, Hosts, SERVER, SERVER_V6};
use crate::pyverbs::PYTHON;

/// A port of the hosts, all of whose ports are free, because they are the test's own.
const PINGPONG_PORT: u16 = 18515;
const PORT: u16 = 7471;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/consumers/foreign.py");
/// The words that run a command as a user without rights.
const NOBODY: &str = "setpriv --reuid 65534 --regid 65534 --clear-groups --bounding-set=-all";

/// Makes two hosts for a gateway each; returns none in a sealed run, and reports that: a gateway
/// cannot verify sealed packets, and refuses a key.
fn hosts() -> Option<Hosts> {
    if is_sealed() {
        eprintln!("gateway: SKIPPED with SOFTEFA_KEY_FILE: a gateway refuses a key");
        return None;
    }
    Hosts::new()
}

/// A gateway that runs until this is dropped.
struct Gateway {
    child: Child,
    counters: PathBuf,
}

impl Gateway {
    fn start(launcher: &Launcher) -> Self {
        let counters = launcher.runtime_dir().join("gateway.json");
        let mut command = launcher.command();
        command.args(["gateway", "--stats", "--counters"]).arg(&counters);
        let child = command.spawn().unwrap();
        wait_until("the gateway serves", || counters.exists());
        Self { child, counters }
    }

    fn read(&self) -> Value {
        serde_json::from_str(&fs::read_to_string(&self.counters).unwrap()).unwrap()
    }

    /// Ends the gateway, and returns its counters.
    fn finish(mut self) -> Value {
        end(&mut self.child);
        assert!(self.child.wait().unwrap().success());
        self.read()["counters"].clone()
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        end(&mut self.child);
        let _ = self.child.wait();
    }
}

fn end(child: &mut Child) {
    if let Ok(None) = child.try_wait() {
        let _ = kill_process(Pid::from_child(child), Signal::TERM);
    }
}

/// Returns the number of all packets that a gateway has dropped.
fn dropped(counters: &Value) -> u64 {
    let all = counters.as_object().unwrap().iter();
    let dropped = all.filter(|(name, _)| name.starts_with("drop_"));
    dropped.map(|(_, value)| value.as_u64().unwrap()).sum()
}

/// Asserts that no packet was damaged on its way. Packets that come late for a program that has
/// ended belong to no queue pair, and are no damage.
#[track_caller]
fn assert_undamaged(counters: &Value) {
    for name in ["drop_icrc", "drop_malformed", "drop_no_room", "refused_requests"] {
        assert_eq!(counters[name], 0, "{name}: {counters}");
    }
    let count = |name: &str| counters[name].as_u64().unwrap();
    let served = ["forwarded_pkts", "forwarded_cm_msgs", "answered_cm_msgs"].map(count);
    assert_eq!(served.iter().sum::<u64>() + dropped(counters), count("rx_pkts"), "{counters}");
}

/// Makes a launcher for a host whose device is behind a gateway.
fn launcher(namespace: &str, addr: &str, user: &str) -> Launcher {
    launcher_with("", namespace, addr, user)
}

/// Makes such a launcher with more options.
fn launcher_with(options: &str, namespace: &str, addr: &str, user: &str) -> Launcher {
    Launcher::new(&format!("--device roce0={addr},profile=roce,gateway=4791 {options}"))
        .within(&format!("ip netns exec {namespace} {user}"))
}

/// Returns true if scapy is installed; otherwise reports a skip by hand, and fails in CI.
fn has_scapy() -> bool {
    let found = Command::new(PYTHON).args(["-c", "import scapy.contrib.roce"]).output();
    let found = found.is_ok_and(|output| output.status.success());
    let ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(found || !ci, "python3-scapy is not installed (.ci/setup run)");
    if !found {
        eprintln!("SKIPPED, NOT TESTED: python3-scapy is not installed; run .ci/setup run");
    }
    found
}

/// A capture of the host's packets of port 4791, in a file.
struct Capture {
    tshark: Child,
    file: PathBuf,
}

impl Capture {
    fn start(namespace: &str, dir: &Path) -> Self {
        let file = dir.join("wire.pcap");
        let mut command = Command::new("ip");
        command.args(["netns", "exec", namespace, "tshark", "-q", "-F", "pcap", "-i", "eth0"]);
        command.args(["-f", "udp port 4791", "-w"]).arg(&file);
        let tshark = command.stderr(Stdio::null()).spawn().unwrap();
        let len = || fs::metadata(&file).map_or(0, |it| it.len());
        wait_until("tshark captures", || len() > 0);
        Self { tshark, file }
    }

    /// Waits until the file has `packets` packets; returns scapy's verdict on them.
    fn finish(&mut self, packets: u64) -> Value {
        let fields = ["-e", "infiniband.bth.opcode"];
        let decoded = || self.tshark("infiniband", &fields).lines().count() as u64;
        wait_until("all packets are captured", || decoded() >= packets);
        end(&mut self.tshark);
        self.tshark.wait().unwrap();
        checked(&self.file)
    }

    fn tshark(&self, filter: &str, fields: &[&str]) -> String {
        // A dissector that guesses takes short SENDs for RPC over RDMA.
        let mut command = Command::new("tshark");
        command.args(["--disable-protocol", "rpcordma", "-r"]).arg(&self.file);
        command.args(["-Y", filter, "-T", "fields"]).args(fields);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        end(&mut self.tshark);
        let _ = self.tshark.wait();
    }
}

/// Returns scapy's verdict on the packets in a capture.
fn checked(file: &Path) -> Value {
    let output = Command::new(PYTHON).args([SCRIPT, "check"]).arg(file).output();
    json_of(&output.unwrap())
}

fn json_of(output: &std::process::Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn assert_pair(sides: [Outcome; 2]) {
    for side in sides {
        assert_eq!(side.code, 0, "{side}");
        side.assert_moved(Directions::Both);
        assert_eq!(side.counter("rx_crc_errors"), 0, "{side}");
    }
}

/// Runs a ping-pong between the hosts, and a program that connects by librdmacm.
fn run_pairs(there: &Launcher, here: &Launcher, server: &str) {
    for line in ["ibv_rc_pingpong -g 0 -c -n 300", "ibv_ud_pingpong -g 0 -s 1000 -n 100"] {
        // The two ends exchange their addresses over IPv4, whatever their devices have.
        let mut server = there.start("server", line);
        server.wait_until_listening(PINGPONG_PORT);
        let client = here.start("client", &format!("{line} {SERVER}")).wait(LIMIT);
        assert_pair([client, server.wait(LIMIT)]);
    }
    let line = |end: &str| format!("rping {end} -a {server} -C 20 -S 3000 -V -p {PORT}");
    let mut server = there.start("server", &line("-s"));
    server.wait_until_bound(PORT);
    let client = here.start("client", &line("-c")).wait(LIMIT);
    assert_pair([client, server.wait(LIMIT)]);
}

#[test]
fn hosts_meet_at_port_4791_with_packets_that_scapy_and_tshark_take() {
    let _one = exclusive();
    if !has("rping") || !has("ibv_rc_pingpong") || !has("tshark") || !has("ip") || !has_scapy() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    hosts_meet(&hosts, [SERVER, CLIENT], &serde_json::json!([0]));
    if hosts.add_ipv6() {
        hosts_meet(&hosts, [SERVER_V6, CLIENT_V6], &serde_json::json!([]));
    }
}

/// Lets the hosts communicate whose devices are at these addresses; `ids` are the identifications
/// of IP headers.
fn hosts_meet(hosts: &Hosts, [server, client]: [&str; 2], ids: &Value) {
    let dir = tempfile::tempdir().unwrap();
    let own = dir.path().join("own.pcapng");
    let there = launcher(&hosts.names[0], server, "");
    let here = launcher_with(&format!("--pcap {}", own.display()), &hosts.names[1], client, "");
    let gateways = [&there, &here].map(Gateway::start);
    let mut capture = Capture::start(&hosts.names[0], there.runtime_dir());
    run_pairs(&there, &here, server);
    wait_until("no seat is left", || gateways.iter().all(|it| it.read()["sockets"] == 0));
    let counters = gateways.map(Gateway::finish);
    let mut all = 0;
    for counters in &counters {
        assert_undamaged(counters);
        let count = |name: &str| counters[name].as_u64().unwrap();
        // One message may come after its program has ended, and is answered by the gateway.
        let cm_msgs = count("forwarded_cm_msgs") + count("answered_cm_msgs");
        assert!(cm_msgs >= 2, "{counters}");
        all += count("rx_pkts");
    }
    // The client of rping captures its own packets, as they were on the wire.
    let own = checked(&own);
    assert!(own["packets"].as_u64().unwrap() > 100 && own["packets"] == own["intact"], "{own}");
    let seen = capture.finish(all);
    assert_eq!((&seen["packets"], &seen["intact"]), (&all.into(), &all.into()), "{seen}");
    assert_eq!(&seen["ids"], ids, "what the ICRC covers: {seen}");
    let strange = capture.tshark("_ws.malformed || !infiniband", &["-e", "frame.number"]);
    assert_eq!(strange, "");
    let attributes = capture.tshark("infiniband.mad", &["-e", "infiniband.mad.attributeid"]);
    // The messages REQ, REP, RTU, DREQ and DREP.
    for attribute in ["0x0010", "0x0013", "0x0014", "0x0015", "0x0016"] {
        assert!(attributes.contains(attribute), "{attributes}");
    }
}

/// No rights are needed, because packets of our peers have an identification that can be relied on.
/// The gateway of root serves everyone, another one its own user.
#[test]
fn nobody_needs_rights_between_hosts_of_ours() {
    let _one = exclusive();
    if !has("rping") || !has("ibv_rc_pingpong") || !has("ip") || !is_root("other users") {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let [there, here] =
        [(0, SERVER), (1, CLIENT)].map(|(at, addr)| launcher(&hosts.names[at], addr, NOBODY));
    let of_root = launcher(&hosts.names[0], SERVER, "");
    let gateways = [(&of_root, true), (&here, false)]
        .map(|(launcher, is_root)| (Gateway::start(launcher), is_root));
    run_pairs(&there, &here, SERVER);
    for (gateway, is_root) in gateways {
        assert_eq!(gateway.read()["sees_ip_headers"], is_root);
        assert_undamaged(&gateway.finish());
    }
}

#[test]
fn a_foreign_nic_is_answered_and_nothing_else_gets_in() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") || !has("ip") || !has_scapy() {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let there = launcher(&hosts.names[0], SERVER, "");
    let gateway = Gateway::start(&there);
    let mut server = there.start("server", "ibv_rc_pingpong -g 0 -c -n 1 -s 64");
    server.wait_until_listening(PINGPONG_PORT);
    let mut nic = Command::new("ip");
    nic.args(["netns", "exec", &hosts.names[1], PYTHON, SCRIPT, "nic", CLIENT, SERVER, "eth0"]);
    let said = json_of(&nic.output().unwrap());
    let server = server.wait(LIMIT);
    assert_eq!(server.code, 0, "{server}\n{said}");
    let expected = serde_json::json!({
        // An acknowledgement (0) of the only message, and the SEND ONLY that answers it.
        "wrong_icrc": 0, "ack_psn": 0, "ack_kind": 0, "msn": 1, "send": [4, 0, 64],
    });
    assert_eq!(said, expected, "{server}");
    assert_eq!(server.counter("rx_crc_errors"), 2, "what came past the gateway\n{server}");
    let counters = gateway.finish();
    let count = |name: &str| counters[name].as_u64().unwrap();
    assert_eq!((count("drop_icrc"), count("drop_no_queue_pair")), (2, 1), "{counters}");
    assert_eq!((count("drop_malformed"), dropped(&counters)), (3, 6), "{counters}");
}

/// All programs receive at queue pair 1 of one address.
#[test]
fn messages_of_connections_find_their_programs() {
    const UDADDY_PORT: u16 = 7174;
    let _one = exclusive();
    if !has("rping") || !has("ucmatose") || !has("udaddy") || !has("ip") {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let [there, here] =
        [(0, SERVER), (1, CLIENT)].map(|(at, addr)| launcher(&hosts.names[at], addr, ""));
    let gateways = [&there, &here].map(Gateway::start);
    let rping = |end: &str, port| format!("rping {end} -V -C 5 -a {SERVER} -p {port}");
    let ucmatose = |end: &str| format!("ucmatose {end} {SERVER} -c 20 -C 50 -S 5000 -p 7500");
    let udaddy = |end: &str| format!("udaddy {end} {SERVER} -c 5 -C 20 -S 1000");
    let mut servers = [
        ("rping", rping("-s", PORT), PORT),
        ("ucmatose", ucmatose("-b"), 7500),
        ("udaddy", udaddy("-b"), UDADDY_PORT),
    ]
    .map(|(name, line, port)| (there.start(name, &line), port));
    servers.iter_mut().for_each(|(server, port)| server.wait_until_bound(*port));
    let stranger = here.start("stranger", &rping("-c", PORT + 1)).wait(LIMIT);
    let told = format!("{}{}", stranger.stdout, stranger.stderr);
    assert!(told.contains("RDMA_CM_EVENT_REJECTED, error 8"), "nobody says no\n{stranger}");
    let lines = [("c1", rping("-c", PORT)), ("c2", ucmatose("-s")), ("c3", udaddy("-s"))];
    let clients = lines.map(|(name, line)| here.start(name, &line));
    for (client, (server, _)) in clients.into_iter().zip(servers) {
        assert_pair([client.wait(LIMIT), server.wait(LIMIT)]);
    }
    for gateway in gateways {
        assert_undamaged(&gateway.finish());
    }
}

/// The sockets of a killed program are forgotten, and the next program can have them.
#[test]
fn a_killed_program_leaves_nothing_behind() {
    let _one = exclusive();
    if !has("ibv_rc_pingpong") || !has("ip") {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let there = launcher(&hosts.names[0], SERVER, "");
    let gateway = Gateway::start(&there);
    let server = there.start("server", "ibv_rc_pingpong -g 0");
    wait_until("a queue pair is served", || gateway.read()["sockets"] == 1);
    kill_process(server.program_pid().unwrap(), Signal::KILL).unwrap();
    wait_until("it is served no more", || {
        let now = gateway.read();
        now["sockets"] == 0 && now["programs"] == 0
    });
    assert_eq!(server.wait(Duration::from_secs(20)).code, 137);
}

/// A script that runs, with all processes that it has started, until this is dropped.
struct Script(Child);

impl Drop for Script {
    fn drop(&mut self) {
        end(&mut self.0);
        let _ = self.0.wait();
    }
}

const TRIALS: usize = 9;
const FOREIGN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../examples/foreign-roce.sh");

/// Starts the script on the first host, and returns when all its servers are there; its output is
/// in `said`.
fn start_soft(host: &str, dir: &Path, said: &Path) -> Script {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", host, "env"]);
    command.arg(format!("SOFTEFA={}", softefa().display()));
    command.arg(format!("TMPDIR={}", dir.display()));
    command.args([FOREIGN, "soft", SERVER]).env("XDG_RUNTIME_DIR", dir);
    let script = Script(command.stdout(fs::File::create(said).unwrap()).spawn().unwrap());
    // The servers have TCP ports, except for rping, which has a UDP port.
    let has_all = || {
        let count = |table: &str, state: &str| {
            let path = format!("/proc/{}/net/{table}", script.0.id());
            let table = fs::read_to_string(path).unwrap_or_default();
            let of_trial =
                |line: &&str| (18600..18610).any(|port| line.contains(&format!(":{port:04X} ")));
            table.lines().filter(of_trial).filter(|line| line.contains(state)).count()
        };
        count("tcp", " 0A ") + count("tcp6", " 0A ") + count("udp", " 07 ") >= TRIALS
    };
    wait_until("all servers are there", has_all);
    script
}

/// The servers of the script end with it, and do not run on for minutes.
#[test]
fn the_script_for_foreign_adapters_ends_what_it_has_started() {
    let _one = exclusive();
    let programs = ["rping", "ibv_rc_pingpong", "ib_send_lat", "ip"];
    if !programs.into_iter().all(has) {
        return;
    }
    let Some(hosts) = hosts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut soft = start_soft(&hosts.names[0], dir.path(), &dir.path().join("soft"));
    kill_process(Pid::from_child(&soft.0), Signal::INT).unwrap();
    assert_eq!(soft.0.wait().unwrap().code(), Some(130));
    let pids = Command::new("ip").args(["netns", "pids", &hosts.names[0]]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&pids.stdout), "", "they run on");
}

/// The script that users with rxe or a NIC run, with another host of ours in place of those.
#[test]
fn the_script_for_foreign_adapters_tries_everything() {
    let _one = exclusive();
    let programs = ["rping", "ibv_rc_pingpong", "ib_send_lat", "ip", "shellcheck"];
    if !programs.into_iter().all(has) {
        return;
    }
    let checked = Command::new("shellcheck").arg(FOREIGN).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
    let Some(hosts) = hosts() else { return };
    let dir = tempfile::tempdir().unwrap();
    let said = dir.path().join("soft");
    let mut soft = start_soft(&hosts.names[0], dir.path(), &said);
    let here = launcher(&hosts.names[1], CLIENT, "");
    let gateway = Gateway::start(&here);
    let temporary = format!("TMPDIR={}", dir.path().display());
    let words = ["env", &temporary, FOREIGN, "rdma", SERVER, "roce0", "0"];
    let client = here.start_words("client", &words).wait(LIMIT);
    assert_eq!(client.code, 0, "{client}");
    let status = soft.0.wait().unwrap();
    let served = fs::read_to_string(&said).unwrap();
    assert!(status.success(), "{served}");
    for said in [&client.stdout, &served] {
        assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), TRIALS, "{said}");
    }
    assert_undamaged(&gateway.finish());
}
