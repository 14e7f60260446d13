//! The contract: everything a host calls.

use crate::{
    Address, Config, DropReason, Event, HEADER_MAX, Instant, Message, PathId, PathStats, PeerId,
    Psn, Received, Reject, SendError, Stats, Transmit,
};

/// One queue pair's half of the protocol.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
    qpn: u16,
    stats: Stats,
}

impl Endpoint {
    /// An endpoint for queue pair `qpn`.
    ///
    /// `epoch` must be larger for each later endpoint of the same address (wall-clock nanoseconds
    /// serve): it lets a remote side tell a restarted sender from an old datagram. `seed` feeds
    /// the connection tokens and all random choices; give it entropy where strangers can send
    /// datagrams.
    #[must_use]
    pub fn new(config: Config, qpn: u16, _epoch: u64, _seed: u64) -> Self {
        Self { config, qpn, stats: Stats::default() }
    }

    /// The queue pair number given to [`Endpoint::new`].
    #[must_use]
    pub fn qpn(&self) -> u16 {
        self.qpn
    }

    /// The settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Finds or makes the context toward `addr`. Cheap; sends nothing.
    pub fn peer(&mut self, _now: Instant, _addr: Address) -> PeerId {
        PeerId { index: 0, generation: 0 }
    }

    /// The address of a peer, `None` when it was collected.
    #[must_use]
    pub fn address(&self, _peer: PeerId) -> Option<Address> {
        None
    }

    /// Queues a message. Call [`Endpoint::poll_transmit`] afterwards.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued then.
    pub fn send(&mut self, _now: Instant, _peer: PeerId, _msg: Message) -> Result<(), SendError> {
        Err(SendError::StalePeer)
    }

    /// Takes a datagram from `from_host`. `header` holds at least its protocol headers and may
    /// hold all of it; `datagram_len` is its full length in bytes.
    ///
    /// When the result names an [`Arrival`](crate::Arrival), answer it with [`Endpoint::accept`]
    /// or [`Endpoint::reject`] before any other call; a message not answered counts as never
    /// received. Call [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] after a batch.
    ///
    /// # Errors
    /// The reason why the datagram was not used; it was counted, and nothing else need be done.
    pub fn handle_datagram(
        &mut self,
        _now: Instant,
        _from_host: u64,
        _header: &[u8],
        _datagram_len: usize,
    ) -> Result<Received, DropReason> {
        Err(DropReason::Kind)
    }

    /// Takes the message: it is acknowledged and never delivered again.
    pub fn accept(&mut self, _now: Instant, _peer: PeerId, _psn: Psn) {}

    /// Refuses the message. After [`Reject::Rnr`] the sender may try the same one again; after
    /// any other refusal (and after the sender's last permitted try) it never arrives again.
    pub fn reject(&mut self, _now: Instant, _peer: PeerId, _psn: Psn, _why: Reject) {}

    /// Takes the news that a datagram of ours found nobody (ICMP port unreachable). `header` is
    /// the start of that datagram as quoted. Its peer's messages end with status 9.
    pub fn handle_unreachable(&mut self, _now: Instant, _header: &[u8]) {}

    /// Ends all messages to `peer` with status 1 (its address handle was destroyed). Messages
    /// from it are still taken.
    pub fn cancel_peer(&mut self, _now: Instant, _peer: PeerId) {}

    /// Does what is due. Call when [`Endpoint::poll_timeout`] has passed (earlier is harmless),
    /// then [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`].
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// When [`Endpoint::handle_timeout`] must be called next; `None` when nothing waits for time.
    /// Ask again after any other call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Makes every held acknowledgement due at once. Call when the turn's sends are done and
    /// the host does not expect to send soon; costs nothing when none is held.
    pub fn flush_acks(&mut self, _now: Instant) {}

    /// The next datagram to send now. Call until it returns `None`, after every other call that
    /// takes `&mut self`.
    pub fn poll_transmit(
        &mut self,
        _now: Instant,
        _header: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        None
    }

    /// The next event. Call until it returns `None`, after every batch of other calls.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// The queue pair is destroyed: its outgoing messages are dropped without events. What was
    /// accepted is still acknowledged when it is repeated; new messages are refused with 9.
    /// Keep calling the other methods for a few retransmission times.
    pub fn begin_close(&mut self, _now: Instant) {}

    /// Makes one more acknowledgement due for each peer that lately sent something. Hosts repeat
    /// it before they exit, because nobody will answer a repetition later.
    pub fn final_acks(&mut self, _now: Instant) {}

    /// Nothing is queued, in flight, or waiting to be acknowledged.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        true
    }

    /// Messages given to `send` that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        0
    }

    /// [`Endpoint::poll_transmit`] may have something to send now.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        false
    }

    /// Counters since the endpoint was made.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// What is known of a path toward `peer`; `None` when nothing was sent over it yet.
    #[must_use]
    pub fn path_stats(&self, _peer: PeerId, _path: PathId) -> Option<PathStats> {
        None
    }
}
