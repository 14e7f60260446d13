//! A process of another user sends datagrams that may do harm to live traffic of which every byte
//! and every completion is checked: none is accepted, nothing ends, and memory does not grow.
//!
//! `make attack` sends ten million datagrams at each kind of traffic and prints a table. Variables
//! choose the seed (`SOFTEFA_SEED`), the number of datagrams (`SOFTEFA_ATTACK_DATAGRAMS`), one kind
//! of traffic (`SOFTEFA_ATTACK_TRAFFIC=send`, `rdma` or `ud`), and one mode
//! (`SOFTEFA_ATTACK_MODE=clear`, `sealed`, `udp` or `memory`).

#[path = "../common/mod.rs"]
mod common;

mod attacker;
mod forge;
mod learn;
mod sockets;
mod table;
mod victims;

use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use attacker::{Deeds, Orders, Style};
use softefa::counters::Counter;
use softefa::seal::SealKey;
use softefa::{CompletionOp, Config, QpKind, WireChoice};
use table::{AttackResult, Rate, resident_bytes};
use victims::{Traffic, Victims};

/// The variable with orders, which makes this program the attacker.
const ORDERS: &str = "SOFTEFA_TEST_ATTACK";
/// The bytes of a message. An observer that can read them in a capture can read keys and tokens,
/// too.
const SECRET: &[u8] = b"for the receiver's eyes";
const SNOOP: &str = "SOFTEFA_TEST_SNOOP";
/// Number of datagrams at each kind of traffic in the test suite.
const SHORT: u64 = 30_000;
/// The most bytes by which memory may grow while strangers send: buffers, tables, answers.
const GROWTH_MAX_BYTES: u64 = 16 << 20;
/// The duration of the longest attack.
const LIMIT: Duration = Duration::from_secs(1200);

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Returns true if an attacker can be started; reports it if not.
fn can_attack(test: &str) -> bool {
    let can = sockets::is_root();
    if !can {
        eprintln!("{test}: SKIPPED: only root can start a process of another user; run it as root");
    }
    can
}

/// Starts the program again, as `test`, with the variable set.
fn start(test: &str, (variable, value): (&str, String)) -> Child {
    Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", test, "--nocapture"])
        .env(variable, value)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process")
}

fn line_with(child: &mut BufReader<std::process::ChildStdout>, word: &str) -> String {
    let mut line = String::new();
    while child.read_line(&mut line).expect("its output") > 0 {
        if line.contains(word) {
            return line;
        }
        line.clear();
    }
    panic!("the attacker ended before it said {word}");
}

/// An attack on one kind of traffic.
struct Attack {
    traffic: Traffic,
    style: Style,
    mode: &'static str,
    config: Config,
    datagrams: u64,
    seed: u64,
    /// The number of the attack, from 1 on.
    place: u32,
    /// The time for which traffic is measured without an attacker.
    calm: Duration,
}

impl Attack {
    fn run(&self, test: &str) -> AttackResult {
        let Self { traffic, style, datagrams, seed, .. } = *self;
        // The addresses are of this attack alone, because the attacker must not meet other
        // programs.
        let net = 0x7F40_0000 | ((std::process::id() << 8) & 0x3F_FF00) | (self.place << 1);
        let addrs = [net, net | 1].map(Ipv4Addr::from);
        let mut victims = Victims::new(traffic, addrs, &self.config, seed ^ 0x51);
        let pid = std::process::id();
        let orders = Orders { seed, datagrams, style, pid, victims: addrs };
        let mut attacker = start(test, (ORDERS, orders.emit()));
        let mut said = BufReader::new(attacker.stdout.take().expect("its output"));
        line_with(&mut said, "attacker-ready");
        // A first run warms up, a second one is measured.
        victims.run(self.calm / 4, || false);
        let is_idle = style != Style::Mixed;
        let calm = Rate::of(&mut victims, |victims| victims.run(self.calm, || false));
        if is_idle {
            victims.end();
        }
        let (rss, before) = (resident_bytes(), Counts::of(&victims));
        writeln!(attacker.stdin.take().expect("its input"), "go").expect("it listens");
        let attacked = Rate::of(&mut victims, |victims| {
            let has_ended = || attacker.try_wait().expect("a child").is_some();
            if is_idle { victims.idle(LIMIT, has_ended) } else { victims.run(LIMIT, has_ended) }
        });
        let rss_after = resident_bytes();
        victims.end();
        victims.drain();
        let status = attacker.wait().expect("its end");
        assert!(status.success(), "the attacker ended with {status}");
        let deeds = Deeds::parse(&line_with(&mut said, Deeds::WORD)).expect("what it did");
        let counts = Counts::of(&victims).since(&before);
        assert!(deeds.sent >= datagrams, "{deeds:?}");
        assert!(counts.dropped + counts.strangers() > 0, "the attack has not hit: {counts:?}");
        assert!(rss_after < rss + GROWTH_MAX_BYTES, "{rss} bytes grew to {rss_after}");
        // Afterwards all traffic continues as before.
        let after = Rate::of(&mut victims, |victims| victims.run(self.calm / 4, || false));
        victims.end();
        assert!(after.bytes > 0);
        let name = match style {
            Style::Mixed => format!("{traffic:?}").to_uppercase(),
            Style::Guesses { .. } => format!("{traffic:?} keys").to_uppercase(),
        };
        AttackResult { name, mode: self.mode, deeds, counts, calm, attacked, rss, rss_after }
    }
}

