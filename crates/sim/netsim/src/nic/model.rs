//! Two hosts with an adapter each, the threads that run on them, and the time between.

use super::adapter::{Adapter, Effect, Kind, Outcome, Work};
use super::node::Node;
use super::profile::{Api, Profile};
use super::program::{Pairs, Program, Step, Thread};
use super::receive_window::ReceiveWindow;
use crate::id::{PairId, ThreadId};
use crate::rng::Rng;
use crate::time::Time;
use crate::wheel::Wheel;

/// Period within which threads begin at random, so that they do not march in step.
const START_PS: u64 = 20_000_000;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// An adapter begins a round.
    Round { node: Node },
    /// Work reaches an adapter.
    Work { node: Node, work: Work },
    /// A packet is in the memory of a host.
    Received { node: Node, pair: PairId },
    /// Packets of a queue pair are completed on a host.
    Completed { node: Node, pair: PairId, packets: u32 },
    /// A thread resumes.
    Step { thread: ThreadId },
    /// A program has taken a message and posted its receive again.
    Taken { node: Node, pair: PairId },
}

/// Length of the messages of a connection.
#[derive(Clone, Copy, Debug)]
struct MessageSize {
    bytes: u32,
    packets: u32,
}

/// A connection between the two hosts.
#[derive(Clone, Debug)]
struct Pair {
    /// Threads that use it, indexed by node.
    threads: [Option<ThreadId>; 2],
    is_reliable: bool,
    /// Length of its messages, indexed by the node that sends them.
    message: [MessageSize; 2],
    /// Packets of messages that are not whole yet, indexed by node. All messages of a direction are
    /// equally long, so counting tells when one is whole.
    received: [u32; 2],
    /// Packets of messages that are not wholly completed yet, indexed by node.
    completed: [u32; 2],
    /// Receive window where a program may fall behind, with its limit in messages.
    receive_window: Option<(u32, ReceiveWindow)>,
}

/// The model while it runs.
#[derive(Debug)]
pub(super) struct Model<'a> {
    profile: &'a Profile,
    events: Wheel<Event>,
    now: Time,
    rng: Rng,
    adapters: [Adapter; 2],
    pairs: Vec<Pair>,
    threads: Vec<Thread>,
    effects: Vec<Effect>,
    /// Start of the round trip that is measured.
    sent: Time,
    /// Round trips in picoseconds.
    pub(super) round_trips_ps: Vec<u64>,
}

impl<'a> Model<'a> {
    pub(super) fn new(profile: &'a Profile, seed: u64) -> Self {
        Self {
            profile,
            events: Wheel::default(),
            now: Time::ZERO,
            rng: Rng::new(seed),
            adapters: [Adapter::default(), Adapter::default()],
            pairs: Vec::new(),
            threads: Vec::new(),
            effects: Vec::new(),
            sent: Time::ZERO,
            round_trips_ps: Vec::new(),
        }
    }

    /// Adds connections, and returns their numbers.
    pub(super) fn add_pairs(&mut self, count: u32, is_reliable: bool) -> Pairs {
        let first = PairId::at(self.pairs.len());
        let pair = Pair {
            threads: [None; 2],
            is_reliable,
            message: [MessageSize { bytes: 0, packets: 1 }; 2],
            received: [0; 2],
            completed: [0; 2],
            receive_window: None,
        };
        self.pairs.extend(std::iter::repeat_n(pair, count as usize));
        for adapter in &mut self.adapters {
            (0..count).for_each(|_| adapter.add_pair());
        }
        Pairs { first, count }
    }

    /// Adds a thread that uses some connections, and returns its number.
    pub(super) fn add_thread(
        &mut self,
        node: Node,
        program: Program,
        api: &Api,
        pairs: Pairs,
    ) -> ThreadId {
        let thread = ThreadId::at(self.threads.len());
        for pair in pairs.all() {
            self.pairs[pair.index()].threads[node.index()] = Some(thread);
        }
        self.threads.push(Thread::new(node, program, api.clone(), pairs));
        let start = self.now.plus_ps(self.rng.below(START_PS));
        self.events.push(start, Event::Step { thread });
        thread
    }

