//! One endpoint, one peer, set up in named phases.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::address::{AddressVector, Peer};
use crate::buffers::Buffers;
use crate::cq::Completion;
use crate::domain::Domain;
use crate::endpoint::{Endpoint, EndpointConfig};
use crate::error::Error;
use crate::fabric_root::Fabric;
use crate::hints::Hints;
use crate::info::Info;
use crate::post::Post;
use crate::window::Window;

/// The second channel between the two nodes (usually TCP) that set-up needs.
pub trait OutOfBand {
    /// Gives the peer our address and returns the peer's.
    ///
    /// # Errors
    /// Returns a text that says what went wrong.
    fn exchange(&mut self, address: &[u8]) -> Result<Vec<u8>, String>;

    /// Returns when the peer has called it, too.
    ///
    /// # Errors
    /// Returns a text that says what went wrong.
    fn barrier(&mut self) -> Result<(), String>;
}

/// The parts and sizes that a node is made with.
#[derive(Debug, Clone, Default)]
pub struct NodeConfig {
    /// Hints that choose the fabric.
    pub hints: Hints,
    /// Number of sends that may be in flight; their slots are `0..tx_slots`. 0 means the provider's
    /// depth.
    pub tx_slots: usize,
    /// Number of further slots to send, write or read with; they follow those of the sends that may
    /// be in flight at once.
    pub spare_slots: usize,
    /// Number of receives that may be posted; their slots come last. 0 means the provider's depth.
    pub rx_slots: usize,
    /// Longest message in bytes.
    pub payload_bytes: usize,
    /// Whether a program can sleep for completions ([`Endpoint::events`]).
    pub events: bool,
}

/// The time that one phase of set-up took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PhaseTime {
    /// Name of the phase as in the thesis' figure 3.1.
    pub phase: &'static str,
    /// Its duration.
    pub took: Duration,
}

/// The local half of a connected pair.
#[derive(Debug)]
pub struct Node {
    endpoint: Endpoint,
    domain: Domain,
    peer: Peer,
    info: Info,
    tx_slots: usize,
    spare_slots: usize,
    rx_slots: usize,
    phases: Vec<PhaseTime>,
}

impl Node {
    /// Runs all phases; returns when the peer's node is ready as well.
    ///
    /// # Errors
    /// Returns the error of the phase that failed.
    pub fn set_up(config: &NodeConfig, oob: &mut dyn OutOfBand) -> Result<Self, Error> {
        Self::prepare(config)?.connect(oob)
    }

    /// Runs the local phases only: nothing is exchanged yet, so that a server can refuse a fabric
    /// it does not have before its peer waits for it.
    ///
    /// # Errors
    /// Returns the error of the phase that failed.
    pub fn prepare(config: &NodeConfig) -> Result<Prepared, Error> {
        let mut clock = PhaseClock::start();
        let info = Info::find_usual(&config.hints)?;
        clock.done("get_fabric_info");
        let depth = |asked: usize, limit: usize| if asked == 0 { limit } else { asked.min(limit) };
        let tx_slots = depth(config.tx_slots, info.tx_depth());
        let rx_slots = depth(config.rx_slots, info.rx_depth());
        let spare_slots = config.spare_slots;
        let fabric = Fabric::open(&info)?;
        let domain = Domain::open(&fabric, &info)?;
        let av = AddressVector::open(&domain, 1)?;
        clock.done("open_fabric_res");
        let config = EndpointConfig {
            messages: config.hints.messages,
            features: config.hints.features,
            events: config.events,
            slots: tx_slots + spare_slots + rx_slots,
            payload_bytes: config.payload_bytes,
        };
        let endpoint = Endpoint::open(&domain, &info, &av, &config)?;
        clock.done("enable_endpoint");
        Ok(Prepared { endpoint, domain, av, info, tx_slots, spare_slots, rx_slots, clock })
    }

    /// Returns the fabric in use.
    #[must_use]
    pub const fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the number of sends that may be in flight; their slots are `0..tx_slots() +
    /// spare_slots()`.
    #[must_use]
    pub const fn tx_slots(&self) -> usize {
        self.tx_slots
    }

    /// Returns [`NodeConfig::spare_slots`].
    #[must_use]
    pub const fn spare_slots(&self) -> usize {
        self.spare_slots
    }

    /// Returns the number of receives that may be posted. They have the last slots, after those for
    /// sending.
    #[must_use]
    pub const fn rx_slots(&self) -> usize {
        self.rx_slots
    }

