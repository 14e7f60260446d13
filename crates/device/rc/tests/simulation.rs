//! Random sequences of work requests over a network that does its worst, compared byte by byte with
//! a serial execution.
//!
//! `RC_CASES=10000 RC_SEED=7 cargo test -p rc --test simulation` runs more of them, or others.

mod common;

use common::host::{BASE, KEY};
use common::oracle::Oracle;
use common::pair::{Faults, Pair, Setup};
use common::{Rng, explore};
use rc::wire::Feth;
use rc::{Config, Mtu, Operation, Remote, SendRequest, Service, Status, WrId};

const SECOND_NS: u64 = 1_000_000_000;

/// A run of a random sequence.
struct Run {
    pair: Pair,
    rng: Rng,
    oracles: [Oracle; 2],
    /// Messages posted that take a receive, and receives posted.
    needed: [u64; 2],
    posted: [u64; 2],
    /// Target ranges of READs since the last fence.
    reads: [Vec<(u64, u64)>; 2],
    /// Something happened that a connection may fail of.
    may_fail: bool,
    has_limited_rnr: bool,
    /// Some work requests are such that their own host cannot do them.
    has_faults: bool,
    /// Only the first end can send (XRC).
    is_one_way: bool,
}

fn setup(rng: &mut Rng) -> Setup {
    let is_strict = rng.permille(300);
    let base = if is_strict { Config::strict() } else { Config::socket() };
    let config = Config {
        window_initial_packets: rng.pick(&[1, 2, 16]),
        window_max_packets: rng.pick(&[1, 7, 128]),
        window_max_bytes: rng.pick(&[1, 2000, 1 << 20]),
        is_window_fixed: rng.permille(200),
        ack_every_messages: rng.pick(&[1, 1, 1, 3, 100]),
        read_packets_max: rng.pick(&[1, 2, 16, 1000]),
        rto_floor_ns: rng.pick(&[0, 1, 30_000, 1_000_000]),
        ..base
    };
    let edge = |rng: &mut Rng| rng.pick(&[0, 5, 0x7F_FFFE, 0x80_0001, 0xFF_FFF8, 0xFF_FFFF]);
    Setup {
        config,
        mtu: rng.pick(&[Mtu::B256, Mtu::B256, Mtu::B1024]),
        rd_atomic: rng.pick(&[1, 2, 16]),
        timeout: rng.pick(&[4, 8, 12]),
        retry_cnt: rng.pick(&[1, 7, 7]),
        rnr_retry: rng.pick(&[0, 3, 7, 7, 7, 7]),
        first: [edge(rng), edge(rng)],
        memory_bytes: 3000,
        ..Setup::default()
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let mut setup = setup(&mut rng);
        let is_one_way = rng.permille(150);
        if is_one_way {
            setup.services = [Service::XrcInitiator, Service::XrcTarget];
        }
        let is_strict = setup.config.silence_min_ns == 0;
        let has_faults = seed % 8 == 0;
        let mut pair = Pair::new(&setup, rng.next());
        if rng.permille(400) {
            let mut bytes = || rng.pick(&[0, 300, 600, 1 << 20]);
            pair.hosts.iter_mut().for_each(|host| host.joined_bytes = [1 << 20, bytes()]);
        }
        Self {
            pair,
            rng,
            oracles: Default::default(),
            needed: [0; 2],
            posted: [0; 2],
            reads: Default::default(),
            may_fail: is_strict || has_faults,
            has_limited_rnr: setup.rnr_retry < 7,
            has_faults,
            is_one_way,
        }
    }

    /// Something random happens.
    fn act(&mut self) {
        let rng = &mut self.rng;
        match rng.below(20) {
            0..=6 => {
                let from = if self.is_one_way { 0 } else { rng.below(2) as usize };
                let count = rng.pick(&[1, 1, 2, 5, 20]);
                (0..count).for_each(|_| self.post(from));
            }
            7..=12 => {
                let ns = rng.pick(&[1000, 20_000, 300_000, 5_000_000, 700_000_000, 9 * SECOND_NS]);
                let ns = rng.below(ns);
                let is_dead = self.pair.faults.loss == 1000 || self.pair.faults.ignored == 1000;
                self.may_fail |= is_dead && ns > SECOND_NS;
                self.pair.run_ns(ns);
            }
            13..=15 => {
                let is_wild = rng.permille(300);
                let part = |rng: &mut Rng| {
                    if is_wild { 450 } else { rng.pick(&[5, 5, 10, 100, 450]) }
                };
                let (duplicate, reorder, lazy) = (part(rng), part(rng), 2 * part(rng) - 10);
                let loss = rng.pick(&[0, 10, 50, 200, 500, 1000]);
                let loss = if is_wild { 10 } else { loss };
                let ignored = if is_wild { 5 } else { part(rng) / 2 };
                self.pair.faults = Faults { loss, duplicate, reorder, ignored, lazy };
            }
            16 => self.pair.latency_ns = rng.pick(&[0, 1000, 50_000, 2_000_000]),
            17 => self.pair.slice = rng.pick(&[1, 3, 20, u64::MAX]),
            18 => {
                let who = rng.below(2) as usize;
                let more = rng.below(5);
                self.ready(who, self.posted[who] + more);
            }
            _ => self.disturb(),
        }
        self.pair.turn();
    }

    /// What happens rarely.
    fn disturb(&mut self) {
        let who = self.rng.below(2) as usize;
        let now = self.pair.now;
        let engine = &mut self.pair.hosts[who].engine;
        match self.rng.below(8) {
            0 => {
                engine.fail(now);
                self.may_fail = true;
            }
            1..=3 => engine.drain(now),
            _ => engine.resume(now),
        }
    }

    /// Posts receives until there were `up_to`.
    fn ready(&mut self, who: usize, up_to: u64) {
        while self.posted[who] < up_to {
            self.pair.hosts[who].post_receive(self.posted[who], 3000);
            self.posted[who] += 1;
        }
    }

    fn range(&mut self, len: u64) -> Remote {
        let va = BASE + self.rng.below(3000 - len + 1);
        Remote { va, rkey: KEY }
    }

    fn word(&mut self) -> Remote {
        // Few words, so that their operations meet.
        Remote { va: BASE + 8 * self.rng.below(4), rkey: KEY }
    }

    fn post(&mut self, from: usize) {
        let lens = [0, 1, 3, 8, 255, 256, 257, 700, 1024, 1500, 2900];
        let (mut len, choice) = (self.rng.pick(&lens), self.rng.below(12));
        let imm = self.rng.next() as u32;
        let op = match choice {
            0 | 1 => Operation::Send,
            2 => Operation::SendImm(imm),
            3 => {
                self.pair.hosts[1 - from].keys.push(imm);
                Operation::SendInvalidate(imm)
            }
            4 => Operation::WriteImm(self.range(len), imm),
            5 => Operation::Write(self.range(len)),
            6 | 7 => Operation::Read(self.range(len)),
            8 => Operation::FetchAdd { remote: self.word(), add: self.rng.next() | 1 },
            9 => {
                let (remote, compare, swap) = (self.word(), self.rng.below(2), self.rng.below(2));
                Operation::CompareSwap { remote, compare, swap }
            }
            10 => Operation::Local,
            _ if self.rng.permille(500) => Operation::AtomicWrite(self.word()),
            _ => {
                let feth = Feth { is_global: true, ..Feth::default() };
                Operation::Flush(self.range(len), feth)
            }
        };
        match op {
            Operation::Local => len = 0,
            Operation::Flush(..) => {}
            _ if choice > 7 => len = 8,
            _ => {}
        }
        self.needed[1 - from] += u64::from(choice <= 4);
        let id = WrId(self.oracles[from].len() as u64);
        let mut request = SendRequest::new(id, op, len as u32);
        request.is_fenced = self.needs_fence(from, op, len) || self.rng.permille(50);
        if request.is_fenced {
            self.reads[from].clear();
        }
        if let Operation::Read(remote) = op {
            self.reads[from].push((remote.va, remote.va + len));
        }
        let brings_back = matches!(choice, 6..=9);
        let bytes = if brings_back { vec![0; len as usize] } else { self.rng.bytes(len as usize) };
        if self.has_faults && self.rng.permille(30) {
            self.pair.hosts[from].broken.insert(id.0, Status::LocalProtection);
        }
        self.oracles[from].posted(request, bytes.clone());
        self.pair.hosts[from].post(self.pair.now, request, bytes);
    }

    /// A READ may see what later requests write, unless they are fenced.
    fn needs_fence(&self, from: usize, op: Operation, len: u64) -> bool {
        let (Operation::Write(remote)
        | Operation::WriteImm(remote, _)
        | Operation::AtomicWrite(remote)
        | Operation::CompareSwap { remote, .. }
        | Operation::FetchAdd { remote, .. }) = op
        else {
            return false;
        };
        let meets = |&(start, end): &(u64, u64)| remote.va < end && start < remote.va + len;
        self.reads[from].iter().any(meets)
    }

    /// Heals everything, then demands that everything ends, and as it must.
    fn heal(&mut self) {
        self.pair.faults = Faults::default();
        self.pair.latency_ns = 10_000;
        self.pair.slice = u64::MAX;
        for who in 0..2 {
            self.ready(who, self.needed[who]);
            let now = self.pair.now;
            self.pair.hosts[who].engine.resume(now);
        }
        assert!(self.pair.run_until_done(60 * SECOND_NS), "work requests do not end");
        self.pair.run_ns(SECOND_NS);
        let hosts = &self.pair.hosts;
        assert!(hosts.iter().all(|host| host.engine.is_quiescent()), "something is still waiting");
        for from in 0..2 {
            let failed = self.oracles[from].check(&hosts[from], &hosts[1 - from]);
            let is_expected = match failed {
                None => true,
                Some(Status::RnrRetryExceeded) => self.has_limited_rnr || self.may_fail,
                Some(Status::RetryExceeded | Status::Flushed) => {
                    self.may_fail || self.has_limited_rnr
                }
                Some(Status::LocalProtection) => self.has_faults,
                Some(_) => false,
            };
            assert!(is_expected, "direction {from} failed with {failed:?}");
        }
    }
}