    /// Adds the program that receives on some connections, if what it takes is what limits a stream
    /// on this adapter.
    pub(super) fn add_sink(&mut self, api: &Api, pairs: Pairs) {
        let Some(ahead) = self.profile.adapter.taken_ahead else { return };
        for pair in pairs.all() {
            self.pairs[pair.index()].receive_window = Some((ahead, ReceiveWindow::default()));
        }
        self.add_thread(Node::Second, Program::Sink, api, pairs);
    }

    /// Returns the number of messages that a thread has completed.
    pub(super) fn completed(&self, thread: ThreadId) -> u64 {
        self.threads[thread.index()].completed
    }

    /// Runs for `ps` more picoseconds.
    pub(super) fn run(&mut self, ps: u64) {
        let end = self.now.plus_ps(ps);
        while let Some((at, event)) = self.events.pop() {
            if at > end {
                self.events.push(at, event);
                break;
            }
            assert!(at >= self.now, "time goes back from {} to {at}", self.now);
            self.now = at;
            self.handle(event);
        }
        self.now = end;
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Round { node } => self.round(node),
            Event::Work { node, work } => self.arrive(node, work),
            Event::Received { node, pair } => self.received(node, pair),
            Event::Completed { node, pair, packets } => self.completed_packets(node, pair, packets),
            Event::Step { thread } => self.step(thread),
            Event::Taken { node, pair } => self.taken(node, pair),
        }
    }

    /// Hands work to an adapter; a packet may find the receiving program too far behind.
    fn arrive(&mut self, node: Node, work: Work) {
        let pair = &mut self.pairs[work.pair.index()];
        let MessageSize { packets, .. } = pair.message[node.other().index()];
        let entering = match (&mut pair.receive_window, work.kind) {
            (Some((ahead, window)), Kind::Receive { .. }) => window.arrive(work, *ahead * packets),
            _ => Some(work),
        };
        if let Some(work) = entering {
            self.add_work(node, work);
        }
    }

    fn taken(&mut self, node: Node, pair: PairId) {
        let pair = &mut self.pairs[pair.index()];
        let MessageSize { packets, .. } = pair.message[node.other().index()];
        let Some((_, window)) = &mut pair.receive_window else { return };
        for work in window.take(packets).collect::<Vec<_>>() {
            self.add_work(node, work);
        }
    }

    fn add_work(&mut self, node: Node, work: Work) {
        let adapter = &mut self.adapters[node.index()];
        if let Some(at) = adapter.add(self.now, work, self.profile, &mut self.rng) {
            self.events.push(at, Event::Round { node });
        }
    }

    fn round(&mut self, node: Node) {
        let mut effects = std::mem::take(&mut self.effects);
        let adapter = &mut self.adapters[node.index()];
        let next = adapter.run_round(self.now, self.profile, &mut self.rng, &mut effects);
        if let Some(next) = next {
            self.events.push(next, Event::Round { node });
        }
        for effect in effects.drain(..) {
            self.apply(node, effect);
        }
        self.effects = effects;
    }

    fn apply(&mut self, node: Node, effect: Effect) {
        let Effect { at, pair, outcome } = effect;
        let there = node.other();
        let path = &self.profile.path;
        let is_reliable = self.pairs[pair.index()].is_reliable;
        match outcome {
            Outcome::Sent { bytes } => {
                let datagram = &self.profile.datagram;
                let (saved, stages) = if is_reliable {
                    (0, self.profile.inner_stages())
                } else {
                    (datagram.saved_ns.ps(), self.profile.inner_stages() - datagram.saved_stages)
                };
                let travel = path.one_way_ns.ps().saturating_sub(saved)
                    + self.profile.staged_ps(stages, bytes)
                    + self.jitter_ps();
                let work = Work { pair, kind: Kind::Receive { bytes } };
                self.events.push(at.plus_ps(travel), Event::Work { node: there, work });
            }
            Outcome::Received => self.events.push(at, Event::Received { node, pair }),
            Outcome::Acknowledge { packets } if is_reliable => {
                let travel = path.acknowledgement_ns.ps() + self.jitter_ps();
                let work = Work { pair, kind: Kind::Complete { packets } };
                self.events.push(at.plus_ps(travel), Event::Work { node: there, work });
            }
            Outcome::Acknowledge { .. } => {}
            Outcome::Completed { packets } => {
                self.events.push(at, Event::Completed { node, pair, packets });
            }
        }
    }

    fn jitter_ps(&mut self) -> u64 {
        (self.rng.exponential() * self.profile.path.jitter_ns.ps_f64()) as u64
    }

    fn received(&mut self, node: Node, pair: PairId) {
        let state = &mut self.pairs[pair.index()];
        let MessageSize { bytes, packets } = state.message[node.other().index()];
        state.received[node.index()] += 1;
        if state.received[node.index()] < packets {
            return;
        }
        state.received[node.index()] = 0;
        if let Some(thread) = state.threads[node.index()] {
            self.threads[thread.index()].receive(pair, bytes, packets);
            self.wake(thread);
        }
    }

    fn completed_packets(&mut self, node: Node, pair: PairId, packets: u32) {
        let state = &mut self.pairs[pair.index()];
        let each = state.message[node.index()].packets;
        let whole = state.completed[node.index()] + packets;
        state.completed[node.index()] = whole % each;
        if let Some(thread) = state.threads[node.index()] {
            self.threads[thread.index()].complete(pair, whole / each);
            self.wake(thread);
        }
    }

    fn wake(&mut self, thread: ThreadId) {
        let state = &mut self.threads[thread.index()];
        if !state.is_busy && state.has_work() {
            state.is_busy = true;
            self.events.push(self.now, Event::Step { thread });
        }
    }

    fn step(&mut self, thread: ThreadId) {
        let state = &mut self.threads[thread.index()];
        let (node, measures) = (state.node, state.measures());
        match state.step() {
            Step::Poll => state.is_busy = false,
            Step::Compute { busy_ps } => {
                self.events.push(self.now.plus_ps(busy_ps), Event::Step { thread });
            }
            Step::Take { pair, busy_ps } => {
                let at = self.now.plus_ps(busy_ps);
                self.events.push(at, Event::Taken { node, pair });
                self.events.push(at, Event::Step { thread });
            }
            Step::Post { pair, bytes, busy_ps, wait_ps } => {
                let fetch_ps = state.fetch_ps(bytes);
                let posted = self.now.plus_ps(busy_ps);
                if measures {
                    self.measure(posted);
                }
                self.post(node, pair, bytes, posted.plus_ps(fetch_ps));
                self.events.push(posted.plus_ps(wait_ps), Event::Step { thread });
            }
        }
    }

    /// Ends a round trip where the next one begins. The first sample is the time before the start.
    fn measure(&mut self, posted: Time) {
        self.round_trips_ps.push(posted.ps_since(self.sent));
        self.sent = posted;
    }

    fn post(&mut self, node: Node, pair: PairId, bytes: u32, posted: Time) {
        let mtu = self.profile.link.mtu_bytes;
        let packets = bytes.div_ceil(mtu).max(1);
        self.pairs[pair.index()].message[node.index()] = MessageSize { bytes, packets };
        for index in 0..packets {
            let length = (bytes - index * mtu).min(mtu);
            let work = Work { pair, kind: Kind::Send { bytes: length } };
            self.events.push(posted, Event::Work { node, work });
        }
    }
}
