//! `Pair`: two endpoints, virtual time, two lossy links in memory.

pub mod check;
pub mod hub;
pub mod scene;

use check::Check;
use srd::wire::FrameEntry;
use srd::{
    Address, Arrival, Config, Endpoint, Event, HEADER_MAX, Instant, Message, MsgId, PeerId, Reject,
    Seed, Status, Transmit,
};
use std::collections::{BTreeMap, VecDeque};

/// A small generator, so that tests depend on nothing but their seed.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn answer(&mut self) -> Answer {
        match self.below(4) {
            0 => Answer::Refuse(Reject::Rnr),
            1 => Answer::Refuse(Reject::BadLength),
            _ => Answer::Accept,
        }
    }

    /// True in `parts` of 1000 cases.
    pub fn permille(&mut self, parts: u32) -> bool {
        self.below(1000) < u64::from(parts)
    }
}

/// The faults of a link, in parts per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u32,
    pub duplicate: u32,
    /// Delayed by up to twenty latencies more.
    pub reorder: u32,
    /// The paths on which all datagrams are lost, one bit for each.
    pub dead_paths: u64,
}

/// An endpoint and the state of its host.
pub struct Node {
    pub engine: Endpoint,
    pub addr: Address,
    /// How the host answers new messages.
    pub answer: Answer,
    /// Accepted messages: identifier -> how often, in order of arrival.
    pub delivered: Vec<u64>,
    /// Identifier -> how it ended.
    pub completed: BTreeMap<u64, Status>,
    pub events: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Accept,
    Refuse(Reject),
    /// No receive is posted: not ready for operation 0, ready for others.
    NoReceive,
    /// Each message at random.
    Mixed,
}

struct Flight {
    from: usize,
    packed: Packed,
}

/// A datagram, without its payload unless it is a frame.
#[derive(Clone)]
pub struct Packed {
    pub bytes: Vec<u8>,
    /// Length of the whole datagram in bytes.
    pub len: usize,
    /// Its messages, which stand for their payloads, and the offset at which these begin.
    pub messages: Vec<(usize, MsgId)>,
}

impl Packed {
    /// Creates the datagram that `engine` has just transmitted with this header.
    pub fn new(engine: &Endpoint, out: &Transmit, header: &[u8]) -> Self {
        let mut bytes = header[..out.header_len].to_vec();
        if out.framed == 0 {
            let messages = out.msg.map(|msg| (out.header_len, msg)).into_iter().collect();
            return Self { bytes, len: out.header_len + out.payload_len as usize, messages };
        }
        let mut messages = Vec::new();
        for msg in engine.framed() {
            let (len, &Message { op, flags, imm, .. }) = (msg.len as u16, msg);
            bytes.extend(FrameEntry { len, op, flags, imm }.emit());
            messages.push((bytes.len(), msg.id));
            bytes.resize(bytes.len() + msg.len as usize, 0);
        }
        assert_eq!((messages.len(), messages[0].1), (out.framed, out.msg.expect("a message")));
        assert_eq!(bytes.len(), out.header_len + out.payload_len as usize);
        Self { len: bytes.len(), bytes, messages }
    }
}

/// The queue key of both.
pub const KEY: u32 = 0;

/// Two endpoints and the network between them.
pub struct Pair {
    pub now: Instant,
    pub nodes: [Node; 2],
    pub faults: Faults,
    pub latency_ns: u64,
    pub rng: Rng,
    wire: BTreeMap<(Instant, u64), Flight>,
    serial: u64,
    pub datagrams: u64,
    /// The number of datagrams with several messages.
    pub frames: u64,
    /// Whether these are lost.
    pub swallows_frames: bool,
    pub config: Config,
    /// Whether hosts make held acknowledgements due at the end of every turn.
    pub eager_acks: bool,
    pub check: Check,
    /// The message whose data is always lost.
    pub lose_id: Option<u64>,
    /// Hosts that are stopped at present; datagrams to them wait.
    pub asleep: [bool; 2],
}

impl Pair {
    pub fn new(config: Config, seed: u64) -> Self {
        let now = Instant::from_ns(1_000_000_000);
        let node = |i: u64| Node::new(&config, i, seed + i);
        Self {
            now,
            nodes: [node(0), node(1)],
            faults: Faults::default(),
            latency_ns: 10_000,
            rng: Rng(seed),
            wire: BTreeMap::new(),
            serial: 0,
            datagrams: 0,
            frames: 0,
            swallows_frames: false,
            config,
            eager_acks: true,
            check: Check::default(),
            lose_id: None,
            asleep: [false; 2],
        }
    }

