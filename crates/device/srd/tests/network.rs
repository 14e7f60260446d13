//! Many hosts and one switch with drop-tail queues: the effect of window and paths on a network.

use crate::common::Rng;
use srd::{Address, Config, Endpoint, Event, HEADER_MAX, Instant, Message, MsgId, Seed, Status};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

const MTU: u32 = 4150;
/// 100 Gbit/s.
const RATE_BYTES_PER_US: u64 = 12_500;
const LATENCY_NS: u64 = 2000;
/// Drop-tail limit of every queue, in bytes.
const QUEUE_BYTES: u64 = 130 * MTU as u64;
const BASE_RTT_NS: u64 = 9000;

/// A queue with a rate; the time at which it is free again.
#[derive(Clone, Copy, Debug)]
struct Link {
    free_at: Instant,
    bytes_per_us: u64,
    drops: u64,
}

impl Link {
    fn new(bytes_per_us: u64) -> Self {
        Self { free_at: Instant::ZERO, bytes_per_us, drops: 0 }
    }

    /// Returns when a datagram has passed, `None` when the queue was full.
    fn pass(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        let queued = self.free_at.ns_since(now) * self.bytes_per_us / 1000;
        if queued > QUEUE_BYTES {
            self.drops += 1;
            return None;
        }
        self.free_at = self.free_at.max(now).plus_ns(bytes * 1000 / self.bytes_per_us);
        Some(self.free_at.plus_ns(LATENCY_NS))
    }
}

/// The links that a datagram still has to pass.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    hops: Vec<usize>,
    from: usize,
    to: usize,
    bytes: u64,
    header: Vec<u8>,
}

/// Hosts with an uplink each, `spines` links between two halves, and a downlink each.
struct Net {
    now: Instant,
    hosts: Vec<Endpoint>,
    links: Vec<Link>,
    spines: usize,
    events: BinaryHeap<Reverse<(Instant, u64, Packet)>>,
    serial: u64,
    finished: BTreeMap<(usize, u64), Instant>,
    rng: Rng,
}

impl Net {
    fn new(hosts: usize, spines: usize) -> Self {
        let mut config = Config::simulated(RATE_BYTES_PER_US as u32, BASE_RTT_NS, MTU);
        config.paths = 64;
        config.overhead_bytes = 68;
        let endpoint = |i| Endpoint::new(config.clone(), 1, Seed::from_u64(1000 + i as u64));
        Self {
            now: Instant::from_ns(1_000_000),
            hosts: (0..hosts).map(endpoint).collect(),
            links: vec![Link::new(RATE_BYTES_PER_US); 2 * hosts + 2 * spines],
            spines,
            events: BinaryHeap::new(),
            serial: 0,
            finished: BTreeMap::new(),
            rng: Rng(5),
        }
    }

    fn send(&mut self, from: usize, to: usize, messages: u64) {
        let peer = self.hosts[from].peer(self.now, Address { host: to as u64, qpn: 1 });
        for id in 0..messages {
            let id = MsgId((to as u64) << 32 | id);
            let msg = Message { id, len: MTU - 68, rnr_retry: 7, ..Message::default() };
            self.hosts[from].send(self.now, peer, msg).expect("a valid message");
        }
    }

    /// Returns the links from one host to another: up, across to the other half, down.
    fn hops(&mut self, from: usize, to: usize, path: u16) -> Vec<usize> {
        let n = self.hosts.len();
        let mut hops = vec![from];
        let (half, other) = (from * 2 / n, to * 2 / n);
        if self.spines > 0 && half != other {
            let hash = (from * 31 + to * 17) as u64 ^ u64::from(path).wrapping_mul(0x9E37_79B9);
            let spine = Rng(hash).next() as usize % self.spines;
            hops.push(2 * n + half * self.spines + spine);
        }
        hops.push(n + to);
        hops.reverse();
        hops
    }

    fn transmit(&mut self, host: usize) {
        let mut header = [0; HEADER_MAX];
        while let Some(out) = self.hosts[host].poll_transmit(self.now, &mut header) {
            let to = out.addr.host as usize;
            let packet = Packet {
                hops: self.hops(host, to, out.path.0),
                from: host,
                to,
                bytes: out.header_len as u64 + u64::from(out.payload_len),
                header: header[..out.header_len].to_vec(),
            };
            self.forward(packet);
        }
        while let Some(event) = self.hosts[host].poll_event() {
            let Event::Completed { msg, status, .. } = event else { continue };
            assert_eq!(status, Status::Ok);
            self.finished.insert((host, msg.0 >> 32), self.now);
        }
    }

