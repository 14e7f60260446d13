//! The public API of the endpoint: everything that a host calls. The algorithms are elsewhere.

mod joined;
mod plain;
mod receive;
mod state;

use std::collections::VecDeque;
use std::sync::Arc;

use crate::id::Seq;
use crate::requester::Requester;
use crate::responder::Responder;
use crate::rtt::Rtt;
use crate::wire::{Bth, Kind, Opcode};
use crate::{
    Access, Config, DropReason, Event, HEADER_MAX, Instant, Mtu, PostError, Psn, ReceiveAttr,
    Received, Reject, SendAttr, SendRequest, Service, Stats, Status, Transmit, WrId,
};

/// The state of an endpoint. A host with more states (INIT) keeps them itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not connected.
    Reset,
    /// Receives (RTR).
    Receiving,
    /// Receives and sends (RTS).
    Sending,
    /// Receives, and finishes the work requests that were begun (SQD).
    Draining,
    /// A work request of an unreliable connection failed: work requests end as flushed, and the
    /// endpoint receives (SQE).
    SendError,
    /// Failed: work requests and receives end as flushed.
    Error,
}

/// The state that requester and responder share.
#[derive(Debug)]
pub(crate) struct Shared {
    /// The settings, shared by all endpoints of a host that has thousands.
    pub(crate) config: Arc<Config>,
    pub(crate) service: Service,
    pub(crate) mtu: Mtu,
    pub(crate) stats: Stats,
    pub(crate) events: VecDeque<Event>,
    /// The round-trip time to the peer.
    pub(crate) rtt: Rtt,
    dest_qpn: u32,
}

impl Shared {
    /// Returns the base transport header of a packet to the peer.
    #[inline]
    pub(crate) fn bth(&self, kind: Kind, seq: Seq) -> Bth {
        Bth {
            opcode: Opcode { transport: self.service.transport(), kind },
            is_solicited: false,
            is_migrated: true,
            pad: 0,
            pkey: self.config.pkey,
            has_fecn: false,
            has_becn: false,
            joined: 0,
            dest_qpn: self.dest_qpn,
            wants_ack: false,
            psn: seq.psn(),
        }
    }
}

/// The half whose arrival the host is handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Half {
    Requester,
    Responder,
}

/// One queue pair's half of a connection.
#[derive(Debug)]
pub struct Endpoint {
    qpn: u32,
    state: State,
    shared: Shared,
    requester: Requester,
    responder: Responder,
    arrival: Option<Half>,
    /// The host has been notified that the peer has begun.
    is_established: bool,
}

impl Endpoint {
    /// Creates an endpoint for queue pair `qpn` (24 bits), not connected. Endpoints with the same
    /// settings can share them ([`Arc`]).
    #[must_use]
    pub fn new(config: impl Into<Arc<Config>>, service: Service, qpn: u32) -> Self {
        let shared = Shared {
            config: config.into(),
            service,
            mtu: Mtu::default(),
            stats: Stats::default(),
            events: VecDeque::new(),
            rtt: Rtt::default(),
            dest_qpn: 0,
        };
        Self {
            qpn,
            state: State::Reset,
            requester: Requester::new(SendAttr::default(), &shared),
            responder: Responder::new(ReceiveAttr::default()),
            shared,
            arrival: None,
            is_established: false,
        }
    }

    /// Returns the queue pair number given to [`Endpoint::new`].
    #[must_use]
    pub fn qpn(&self) -> u32 {
        self.qpn
    }