    pub fn socket(seed: u64) -> Self {
        Self::new(Config::socket(), seed)
    }

    /// Replaces node `i` by a new incarnation without state.
    pub fn restart(&mut self, i: usize, seed: u64) {
        // A host's entropy never repeats.
        let seed = Rng(seed ^ self.now.as_ns()).next();
        let old = std::mem::replace(&mut self.nodes[i], Node::new(&self.config, i as u64, seed));
        self.nodes[i].answer = old.answer;
        self.check.restarted(i);
    }

    pub fn peer_of(&mut self, i: usize) -> PeerId {
        let other = self.nodes[1 - i].addr;
        self.nodes[i].engine.peer(self.now, other)
    }

    pub fn send(&mut self, i: usize, id: u64, len: u32) {
        self.send_with(i, Message { id: MsgId(id), len, rnr_retry: 7, ..Message::default() });
    }

    pub fn send_with(&mut self, i: usize, msg: Message) {
        let peer = self.peer_of(i);
        self.nodes[i].engine.send(self.now, peer, msg).expect("a valid message");
        self.check.sent(i, msg.id.0, msg.is_one_sided);
    }

    /// Lets both hosts do everything that needs no time.
    pub fn turn(&mut self) {
        for i in (0..2).filter(|&i| !self.asleep[i]).collect::<Vec<_>>() {
            self.nodes[i].engine.handle_timeout(self.now);
            if self.eager_acks {
                self.nodes[i].engine.flush_acks(self.now);
            }
            self.drain(i);
        }
    }

    /// Takes all that node `i` transmits and reports, without its timers.
    pub fn drain(&mut self, i: usize) {
        let mut header = [0; HEADER_MAX];
        while let Some(out) = self.nodes[i].engine.poll_transmit(self.now, &mut header) {
            assert_eq!(out.addr, self.nodes[1 - i].addr);
            let packed = Packed::new(&self.nodes[i].engine, &out, &header);
            self.carry(i, out.path.0, &packed);
        }
        while let Some(event) = self.nodes[i].engine.poll_event() {
            if let Event::Completed { msg, status, .. } = event {
                self.check.completed(i, msg.0, status);
            }
            self.nodes[i].note(event);
        }
    }

    /// Takes what node `i` transmits, payload as zeros, instead of carrying it.
    pub fn tap(&mut self, i: usize) -> Vec<Vec<u8>> {
        let engine = &mut self.nodes[i].engine;
        let (mut header, mut taken) = ([0; HEADER_MAX], Vec::new());
        engine.handle_timeout(self.now);
        engine.flush_acks(self.now);
        while let Some(out) = engine.poll_transmit(self.now, &mut header) {
            let Packed { mut bytes, len, .. } = Packed::new(engine, &out, &header);
            bytes.resize(len, 0);
            taken.push(bytes);
        }
        while engine.poll_event().is_some() {}
        taken
    }

    fn carry(&mut self, from: usize, path: u16, packed: &Packed) {
        self.datagrams += 1;
        self.frames += u64::from(packed.messages.len() > 1);
        let copies = 1 + u32::from(self.rng.permille(self.faults.duplicate));
        for _ in 0..copies {
            let dead = self.swallows_frames && packed.messages.len() > 1
                || self.faults.dead_paths >> path & 1 == 1
                || packed.messages.iter().any(|(_, msg)| self.lose_id == Some(msg.0));
            if dead || self.rng.permille(self.faults.loss) {
                continue;
            }
            let late = if self.rng.permille(self.faults.reorder) {
                self.rng.below(20 * self.latency_ns)
            } else {
                0
            };
            self.serial += 1;
            let at = self.now.plus_ns(self.latency_ns + late);
            let flight = Flight { from, packed: packed.clone() };
            self.wire.insert((at, self.serial), flight);
        }
    }

