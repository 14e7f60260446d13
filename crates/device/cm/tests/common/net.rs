//! `Net`: agents, virtual time, and a network that loses, duplicates and reorders.

use super::Rng;
use cm::mad::{IpHeader, Mad, Message};
use cm::{
    Agent, Config, ConnId, ConnectParams, Event, ListenParams, ListenerId, Offer, Path, Route,
    Seed, Transmit, Transport,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

pub const SERVICE: u64 = 0x0106_0000 + 7471;
pub const MS: Duration = Duration::from_millis(1);
/// How long requests are repeated to a port without a listener.
pub const NO_LISTENER_WAIT: Duration = Duration::from_millis(200);

/// Faults in parts per thousand.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub loss: u64,
    pub duplicate: u64,
    pub reorder: u64,
}

pub struct Net {
    pub now: Duration,
    pub agents: Vec<Agent>,
    pub faults: Faults,
    /// Kinds of messages (attributes) that are lost on the way, and how many of each.
    pub lose: BTreeMap<u16, usize>,
    /// Attributes of the messages that were sent, with their senders.
    pub sent: Vec<(usize, u16)>,
    pub rng: Rng,
    flying: BTreeMap<(Duration, u64), Transmit>,
    serial: u64,
}

/// The address of agent `i`.
pub fn address(i: usize) -> SocketAddr {
    SocketAddr::new(IpAddr::from([10, 0, 0, i as u8 + 1]), 4000 + i as u16)
}

pub fn route(from: usize, to: usize) -> Route {
    Route { local: address(from).ip(), peer: address(to) }
}

pub fn offer(qpn: u32) -> Offer {
    Offer {
        ca_guid: 0xABC,
        qpn,
        responder_resources: 4,
        initiator_depth: 3,
        flow_control: false,
        retry_count: 6,
        rnr_retry_count: 5,
        srq: false,
    }
}

impl Net {
    pub fn new(agents: usize, seed: u64) -> Self {
        Self::with(agents, seed, &Config::default())
    }

    /// Like [`Net::new`], with agents that send no keepalives.
    pub fn quiet(agents: usize, seed: u64) -> Self {
        Self::with(agents, seed, &Config { keepalive: Duration::ZERO, ..Config::default() })
    }

    pub fn with(agents: usize, seed: u64, config: &Config) -> Self {
        let agent = |i| Agent::new(config.clone(), Seed::from_u64(seed << 8 | i as u64));
        Self {
            now: Duration::from_secs(1),
            agents: (0..agents).map(agent).collect(),
            faults: Faults::default(),
            lose: BTreeMap::new(),
            sent: Vec::new(),
            rng: Rng::new(seed),
            flying: BTreeMap::new(),
            serial: 0,
        }
    }

    pub fn listen(&mut self, i: usize, backlog: usize) -> ListenerId {
        let address = Some(address(i).ip());
        let params = ListenParams { service_id: SERVICE, address, is_datagram: false, backlog };
        self.agents[i].listen(params).expect("what a test does is allowed")
    }

    pub fn connect(&mut self, from: usize, to: usize, qpn: u32, private_data: &[u8]) -> ConnId {
        let addresses = IpHeader {
            source: address(from).ip(),
            source_port: 50_000,
            destination: address(to).ip(),
        };
        let path = Path { pkey: 0xFFFF, mtu: 3, hop_limit: 64, ..Path::default() };
        let params = ConnectParams {
            service_id: SERVICE,
            addresses: Some(addresses),
            transport: Transport::Rc,
            offer: Offer { ca_guid: 0xA00 + from as u64, ..offer(qpn) },
            path,
            private_data,
        };
        self.agents[from]
            .connect(self.now, route(from, to), &params)
            .expect("what a test does is allowed")
    }

    /// Puts the agents' messages on the network.
    pub fn send_all(&mut self) {
        for i in 0..self.agents.len() {
            while let Some(transmit) = self.agents[i].poll_transmit() {
                let attribute = u16::from_be_bytes([transmit.bytes[16], transmit.bytes[17]]);
                self.sent.push((i, attribute));
                assert_eq!(transmit.route.local, address(i).ip(), "leaves from its own address");
                self.fly(attribute, transmit);
            }
        }
    }

    fn fly(&mut self, attribute: u16, transmit: Transmit) {
        if let Some(left @ 1..) = self.lose.get_mut(&attribute) {
            *left -= 1;
            return;
        }
        if self.rng.permille(self.faults.loss) {
            return;
        }
        let copies = 1 + u64::from(self.rng.permille(self.faults.duplicate));
        for _ in 0..copies {
            let late = if self.rng.permille(self.faults.reorder) { self.rng.below(200) } else { 0 };
            self.serial += 1;
            let at = self.now + Duration::from_micros(10) + MS * late as u32;
            self.flying.insert((at, self.serial), transmit);
        }
    }