fn run(seed: u64) -> u64 {
    run_by([true, false], seed).digest()
}

/// Runs with packets on the short ways, or not, alternately.
fn run_by(short_ways: [bool; 2], seed: u64) -> Pair {
    let mut run = Run::new(seed);
    run.pair.hosts.iter_mut().for_each(|host| host.short_ways = short_ways);
    let actions = 1 + run.rng.below(30);
    (0..actions).for_each(|_| run.act());
    run.heal();
    run.pair
}

#[test]
fn every_byte_is_as_if_executed_serially() {
    explore("simulation", "every_byte", 2000, |seed| {
        run(seed);
    });
}

#[test]
fn the_same_seed_runs_the_same_way() {
    explore("simulation", "the_same_seed", 100, |seed| assert_eq!(run(seed), run(seed)));
}

#[test]
fn short_ways_change_nothing() {
    explore("simulation", "short_ways", 500, |seed| {
        let [long, short, mixed] =
            [[false; 2], [true; 2], [true, false]].map(|ways| run_by(ways, seed));
        let stats = |pair: &Pair| pair.hosts.each_ref().map(|host| *host.engine.stats());
        for other in [&short, &mixed] {
            assert_eq!(other.packets, long.packets);
            assert_eq!(stats(other), stats(&long));
            assert_eq!(other.digest(), long.digest());
        }
        assert_eq!(long.hosts.iter().map(|host| host.shorts).sum::<u64>(), 0);
    });
}

#[test]
fn plain_packets_take_the_short_ways() {
    let mut pair = Pair::new(&Setup::default(), 1);
    pair.hosts.iter_mut().for_each(|host| host.short_ways = [true; 2]);
    let write = Operation::Write(Remote { va: BASE, rkey: KEY });
    for round in 0..10 {
        // Two messages of one packet, and two of two packets.
        for (op, len) in [(Operation::Send, 64), (write, 8), (Operation::Send, 300), (write, 300)] {
            let id = WrId(pair.hosts[0].buffers.len() as u64);
            pair.hosts[0].post(pair.now, SendRequest::new(id, op, len), vec![7; len as usize]);
        }
        (0..2).for_each(|more| pair.hosts[1].post_receive(2 * round + more, 300));
    }
    assert!(pair.run_until_done(SECOND_NS));
    // Messages of two packets arrive by the long way.
    assert_eq!(pair.hosts.each_ref().map(|host| host.shorts), [60, 20]);
}