    /// Returns the durations of the set-up phases.
    #[must_use]
    pub fn phases(&self) -> &[PhaseTime] {
        &self.phases
    }

    /// Returns the other half of the pair.
    #[must_use]
    pub const fn peer(&self) -> Peer {
        self.peer
    }

    /// Returns the endpoint, for what a node does not do itself: RMA, atomics, several peers.
    pub const fn endpoint_mut(&mut self) -> &mut Endpoint {
        &mut self.endpoint
    }

    /// Returns the descriptor to sleep on; see [`Endpoint::events`].
    ///
    /// # Errors
    /// Fails as [`Endpoint::events`] does.
    pub fn events(&self) -> Result<Option<BorrowedFd<'_>>, Error> {
        self.endpoint.events()
    }

    /// Opens memory that the peer may read and write ([`Features::RMA`](crate::Features::RMA)).
    ///
    /// # Errors
    /// Fails as [`Window::open`] does.
    pub fn open_window(&self, len_bytes: usize) -> Result<Window, Error> {
        Window::open(&self.domain, &self.info, len_bytes)
    }

    /// Returns the message memory.
    #[must_use]
    pub fn buffers(&self) -> &Buffers {
        self.endpoint.buffers()
    }

    /// Returns the message memory, to fill free slots.
    pub fn buffers_mut(&mut self) -> &mut Buffers {
        self.endpoint.buffers_mut()
    }

    /// Posts a send to the peer; see [`Endpoint::send`].
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    #[inline]
    pub fn post_send(&mut self, slot: usize, len_bytes: usize, tag: u64) -> Result<Post, Error> {
        self.endpoint.send(slot, len_bytes, self.peer, tag)
    }

    /// Injects a message to the peer; see [`Endpoint::inject`].
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    #[inline]
    pub fn inject(&mut self, slot: usize, len_bytes: usize, tag: u64) -> Result<Post, Error> {
        self.endpoint.inject(slot, len_bytes, self.peer, tag)
    }

    /// Posts a receive; see [`Endpoint::receive`].
    ///
    /// # Errors
    /// Fails as [`Endpoint::send`] does.
    #[inline]
    pub fn post_receive(&mut self, slot: usize, tag: u64, ignore: u64) -> Result<Post, Error> {
        self.endpoint.receive(slot, tag, ignore)
    }

    /// Collects completions; see [`Endpoint::poll`].
    ///
    /// # Errors
    /// Fails as [`Endpoint::poll`] does.
    #[inline]
    pub fn poll(&mut self, out: &mut [Completion]) -> Result<usize, Error> {
        self.endpoint.poll(out)
    }
}

/// A node whose local phases are done; [`Prepared::connect`] does the others.
#[derive(Debug)]
pub struct Prepared {
    endpoint: Endpoint,
    domain: Domain,
    av: std::rc::Rc<AddressVector>,
    info: Info,
    tx_slots: usize,
    spare_slots: usize,
    rx_slots: usize,
    clock: PhaseClock,
}

impl Prepared {
    /// Returns the fabric that was chosen.
    #[must_use]
    pub const fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the endpoint, to ask what it can do.
    #[must_use]
    pub const fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Exchanges addresses and waits for the peer.
    ///
    /// # Errors
    /// Returns [`Error::OutOfBand`], or the error of the address vector.
    pub fn connect(self, oob: &mut dyn OutOfBand) -> Result<Node, Error> {
        let Self { endpoint, domain, av, info, tx_slots, spare_slots, rx_slots, mut clock } = self;
        clock.restart();
        let theirs = oob.exchange(&endpoint.address()?).map_err(Error::OutOfBand)?;
        clock.done("address_exchange");
        let peer = av.insert(&theirs)?;
        clock.done("init_address_vector");
        oob.barrier().map_err(Error::OutOfBand)?;
        clock.done("sync");
        let phases = clock.phases;
        Ok(Node { endpoint, domain, peer, info, tx_slots, spare_slots, rx_slots, phases })
    }
}

#[derive(Debug)]
struct PhaseClock {
    started: Instant,
    phases: Vec<PhaseTime>,
}

impl PhaseClock {
    fn start() -> Self {
        Self { started: Instant::now(), phases: Vec::new() }
    }

    fn restart(&mut self) {
        self.started = Instant::now();
    }

    fn done(&mut self, phase: &'static str) {
        let now = Instant::now();
        self.phases.push(PhaseTime { phase, took: now - self.started });
        self.started = now;
    }
}