    /// Advances the time to the next event, at most to `limit`. False at the limit.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.turn();
        let awake = self.nodes.iter().zip(self.asleep).filter(|node| !node.1);
        let timers = awake.filter_map(|node| node.0.engine.poll_timeout());
        let arrivals = self.wire.iter().filter(|flight| !self.asleep[1 - flight.1.from]);
        let arrival = arrivals.map(|flight| flight.0.0).next();
        let next = timers.chain(arrival).min().unwrap_or(Instant::FAR);
        if next > limit {
            self.now = limit;
            return false;
        }
        self.now = self.now.max(next);
        let mut later = self.wire.split_off(&(self.now.plus_ns(1), 0));
        for (key, flight) in std::mem::take(&mut self.wire) {
            if self.asleep[1 - flight.from] {
                later.insert(key, flight);
            } else {
                self.deliver(&flight);
            }
        }
        self.wire = later;
        true
    }

    fn deliver(&mut self, flight: &Flight) {
        let Flight { from, packed: Packed { bytes, len, messages } } = flight;
        let (host, to) = (self.nodes[*from].addr.host, 1 - from);
        let result = self.nodes[to].engine.handle_datagram(self.now, host, bytes, *len);
        let Ok(received) = result else { return };
        if let Some(new) = received.data {
            self.answer(to, new, messages[0].1);
        }
        if received.is_frame {
            while let Some(framed) = self.nodes[to].engine.next_framed(self.now, bytes) {
                let place = messages.iter().find(|(at, _)| *at == framed.payload.start);
                self.answer(to, framed.arrival, place.expect("a message of the frame").1);
            }
        }
    }

    /// Answers a new message as the host of node `to` is set up to.
    fn answer(&mut self, to: usize, new: Arrival, id: MsgId) {
        let node = &mut self.nodes[to];
        let answer = match node.answer {
            _ if new.qkey != KEY => Answer::Refuse(Reject::BadDestQpn),
            Answer::Mixed => self.rng.answer(),
            Answer::NoReceive if new.op == 0 => Answer::Refuse(Reject::Rnr),
            Answer::NoReceive => Answer::Accept,
            other => other,
        };
        match answer {
            Answer::Accept | Answer::NoReceive | Answer::Mixed => {
                node.engine.accept(self.now, new.peer, new.psn);
                self.check.delivered(to, id.0);
                node.delivered.push(id.0);
            }
            Answer::Refuse(why) => node.engine.reject(self.now, new.peer, new.psn, why),
        }
    }

    pub fn run_ns(&mut self, ns: u64) {
        let limit = self.now.plus_ns(ns);
        while self.step(limit) {}
    }

    /// Runs until every message ended, for at most `ns`. False when some did not.
    pub fn run_until_done(&mut self, ns: u64) -> bool {
        let limit = self.now.plus_ns(ns);
        loop {
            self.turn();
            if self.nodes.iter().all(|node| node.engine.in_flight() == 0) {
                return true;
            }
            if !self.step(limit) {
                return false;
            }
        }
    }

    /// Returns a hash of everything observable so far.
    pub fn digest(&self) -> u64 {
        let mut digest = Rng(self.now.as_ns() ^ self.datagrams);
        let mut add = |value: u64| digest.0 = digest.next() ^ value;
        for node in &self.nodes {
            node.delivered.iter().for_each(|&id| add(id));
            node.completed
                .iter()
                .for_each(|(&id, &status)| add(id << 8 | u64::from(status.code())));
            add(node.engine.stats().tx_datagrams);
        }
        digest.next()
    }
}

impl Node {
    fn new(config: &Config, i: u64, seed: u64) -> Self {
        let addr = Address { host: 100 + i, qpn: 7 + i as u16 };
        let mut engine = Endpoint::new(config.clone(), addr.qpn, Seed::from_u64(seed));
        engine.set_qkey(Some(KEY));
        engine.set_frames(true);
        Self {
            engine,
            addr,
            answer: Answer::Accept,
            delivered: Vec::new(),
            completed: BTreeMap::new(),
            events: Vec::new(),
        }
    }

    fn note(&mut self, event: Event) {
        if let Event::Completed { msg, status, .. } = event {
            let before = self.completed.insert(msg.0, status);
            assert_eq!(before, None, "message {} ended twice", msg.0);
        } else {
            self.events.push(event);
        }
    }

    /// Returns the accepted messages in the order of their identifiers.
    pub fn delivered_sorted(&self) -> Vec<u64> {
        let mut ids = self.delivered.clone();
        ids.sort_unstable();
        ids
    }

    pub fn statuses(&self) -> VecDeque<Status> {
        self.completed.values().copied().collect()
    }
}