/// The counts of the victims.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    received: u64,
    dropped: u64,
    answered: u64,
    unanswered: u64,
    repeated: u64,
    /// Number of datagrams that the system lost because the queues of their sockets were full.
    lost: u64,
}

impl Counts {
    fn of(victims: &Victims) -> Self {
        let of = |counter| victims.count(counter);
        let answers =
            [Counter::StrangerResets, Counter::StrangerRefusals, Counter::StrangerChallenges];
        Self {
            received: of(Counter::RxPkts),
            dropped: of(Counter::RxDrops),
            answered: answers.into_iter().map(of).sum(),
            unanswered: of(Counter::StrangersUnanswered),
            repeated: of(Counter::RetransPkts),
            lost: victims.sides.iter().map(|side| learn::lost_at(side.device.addr())).sum(),
        }
    }

    fn since(self, before: &Self) -> Self {
        Self {
            received: self.received - before.received,
            dropped: self.dropped - before.dropped,
            answered: self.answered - before.answered,
            unanswered: self.unanswered - before.unanswered,
            repeated: self.repeated - before.repeated,
            lost: self.lost - before.lost,
        }
    }

    fn strangers(&self) -> u64 {
        self.answered + self.unanswered
    }
}

/// Returns the modes: how datagrams are protected, and their carrier.
fn modes() -> Vec<(&'static str, Config)> {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("key");
    let bytes: Vec<u8> = (0..32).map(|i| i ^ 0x5A).collect();
    std::fs::write(&path, bytes).expect("a key file");
    let key = SealKey::read(&path).expect("a key");
    let mode = |wire, key| Config { wire, key, ..Config::default() };
    vec![
        ("clear, UDP", mode(WireChoice::Udp, None)),
        ("clear, memory", mode(WireChoice::Auto, None)),
        ("sealed, UDP", mode(WireChoice::Udp, Some(key.clone()))),
        ("sealed, memory", mode(WireChoice::Auto, Some(key))),
    ]
}

#[test]
fn nothing_a_stranger_sends_is_taken() {
    const NAME: &str = "nothing_a_stranger_sends_is_taken";
    if let Ok(orders) = std::env::var(ORDERS) {
        return attacker::attack(Orders::parse(&orders).expect("orders"));
    }
    if !can_attack(NAME) {
        return;
    }
    let (datagrams, seed) = (number("SOFTEFA_ATTACK_DATAGRAMS", SHORT), number("SOFTEFA_SEED", 1));
    println!("SOFTEFA_SEED={seed} SOFTEFA_ATTACK_DATAGRAMS={datagrams} make attack");
    let is_long = datagrams > SHORT;
    let calm = Duration::from_millis(if is_long { 4000 } else { 200 });
    let only = std::env::var("SOFTEFA_ATTACK_TRAFFIC").unwrap_or_default().to_lowercase();
    let is_wanted = |traffic: &Traffic| format!("{traffic:?}").to_lowercase().contains(&only);
    let mut rows = Vec::new();
    let kinds = [
        (Traffic::Send, Style::Mixed),
        (Traffic::Rdma, Style::Mixed),
        (Traffic::Ud, Style::Mixed),
        (Traffic::Send, Style::Guesses { is_ud: false }),
        (Traffic::Ud, Style::Guesses { is_ud: true }),
        (Traffic::Rc, Style::Mixed),
    ];
    let mode_wanted = std::env::var("SOFTEFA_ATTACK_MODE").unwrap_or_default().to_lowercase();
    let modes = modes().into_iter().filter(|(mode, _)| mode.to_lowercase().contains(&mode_wanted));
    for (mode, config) in modes {
        // The forger knows envelopes, and not what a connection in the clear would accept.
        let is_known = |traffic: &Traffic| *traffic != Traffic::Rc || config.key.is_some();
        let kinds =
            kinds.into_iter().filter(|(traffic, _)| is_wanted(traffic) && is_known(traffic));
        for (traffic, style) in kinds {
            let (config, place) = (config.clone(), rows.len() as u32 + 1);
            let attack = Attack { traffic, style, mode, config, datagrams, seed, place, calm };
            rows.push(attack.run(NAME));
        }
    }
    table::print(&rows);
}

/// The directory may be open to everybody: files in it must not contain keys and tokens.
#[test]
fn files_of_a_run_tell_others_no_key() {
    const NAME: &str = "files_of_a_run_tell_others_no_key";
    if let Ok(dir) = std::env::var(SNOOP) {
        return attacker::snoop(Path::new(&dir), &[SECRET.to_vec()]);
    }
    if !can_attack(NAME) {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), mode).expect("its mode");
    let run_dir = Some(dir.path().to_path_buf());
    let config = Config { run_dir, capture_bytes: Some(256), ..Config::default() };
    let (mut a, b) = (common::side_of(QpKind::Srd, &config), common::side_of(QpKind::Srd, &config));
    a.fill(0, SECRET);
    b.post_recv(1, 0, 64);
    let ah = a.ah(&b);
    a.send(1, &b, &ah, 0, SECRET.len() as u32);
    let done = common::wait_for(&[&a, &b], 0, CompletionOp::Send);
    assert_eq!(done.status, softefa::Status::Ok);
    let mut child = start(NAME, (SNOOP, dir.path().display().to_string()));
    let mut said = BufReader::new(child.stdout.take().expect("its output"));
    let leaks = line_with(&mut said, "attacker-leaks");
    assert!(child.wait().expect("its end").success());
    assert_eq!(leaks.trim_end(), "attacker-leaks []");
}