    /// Returns the time of the next event.
    pub fn next(&mut self) -> Option<Duration> {
        self.send_all();
        let arrival = self.flying.first_key_value().map(|(&(at, _), _)| at);
        let timers = self.agents.iter().filter_map(Agent::poll_timeout);
        timers.chain(arrival).min()
    }

    /// Advances to the next event, if it is not after `until`.
    pub fn step(&mut self, until: Duration) -> bool {
        let Some(next) = self.next().filter(|&at| at <= until) else {
            self.now = self.now.max(until);
            return false;
        };
        self.now = self.now.max(next);
        let due = self.flying.first_key_value().filter(|((at, _), _)| *at <= self.now);
        if let Some((&key, _)) = due {
            let transmit = self.flying.remove(&key).expect("what a test does is allowed");
            self.deliver(&transmit);
        }
        for agent in &mut self.agents {
            if agent.poll_timeout().is_some_and(|at| at <= self.now) {
                agent.handle_timeout(self.now);
            }
        }
        true
    }

    pub fn deliver(&mut self, transmit: &Transmit) {
        let from = (0..self.agents.len()).find(|&i| address(i).ip() == transmit.route.local);
        let to = (0..self.agents.len()).find(|&i| address(i) == transmit.route.peer);
        if let (Some(from), Some(to)) = (from, to) {
            let _ = self.agents[to].handle_mad(self.now, route(to, from), &transmit.bytes);
        }
    }

    pub fn run(&mut self, time: Duration) {
        let until = self.now + time;
        while self.step(until) {}
    }

    pub fn events(&mut self, i: usize) -> Vec<Event> {
        core::iter::from_fn(|| self.agents[i].poll_event()).collect()
    }

    /// Returns the only event of an agent.
    pub fn event(&mut self, i: usize) -> Event {
        let mut events = self.events(i);
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub fn nothing(&mut self, i: usize) {
        let events = self.events(i);
        assert!(events.is_empty(), "{events:?}");
    }

    /// Returns how many messages of a kind an agent has sent.
    pub fn sent(&self, i: usize, attribute: u16) -> usize {
        self.sent.iter().filter(|&&sent| sent == (i, attribute)).count()
    }

    /// Takes the next message of an agent off the network.
    pub fn tap(&mut self, i: usize) -> Mad {
        Mad::parse(&self.agents[i].poll_transmit().expect("a message").bytes)
            .expect("what a test does is allowed")
    }

    /// Delivers a message to an agent as if another had sent it.
    pub fn forge(
        &mut self,
        from: usize,
        to: usize,
        transaction_id: u64,
        message: Message,
    ) -> Result<(), cm::DropReason> {
        let bytes = Mad { transaction_id, message }.emit();
        self.agents[to].handle_mad(self.now, route(to, from), &bytes)
    }

    /// Agent 0 requests a connection from agent 1, which has the event.
    pub fn requested(&mut self) -> (ConnId, ConnId) {
        self.listen(1, 8);
        let ours = self.connect(0, 1, 0x100, b"hello");
        self.run(MS);
        let Event::Requested { conn, .. } = self.event(1) else { panic!("no request") };
        (ours, conn)
    }

    /// Agent 0 is connected to agent 1, which listens already, by the `nth` queue pair of each.
    pub fn established_again(&mut self, nth: u32) {
        let ours = self.connect(0, 1, 0x100 + nth, &[]);
        self.run(MS);
        let Event::Requested { conn: theirs, .. } = self.event(1) else { panic!("no request") };
        self.agents[1]
            .accept(self.now, theirs, offer(0x200 + nth), &[])
            .expect("what a test does is allowed");
        self.run(MS);
        self.agents[0].ready(self.now, ours).expect("what a test does is allowed");
        self.run(MS);
        self.events(0);
        self.events(1);
    }

    /// Agent 0 is connected to agent 1.
    pub fn established(&mut self) -> (ConnId, ConnId) {
        let (ours, theirs) = self.requested();
        self.agents[1]
            .accept(self.now, theirs, offer(0x200), b"welcome")
            .expect("what a test does is allowed");
        self.run(MS);
        assert!(matches!(self.event(0), Event::Accepted { conn, .. } if conn == ours));
        self.agents[0].ready(self.now, ours).expect("what a test does is allowed");
        self.run(MS);
        assert_eq!(self.event(1), Event::Established { conn: theirs });
        (ours, theirs)
    }

    /// Asserts that every table is empty and no timer runs.
    pub fn assert_nothing_is_left(&mut self) {
        assert_eq!(self.next(), None, "something is under way");
        for agent in &self.agents {
            assert_eq!((agent.connections(), agent.half_open()), (0, 0));
            assert_eq!(agent.poll_timeout(), None);
        }
    }
}
