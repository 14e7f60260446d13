//! The public API of the endpoint: everything that a host calls. The algorithms are elsewhere.

mod control;
mod frame;
mod guesses;
mod receive;
mod strangers;
mod table;
mod transmit;
mod upkeep;

use crate::context::Context;
use crate::hint::FairShare;
use crate::peer::Peer;
use crate::rng::Rng;
use crate::secret::{Secret, Seed};
use crate::timer::TimerQueue;
use crate::{
    Address, Config, DropReason, Event, Framed, HEADER_MAX, Instant, Message, MsgId, PathId,
    PathStats, PeerId, Psn, Received, Reject, SendError, Stats, Transmit,
};
use std::collections::VecDeque;
use std::sync::Arc;
use table::PeerTable;

/// `final_acks` repeats the acknowledgements for peers that sent something within this time.
const FINAL_ACKS_RECENT_NS: u64 = 2_000_000_000;
/// `path_totals` adds up at most this many peers.
const PATH_TOTALS_PEERS_MAX: usize = 64;

/// One queue pair's half of the protocol.
#[derive(Debug)]
pub struct Endpoint {
    qpn: u16,
    /// The queue key that openers must send; `None` accepts any.
    qkey: Option<u32>,
    closing: bool,
    shared: Shared,
    peers: PeerTable,
    /// Peers that may have something to transmit, in round-robin order.
    ready: VecDeque<u32>,
    /// Packets that the first peer in `ready` may still send in its turn.
    turn_left: u32,
    /// Peers with a held acknowledgement; some may have sent it since.
    held: Vec<u32>,
    timers: TimerQueue,
    share: FairShare,
    answers: strangers::Answers,
    guesses: guesses::Guesses,
    /// The number of refusals that memory is allocated for, as of the last growth or sweep.
    ranges: usize,
    /// The new message that the host has yet to accept or reject.
    arrival: Option<receive::Unanswered>,
    /// The frame whose messages the host is taking.
    frame: Option<frame::OpenFrame>,
    sweep_at: Instant,
    /// The time at which the host last came back from a standstill.
    awake_since: Instant,
    /// Where the next step of the sweep begins.
    sweep_from: u32,
}

/// State that all peers share.
#[derive(Debug)]
struct Shared {
    /// The settings, shared by all endpoints of a host so that thousands of them keep one copy in
    /// the cache.
    config: Arc<Config>,
    stats: Stats,
    events: VecDeque<Event>,
    rng: Rng,
    secret: Secret,
    open_messages: usize,
    has_frames: bool,
    /// The messages of the frame that was transmitted last.
    framed: Vec<Message>,
}

impl Shared {
    #[inline]
    fn context(&mut self, now: Instant, peer: PeerId) -> Context<'_> {
        Context {
            now,
            peer,
            config: &self.config,
            stats: &mut self.stats,
            events: &mut self.events,
            rng: &mut self.rng,
            secret: &self.secret,
            open_messages: &mut self.open_messages,
            has_frames: self.has_frames,
            frame: &mut self.framed,
        }
    }
}

impl Endpoint {
    /// Creates an endpoint for queue pair `qpn`.
    ///
    /// `seed` supplies everything that strangers must not guess and all random choices; its numbers
    /// must never have been used before. Endpoints with the same settings can share them ([`Arc`]).
    #[must_use]
    pub fn new(config: impl Into<Arc<Config>>, qpn: u16, seed: Seed) -> Self {
        let (rng, secret) = (seed.rng(), seed.secret());
        let peers = PeerTable::new(secret.table_key());
        Self {
            qpn,
            qkey: None,
            closing: false,
            shared: Shared {
                config: config.into(),
                stats: Stats::default(),
                events: VecDeque::new(),
                rng,
                secret,
                open_messages: 0,
                has_frames: false,
                framed: Vec::new(),
            },
            peers,
            ready: VecDeque::new(),
            turn_left: 0,
            held: Vec::new(),
            timers: TimerQueue::default(),
            share: FairShare::default(),
            answers: strangers::Answers::default(),
            guesses: guesses::Guesses::default(),
            ranges: 0,
            arrival: None,
            frame: None,
            sweep_at: Instant::ZERO,
            awake_since: Instant::ZERO,
            sweep_from: 0,
        }
    }

