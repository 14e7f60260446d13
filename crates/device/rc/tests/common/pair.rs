//! Two devices, virtual time, and a hostile network in memory.

use std::collections::BTreeMap;

use rc::wire::{Headers, Packet};
use rc::{Access, Config, Endpoint, Instant, Mtu, Psn, ReceiveAttr, SendAttr, Service};

use super::Rng;
use super::host::Host;

/// The faults of a link, in parts per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplicate: u32,
    /// Delayed by up to twenty latencies more.
    pub reorder: u32,
    /// The host does not answer an arrival, as if the packet had been lost there.
    pub ignored: u32,
    /// The host skips a chance to send.
    pub lazy: u32,
}

/// The attributes that both ends agree on.
#[derive(Clone, Debug)]
pub struct Setup {
    pub config: Config,
    pub services: [Service; 2],
    pub mtu: Mtu,
    pub rd_atomic: u8,
    pub timeout: u8,
    pub retry_cnt: u8,
    pub rnr_retry: u8,
    pub first: [u32; 2],
    pub memory_bytes: usize,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            config: Config::socket(),
            services: [Service::Rc; 2],
            mtu: Mtu::B256,
            rd_atomic: 4,
            timeout: 8,
            retry_cnt: 7,
            rnr_retry: 7,
            first: [0, 0xFF_FFF0],
            memory_bytes: 4096,
        }
    }
}

/// Two endpoints and the network between them.
pub struct Pair {
    pub now: Instant,
    pub hosts: [Host; 2],
    pub faults: Faults,
    pub latency_ns: u64,
    pub rng: Rng,
    /// Packets that a host sends before it does something else.
    pub slice: u64,
    /// The first such packet is lost.
    pub lost: Option<fn(&Headers) -> bool>,
    wire: BTreeMap<(Instant, u64), (usize, Vec<u8>)>,
    serial: u64,
    pub packets: u64,
}

impl Pair {
    pub fn new(setup: &Setup, seed: u64) -> Self {
        let host = |i: usize| {
            let mut engine = Endpoint::new(setup.config.clone(), setup.services[i], 10 + i as u32);
            engine.ready_to_receive(ReceiveAttr {
                dest_qpn: 11 - i as u32,
                path_mtu: setup.mtu,
                rq_psn: Psn::new(setup.first[1 - i]),
                max_dest_rd_atomic: setup.rd_atomic,
                min_rnr_timer: 16,
                access: Access::ALL,
            });
            engine.ready_to_send(SendAttr {
                sq_psn: Psn::new(setup.first[i]),
                max_rd_atomic: setup.rd_atomic,
                timeout: setup.timeout,
                retry_cnt: setup.retry_cnt,
                rnr_retry: setup.rnr_retry,
            });
            Host::new(engine, setup.memory_bytes)
        };
        Self {
            now: Instant::from_ns(1_000_000_000),
            hosts: [host(0), host(1)],
            faults: Faults::default(),
            latency_ns: 10_000,
            rng: Rng(seed),
            slice: u64::MAX,
            lost: None,
            wire: BTreeMap::new(),
            serial: 0,
            packets: 0,
        }
    }

    /// Lets both hosts do everything that needs no time.
    pub fn turn(&mut self) {
        for i in 0..2 {
            self.hosts[i].engine.handle_timeout(self.now);
            let mut left = if self.rng.permille(self.faults.lazy) { 0 } else { self.slice };
            while left > 0 {
                let Some(packet) = self.hosts[i].next_packet(self.now) else { break };
                left -= 1;
                self.carry(1 - i, &packet);
            }
            self.hosts[i].poll_events();
        }
    }

    fn carry(&mut self, to: usize, packet: &[u8]) {
        self.packets += 1;
        if let Some(is_it) = self.lost {
            let read = Packet::parse(packet, packet.len()).expect("a packet of ours");
            if is_it(&read.headers) {
                self.lost = None;
                return;
            }
        }
        let copies = 1 + u32::from(self.rng.permille(self.faults.duplicate));
        for _ in 0..copies {
            if self.rng.permille(self.faults.loss) {
                continue;
            }
            let is_late = self.rng.permille(self.faults.reorder);
            let late = if is_late { self.rng.below(20 * self.latency_ns) } else { 0 };
            self.serial += 1;
            let at = self.now.plus_ns(self.latency_ns + late);
            self.wire.insert((at, self.serial), (to, packet.to_vec()));
        }
    }

    /// Advances the time to the next event, at most to `limit`. False at the limit.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.turn();
        // A host that was interrupted continues a little later.
        let has_backlog = self.hosts.iter().any(|host| host.engine.has_backlog());
        let backlog = has_backlog.then(|| self.now.plus_ns(5000));
        let timers = self.hosts.iter().filter_map(|host| host.engine.poll_timeout());
        let arrival = self.wire.first_key_value().map(|(key, _)| key.0);
        let next = timers.chain(arrival).chain(backlog).min().unwrap_or(Instant::FAR);
        if next > limit {
            self.now = limit;
            return false;
        }
        self.now = self.now.max(next);
        let later = self.wire.split_off(&(self.now.plus_ns(1), 0));
        for (_, (to, packet)) in std::mem::replace(&mut self.wire, later) {
            if self.rng.permille(self.faults.ignored) {
                let _ = self.hosts[to].look_at(self.now, &packet);
            } else {
                let _ = self.hosts[to].take(self.now, &packet);
            }
            self.hosts[to].poll_events();
        }
        true
    }

    pub fn run_ns(&mut self, ns: u64) {
        let limit = self.now.plus_ns(ns);
        while self.step(limit) {}
    }

    /// Runs until every work request ended, for at most `ns`. False when some did not.
    pub fn run_until_done(&mut self, ns: u64) -> bool {
        let limit = self.now.plus_ns(ns);
        self.turn();
        while !self.is_done() && self.step(limit) {}
        self.is_done()
    }

    fn is_done(&self) -> bool {
        self.hosts.iter().all(|host| host.engine.in_flight() == 0)
    }

    /// Returns a hash of everything observable so far.
    pub fn digest(&self) -> u64 {
        let mut digest = Rng(self.now.as_ns() ^ self.packets << 40);
        for host in &self.hosts {
            for byte in format!("{:?}{:?}", host.done, host.memory).bytes() {
                digest.0 = digest.next() ^ u64::from(byte);
            }
        }
        digest.next()
    }
}