    /// Puts a packet on its next link, or delivers it to its host.
    fn forward(&mut self, mut packet: Packet) {
        let Some(link) = packet.hops.pop() else {
            let (to, from) = (packet.to, packet.from as u64);
            let host = &mut self.hosts[to];
            let len = packet.bytes as usize;
            let got = host.handle_datagram(self.now, from, &packet.header, len);
            if let Ok(Some(new)) = got.map(|received| received.data) {
                host.accept(self.now, new.peer, new.psn);
            }
            return self.transmit(to);
        };
        // If all clocks ticked alike, the queues would be synchronised.
        let jitter_ns = self.rng.below(20);
        if let Some(at) = self.links[link].pass(self.now, packet.bytes + 28) {
            self.serial += 1;
            self.events.push(Reverse((at.plus_ns(jitter_ns), self.serial, packet)));
        }
    }

    /// Runs until nothing is in flight; returns the time it took.
    fn run(&mut self) -> u64 {
        let start = self.now;
        (0..self.hosts.len()).for_each(|host| self.transmit(host));
        while self.hosts.iter().any(|host| host.in_flight() > 0) {
            let arrival = self.events.peek().map(|event| event.0.0);
            let timers = self.hosts.iter().filter_map(Endpoint::poll_timeout);
            let next = timers.chain(arrival).min().expect("something happens next");
            assert!(next.ns_since(start) < 1_000_000_000, "no progress");
            self.now = self.now.max(next);
            while self.events.peek().is_some_and(|event| event.0.0 <= self.now) {
                let packet = self.events.pop().expect("peeked").0.2;
                self.forward(packet);
            }
            for host in 0..self.hosts.len() {
                if self.hosts[host].poll_timeout().is_some_and(|at| at <= self.now) {
                    self.hosts[host].handle_timeout(self.now);
                    self.transmit(host);
                }
            }
        }
        let last = self.finished.values().max().expect("something was sent");
        last.ns_since(start)
    }

    fn repetitions(&self) -> f64 {
        let sum = |get: fn(&srd::Stats) -> u64| {
            self.hosts.iter().map(|host| get(host.stats())).sum::<u64>() as f64
        };
        sum(|stats| stats.retrans_pkts) / sum(|stats| stats.tx_data)
    }
}

/// Returns the time that `messages` packets need on one link, plus a round trip.
fn ideal_ns(messages: u64) -> f64 {
    (messages * u64::from(MTU + 28) * 1000 / RATE_BYTES_PER_US + BASE_RTT_NS) as f64
}

#[test]
fn one_sender_fills_the_link() {
    let mut net = Net::new(2, 0);
    net.send(0, 1, 2000);
    let ratio = net.run() as f64 / ideal_ns(2000);
    println!("one sender: {ratio:.3} of ideal");
    assert!(ratio < 1.05, "{ratio}");
    assert_eq!(net.repetitions(), 0.0);
}

#[test]
fn incast_is_near_ideal_and_fair() {
    let senders = 16;
    let mut net = Net::new(senders + 1, 0);
    (0..senders).for_each(|from| net.send(from, senders, 500));
    let took = net.run() as f64;
    let ratio = took / ideal_ns(500 * senders as u64);
    let first = net.finished.values().min().expect("all finished");
    let fairness = first.ns_since(Instant::from_ns(1_000_000)) as f64 / took;
    let again = net.repetitions();
    println!("incast {senders}: {ratio:.3} of ideal, first/last {fairness:.2}, again {again:.3}");
    assert!(ratio < 1.06 && fairness > 0.85 && again < 0.06, "{ratio} {fairness} {again}");
}

#[test]
fn a_permutation_spreads_over_the_spines() {
    let (hosts, spines) = (16, 8);
    let mut net = Net::new(hosts, spines);
    (0..hosts).for_each(|from| net.send(from, (from + hosts / 2) % hosts, 1000));
    let ratio = net.run() as f64 / ideal_ns(1000);
    let again = net.repetitions();
    println!("permutation: {ratio:.3} of ideal, again {again:.3}");
    assert!(ratio < 1.30 && again < 0.02, "{ratio} {again}");
}

#[test]
fn a_slow_spine_is_avoided() {
    let (hosts, spines) = (16, 8);
    let mut net = Net::new(hosts, spines);
    net.links[2 * hosts].bytes_per_us /= 4;
    (0..hosts).for_each(|from| net.send(from, (from + hosts / 2) % hosts, 1000));
    let ratio = net.run() as f64 / ideal_ns(1000);
    let again = net.repetitions();
    println!("slow spine: {ratio:.3} of ideal, again {again:.3}");
    assert!(ratio < 1.35 && again < 0.02, "{ratio} {again}");
}