    /// The queue pair number given to [`Endpoint::new`].
    #[must_use]
    pub fn qpn(&self) -> u16 {
        self.qpn
    }

    /// Sets the queue key that a peer must name when it opens a connection (SRD-3.9). `None`, the
    /// initial setting, accepts any. Messages on open connections are checked by the host.
    pub fn set_qkey(&mut self, qkey: Option<u32>) {
        self.qkey = qkey;
        self.guesses.forget_keys();
    }

    /// Allows messages with [`Message::may_share`] to leave in frames, to peers that announced
    /// support for frames, and announces the same to peers (SRD-14). Off at first.
    pub fn set_frames(&mut self, on: bool) {
        self.shared.has_frames = on;
    }

    /// Reports that the network cannot carry a frame for `peer` that [`Endpoint::poll_transmit`]
    /// returned. The frame counts as lost, and on this connection each message leaves alone from
    /// now on.
    pub fn refuse_frames(&mut self, peer: PeerId) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.send.refuse_frames();
        }
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Finds or makes the context toward `addr`. Cheap; sends nothing. Ask again when
    /// [`Endpoint::send`] says [`SendError::StalePeer`].
    pub fn peer(&mut self, now: Instant, addr: Address) -> PeerId {
        let index = self.find_or_make(now, addr);
        #[expect(clippy::expect_used, reason = "the line above found or made it")]
        self.peers.by_index_mut(index).map(|peer| peer.id).expect("the peer exists")
    }

    /// The address of a peer, `None` when it was collected.
    #[must_use]
    pub fn address(&self, peer: PeerId) -> Option<Address> {
        self.peers.get(peer).map(|peer| peer.addr)
    }

    /// Queues a message. Call [`Endpoint::poll_transmit`] afterwards.
    ///
    /// # Errors
    /// See [`SendError`]; nothing was queued then.
    #[inline]
    pub fn send(&mut self, _now: Instant, peer: PeerId, msg: Message) -> Result<(), SendError> {
        let config = &self.shared.config;
        if msg.len > config.max_message_bytes.min(65_000) {
            return Err(SendError::TooLong);
        }
        if msg.rnr_retry > 7 {
            return Err(SendError::BadRnrRetry);
        }
        if self.closing {
            return Err(SendError::Closing);
        }
        let peer = self.peers.get_mut(peer).ok_or(SendError::StalePeer)?;
        if peer.send.len() >= config.queue_messages_max {
            return Err(SendError::QueueFull);
        }
        peer.send.enqueue(msg);
        self.shared.open_messages += 1;
        make_ready(&mut self.ready, peer);
        Ok(())
    }

    /// Handles a datagram from `from_host`. `header` holds at least its protocol headers, which in
    /// a frame are the whole datagram, and may hold all of it; `datagram_len` is its full length in
    /// bytes.
    ///
    /// When the result names an [`Arrival`](crate::Arrival), answer it with [`Endpoint::accept`] or
    /// [`Endpoint::reject`] before the next datagram; a message not answered by then counts as
    /// never received. (Sending in between is fine: an answer may be on its way before it.) Call
    /// [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] after a batch.
    ///
    /// # Errors
    /// The reason why the datagram was not used; it was counted, and nothing else need be done
    /// (an answer may be waiting in [`Endpoint::poll_transmit`]).
    #[inline]
    pub fn handle_datagram(
        &mut self,
        now: Instant,
        from_host: u64,
        header: &[u8],
        datagram_len: usize,
    ) -> Result<Received, DropReason> {
        let result = self.receive(now, from_host, header, datagram_len);
        match &result {
            Ok(_) => self.shared.stats.rx_datagrams += 1,
            Err(reason) => self.shared.stats.dropped[*reason as usize] += 1,
        }
        result
    }

    /// Returns the next message of the frame that [`Endpoint::handle_datagram`] has just found in
    /// `datagram`; answer it like any other. Call until it returns `None`, before the next
    /// datagram: messages that were not fetched by then count as never received.
    #[inline]
    pub fn next_framed(&mut self, now: Instant, datagram: &[u8]) -> Option<Framed> {
        self.next_frame_message(now, datagram)
    }

    /// Takes the message: it is acknowledged and never delivered again.
    #[inline]
    pub fn accept(&mut self, now: Instant, peer: PeerId, psn: Psn) {
        self.answer(now, peer, psn, None);
    }

    /// Refuses the message. After [`Reject::Rnr`] the sender may try the same one again; after
    /// any other refusal (and after the sender's last permitted try) it never arrives again.
    pub fn reject(&mut self, now: Instant, peer: PeerId, psn: Psn, why: Reject) {
        self.answer(now, peer, psn, Some(why));
    }

    /// Handles the report that a datagram of ours reached no receiver (ICMP port unreachable).
    /// `header` is the start of that datagram as quoted. Its peer's messages end with status 9;
    /// call [`Endpoint::poll_event`].
    pub fn handle_unreachable(&mut self, now: Instant, header: &[u8]) {
        self.unreachable(now, header);
    }

    /// Handles the host's own knowledge that no queue pair is at `addr`: as
    /// [`Endpoint::handle_unreachable`], if something was sent there. Call
    /// [`Endpoint::poll_event`].
    pub fn peer_unreachable(&mut self, now: Instant, addr: Address) {
        self.unreachable_at(now, addr);
    }

    /// Ends all messages to `peer` with status 1 (its address handle was destroyed). Messages
    /// from it are still taken. Call [`Endpoint::poll_event`].
    pub fn cancel_peer(&mut self, now: Instant, peer: PeerId) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.send.cancel(&mut self.shared.context(now, peer));
        }
    }

    /// Gives up message `msg` to `peer`, which [`Endpoint::poll_transmit`] named: the host cannot
    /// supply its bytes (any more). It ends with status 1; an earlier transmission may have been
    /// delivered. Takes time in proportion to what is in flight. Call [`Endpoint::poll_event`].
    pub fn withdraw(&mut self, now: Instant, peer: PeerId, msg: MsgId) {
        if let Some(entry) = self.peers.get_mut(peer) {
            entry.send.withdraw(msg, &mut self.shared.context(now, peer));
        }
    }

    /// Does what is due. Call when [`Endpoint::poll_timeout`] has passed (earlier is harmless),
    /// then [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`].
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(index) = self.timers.pop_due(now) {
            let Some(peer) = self.peers.by_index_mut(index) else { continue };
            if peer.recv.ack_deadline().is_some_and(|at| at <= now) {
                peer.recv.release_ack();
            }
            peer.send.on_timeout(&mut self.shared.context(now, peer.id));
            if peer.send.has_work() || peer.recv.ack_due() {
                make_ready(&mut self.ready, peer);
            }
            self.arm(now, index);
        }
        if self.peers.len() > 0 && self.sweep_at <= now {
            self.sweep(now);
        }
    }

    /// Returns when [`Endpoint::handle_timeout`] must be called next; `None` when nothing waits for
    /// time. It may name an instant at which nothing turns out to be due. Ask again after any other
    /// call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.peers.len() == 0 {
            return None;
        }
        Some(self.timers.next().map_or(self.sweep_at, |at| at.min(self.sweep_at)))
    }

    /// Makes every held acknowledgement due at once. Call when the turn's sends are done and
    /// the host does not expect to send soon, before [`Endpoint::poll_transmit`]; costs nothing
    /// when none is held.
    pub fn flush_acks(&mut self, _now: Instant) {
        while let Some(index) = self.held.pop() {
            let Some(peer) = self.peers.by_index_mut(index) else { continue };
            peer.is_held = false;
            if peer.recv.ack_wanted() {
                peer.recv.release_ack();
                make_ready(&mut self.ready, peer);
            }
        }
    }

    /// The next datagram to send now. Call until it returns `None`, after every other call that
    /// takes `&mut self`. It may be interrupted (a full socket) and resumed later.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        self.next_datagram(now, header)
    }

    /// The messages of the frame that [`Endpoint::poll_transmit`] returned last, in the order of
    /// their numbers: each has its [`FrameEntry`](crate::wire::FrameEntry) and its bytes behind the
    /// header.
    #[must_use]
    #[inline]
    pub fn framed(&self) -> &[Message] {
        &self.shared.framed
    }

    /// The next event. Call until it returns `None`, after every batch of other calls.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// Begins to close the endpoint, because its queue pair is destroyed: outgoing messages are
    /// dropped without events. Accepted messages are still acknowledged when they are repeated; new
    /// messages are refused with status 9. Keep calling the other methods for a few retransmission
    /// timeouts.
    pub fn begin_close(&mut self, now: Instant) {
        self.closing = true;
        self.arrival = None;
        self.end_frame(now);
        self.shared.events.clear();
        for index in 0..self.peers.end() {
            if let Some(peer) = self.peers.by_index_mut(index) {
                self.shared.open_messages -= peer.send.abandon();
            }
        }
        assert_eq!(self.shared.open_messages, 0, "every open message belongs to a peer");
    }

    /// Makes one more acknowledgement due for each peer that sent something lately. Hosts repeat it
    /// before they exit, because nothing will answer a repetition later. Call
    /// [`Endpoint::poll_transmit`] afterwards.
    pub fn final_acks(&mut self, now: Instant) {
        let since = Instant::from_ns(now.as_ns().saturating_sub(FINAL_ACKS_RECENT_NS));
        for index in 0..self.peers.end() {
            let Some(peer) = self.peers.by_index_mut(index) else { continue };
            if peer.recv.repeat_ack(since) {
                make_ready(&mut self.ready, peer);
            }
        }
    }

    /// Returns whether nothing is queued, in flight, or waiting to be acknowledged.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        let mut held = self.held.iter().filter_map(|&index| self.peers.by_index(index));
        self.shared.open_messages == 0
            && !self.has_backlog()
            && !held.any(|peer| peer.recv.ack_wanted())
    }

    /// Returns the number of messages given to `send` that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.shared.open_messages
    }

    /// Returns whether [`Endpoint::poll_transmit`] may have something to send now.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.ready.is_empty() || !self.answers.is_empty()
    }

    /// Returns the counters since the endpoint was created.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }

    /// Returns the state of a path toward `peer`; `None` when nothing was sent over it yet.
    #[must_use]
    pub fn path_stats(&self, peer: PeerId, path: PathId) -> Option<PathStats> {
        self.peers.get(peer)?.send.paths().stats(path)
    }

    /// Fills `totals` with sums over all peers for the first paths, and returns the number of
    /// peers. Packets are added up; the round-trip time is that toward the peer with the most
    /// packets on the path. Only the first 64 peers are counted, which bounds the time it takes.
    pub fn path_totals(&self, totals: &mut [PathStats]) -> usize {
        totals.fill(PathStats::default());
        let mut most = [0; u8::MAX as usize + 1];
        let peers = (0..self.peers.end()).filter_map(|index| self.peers.by_index(index));
        for peer in peers.take(PATH_TOTALS_PEERS_MAX) {
            for (index, (total, most)) in totals.iter_mut().zip(&mut most).enumerate() {
                let path = u16::try_from(index).map(PathId);
                let stats = path.ok().and_then(|path| peer.send.paths().stats(path));
                let Some(stats) = stats else { break };
                total.tx_packets += stats.tx_packets;
                total.lost_packets += stats.lost_packets;
                total.quarantined |= stats.quarantined;
                if stats.tx_packets > *most {
                    (*most, total.rtt_ns) = (stats.tx_packets, stats.rtt_ns);
                }
            }
        }
        self.peers.len()
    }

    /// Returns the bytes that may be in flight toward `peer`; `None` when it was collected.
    #[must_use]
    pub fn window_bytes(&self, peer: PeerId) -> Option<u64> {
        self.peers.get(peer).map(|peer| peer.send.window_bytes())
    }

    /// Returns the bytes of memory of the context toward `peer`; `None` when it was collected.
    #[must_use]
    pub fn peer_memory_bytes(&self, peer: PeerId) -> Option<usize> {
        self.peers.get(peer).map(Peer::memory_bytes)
    }

    /// Returns the bytes of memory of the endpoint, without events that were not polled. Takes time
    /// in proportion to the number of peers.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.heap_bytes()
    }
}

/// Puts a peer on the list of those with something to transmit.
#[inline]
fn make_ready(ready: &mut VecDeque<u32>, peer: &mut Peer) {
    if !peer.is_ready {
        peer.is_ready = true;
        ready.push_back(peer.id.index);
    }
}