    /// Returns the state of the endpoint.
    #[must_use]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the settings in force.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.shared.config
    }

    /// Connects the receiving half (INIT to RTR). Does nothing unless the state is
    /// [`State::Reset`].
    pub fn ready_to_receive(&mut self, attr: ReceiveAttr) {
        self.begin_receiving(attr);
    }

    /// Connects the sending half (RTR to RTS). Does nothing unless the state is
    /// [`State::Receiving`].
    pub fn ready_to_send(&mut self, attr: SendAttr) {
        self.begin_sending(attr);
    }

    /// Changes what the peer may do, from the next request on.
    pub fn set_access(&mut self, access: Access) {
        self.responder.set_access(access);
    }

    /// Changes the code of the time that the peer waits when no receive is posted.
    pub fn set_min_rnr_timer(&mut self, code: u8) {
        self.responder.set_min_rnr_timer(code);
    }

    /// Changes how many READs and atomics the peer may have outstanding here.
    pub fn set_max_dest_rd_atomic(&mut self, count: u8) {
        self.responder.set_max_dest_rd_atomic(count);
    }

    /// Changes timeouts, retries and `max_rd_atomic`; packet numbers continue.
    pub fn set_send_attr(&mut self, attr: SendAttr) {
        self.requester.set_attr(attr);
    }

    /// Queues a work request; in [`State::SendError`] and [`State::Error`] it ends as flushed. Call
    /// [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] afterwards.
    ///
    /// # Errors
    /// See [`PostError`]; nothing was queued then.
    #[inline]
    pub fn post(&mut self, _now: Instant, request: SendRequest) -> Result<(), PostError> {
        if !self.shared.service.has_requester() {
            return Err(PostError::State);
        }
        match self.state {
            State::Reset | State::Receiving => Err(PostError::State),
            State::Sending | State::Draining => self.requester.post(request, &self.shared),
            State::SendError | State::Error => {
                let (id, status) = (request.id, Status::Flushed);
                self.shared.events.push_back(Event::Completed { id, status });
                Ok(())
            }
        }
    }

    /// Handles a packet from the peer, whose address the host has checked. `bytes` starts at the
    /// base transport header and holds at least all headers; `len` is the length of the whole
    /// packet with pad and ICRC, which the host has verified or trusts.
    ///
    /// When the result names an [`Arrival`](crate::Arrival), do what it says and answer with
    /// [`Endpoint::accept`], [`Endpoint::accept_atomic`] or [`Endpoint::reject`] before the next
    /// packet; a packet not answered by then counts as lost. Call [`Endpoint::poll_transmit`] and
    /// [`Endpoint::poll_event`] after a batch.
    ///
    /// # Errors
    /// The reason why the packet was not used; it was counted, and nothing else need be done (an
    /// answer may be waiting in [`Endpoint::poll_transmit`]).
    #[inline]
    pub fn handle_packet(
        &mut self,
        now: Instant,
        bytes: &[u8],
        len: usize,
    ) -> Result<Received, DropReason> {
        let result = self.receive(now, bytes, len, false);
        self.note_received(&result);
        result
    }

    /// Accepts the arrival, which the host has carried out: it is acknowledged and never arrives
    /// again.
    #[inline]
    pub fn accept(&mut self, now: Instant) {
        match self.arrival.take() {
            Some(Half::Requester) => self.requester.accept(now, &mut self.shared),
            Some(Half::Responder) => self.responder.accept(&self.shared),
            None => {}
        }
        self.note_failures();
    }

    /// Accepts the atomic, which the host has carried out and which found `original`. Does not
    /// answer other arrivals.
    pub fn accept_atomic(&mut self, _now: Instant, original: u64) {
        if self.arrival.take() == Some(Half::Responder) {
            self.responder.accept_atomic(original, &self.shared);
        }
        self.note_failures();
    }

    /// Rejects the arrival, which the host has not carried out. After [`Reject::NotReady`] it
    /// arrives again; any other reason ends a reliable connection, and drops the message of an
    /// unreliable one.
    pub fn reject(&mut self, _now: Instant, why: Reject) {
        match self.arrival.take() {
            Some(Half::Requester) => self.requester.reject(why),
            Some(Half::Responder) => self.responder.reject(why, &self.shared),
            None => {}
        }
        self.note_failures();
    }

    /// Gives up work request `id`, which [`Endpoint::poll_transmit`] returned: the host cannot
    /// supply its bytes, or may not. It ends with `status` after all earlier ones have ended, and
    /// then the endpoint fails; with an unreliable connection only its sending half does. Until
    /// then nothing later is sent, and what is earlier is sent again (RC-3.11). Call
    /// [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`] afterwards.
    pub fn withdraw(&mut self, _now: Instant, id: WrId, status: Status) {
        let is_here = self.requester.withdraw(id, status, &mut self.shared);
        if !is_here && !self.shared.service.is_reliable() {
            self.revise_completion(id, status);
        }
        self.note_failures();
    }

    /// Reports that the host has carried out work request `id`, which [`Event::Execute`] named;
    /// with any `status` but [`Status::Ok`] it could not, and the endpoint fails as with
    /// [`Endpoint::withdraw`]. Call [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`]
    /// afterwards.
    pub fn executed(&mut self, _now: Instant, id: WrId, status: Status) {
        self.requester.executed(id, status, &mut self.shared);
        self.note_failures();
    }

    /// Refuses the response with number `psn`, which [`Endpoint::poll_transmit`] returned since the
    /// last packet was handled: the peer may not read that memory any more. The peer is notified,
    /// and the endpoint fails. Of several responses only the first need be refused.
    pub fn refuse_response(&mut self, _now: Instant, psn: Psn) {
        self.responder.refuse_response(psn);
        self.note_failures();
    }

    /// Makes the newest acknowledgement due once more, unless [`Config::rto_floor_ns`] is 0. Hosts
    /// repeat it before they exit, because nothing will answer a repetition later (RC-5.8). Call
    /// [`Endpoint::poll_transmit`] afterwards.
    pub fn final_ack(&mut self, now: Instant) {
        if self.shared.config.rto_floor_ns > 0 {
            self.repeat_ack(now);
        }
    }

    /// Makes the newest acknowledgement due once more, before what is sent next: requests may
    /// overtake the previous one, which took a slower path (RC-6.5). Call
    /// [`Endpoint::poll_transmit`] afterwards.
    pub fn repeat_ack(&mut self, _now: Instant) {
        if self.shared.service.is_reliable() {
            self.responder.repeat_ack();
        }
    }

    /// Reports that the peer is gone (ICMP port unreachable, or its process has ended): the oldest
    /// work request ends as if retries were exhausted. Has no effect on an unreliable connection.
    /// Call [`Endpoint::poll_event`].
    pub fn peer_unreachable(&mut self, _now: Instant) {
        if self.shared.service.is_reliable() {
            self.requester.on_peer_unreachable();
        }
        self.note_failures();
    }

    /// Begins no further work request (RTS to SQD); [`Event::Drained`] reports when all that were
    /// begun have ended.
    pub fn drain(&mut self, _now: Instant) {
        if self.state == State::Sending {
            self.state = State::Draining;
            self.requester.drain(&mut self.shared);
        }
    }

    /// Returns whether [`Endpoint::drain`] was called and earlier work requests have not ended yet.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.state == State::Draining && self.requester.is_draining()
    }

    /// Begins work requests again (SQD or SQE to RTS).
    pub fn resume(&mut self, _now: Instant) {
        if matches!(self.state, State::Draining | State::SendError) {
            self.state = State::Sending;
            self.requester.resume();
        }
    }

    /// Moves to [`State::Error`]: everything that is posted ends as flushed, and nothing more is
    /// sent to the peer. Call [`Endpoint::poll_event`].
    pub fn fail(&mut self, _now: Instant) {
        self.fail_by_host();
    }

    /// Moves to [`State::Reset`]: everything is forgotten, without completions.
    pub fn reset(&mut self) {
        self.forget();
    }

    /// Does what is due. Call when [`Endpoint::poll_timeout`] has passed (earlier is harmless),
    /// then [`Endpoint::poll_transmit`] and [`Endpoint::poll_event`].
    pub fn handle_timeout(&mut self, now: Instant) {
        if matches!(self.state, State::Sending | State::Draining) {
            self.requester.handle_timeout(now, &mut self.shared);
            self.note_failures();
        }
    }

    /// Returns when [`Endpoint::handle_timeout`] must be called next; `None` when nothing waits for
    /// time. Ask again after any other call.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.requester.next_timeout()
    }

    /// The next packet to send now: answers first, then requests. Call until it returns `None`,
    /// after every other call that takes `&mut self`. It may be interrupted, after any packet, and
    /// resumed later: a long READ of the peer is answered packet by packet.
    #[inline]
    pub fn poll_transmit(
        &mut self,
        now: Instant,
        header: &mut [u8; HEADER_MAX],
    ) -> Option<Transmit> {
        self.poll_joined(now, header, 0)
    }

    /// The next event. Call until it returns `None`, after every batch of other calls.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// Returns whether [`Endpoint::poll_transmit`] has something to send now.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        let sends = matches!(self.state, State::Sending | State::Draining);
        self.responder.has_work() || (sends && self.requester.has_work(&self.shared))
    }

    /// Returns the number of work requests that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.requester.len()
    }

    /// Takes no round-trip sample from packets in flight: their answers may lie unread, so that
    /// their delay says nothing about the network.
    pub fn discard_timing(&mut self) {
        self.requester.discard_timing();
    }

    /// Returns whether packets of a work request have not been sent, for whatever reason.
    #[must_use]
    pub fn has_unsent(&self) -> bool {
        self.requester.has_unsent()
    }

    /// Returns whether the next requests, at most `packets`, have packets of equal length, no
    /// shorter than an acknowledgement, and at most `bytes` of payload together. An acknowledgement
    /// behind them arrives with them if the transport coalesces datagrams of equal length with a
    /// shorter last one (RC-6.5).
    #[must_use]
    pub fn is_next_uniform(&self, packets: usize, bytes: u64) -> bool {
        self.requester.is_uniform(packets, bytes, &self.shared)
    }

    /// Returns whether nothing is queued, in flight, or to be answered.
    #[must_use]
    pub fn is_quiescent(&self) -> bool {
        self.in_flight() == 0 && !self.responder.has_work()
    }

    /// Sends no new request until all that were sent are acknowledged, except for one packet that
    /// requests the acknowledgement (RC-3.14). For hosts that change the path to the peer, when
    /// nothing may be overtaken.
    pub fn pause_requests(&mut self) {
        self.requester.pause_once();
    }

    /// Returns a mark that grows with each packet number that a request takes, until the endpoint
    /// is reset; compare it with [`Endpoint::acknowledged`].
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.requester.sent_and_acknowledged().0
    }

    /// Returns the value of [`Endpoint::sent`] up to which everything is acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.requester.sent_and_acknowledged().1
    }

    /// Returns the packets that may be unacknowledged at present.
    #[must_use]
    pub fn window_packets(&self) -> u32 {
        self.requester.window_packets()
    }

    /// Returns the smoothed round-trip time in nanoseconds, once there was a sample.
    #[must_use]
    pub fn rtt_ns(&self) -> Option<u64> {
        self.shared.rtt.smoothed_ns()
    }

    /// Returns the counters since the endpoint was created.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.shared.stats
    }
}
