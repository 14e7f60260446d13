//! Datagrams through shared memory between programs of one user on one machine.
//!
//! ```text
//! send --> outbox: a ring to that peer that is read? --yes--> copied into it
//!                    no, full, asleep, or for the kernel ----> UdpWire
//! receive <-- inbox: rings of peers <- - - - ring_listener: where rings arrive
//!         <-- UdpWire, each time, or every 20 us beside rings
//! ```
//! The writer opens a ring, after some datagrams to a peer of this machine: it hands the memory
//! over to the peer's [`ring_listener`], and sends an empty datagram so that the peer accepts it.
//! Datagrams that open connections, repeat or probe always go through the kernel, because the
//! kernel knows which peers are dead. So do the datagrams that wake a sleeper.

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod inbox;
mod out;
mod outbox;
mod proof;
mod put;
mod ring;
mod ring_listener;
#[cfg(test)]
mod ring_tests;
mod segment;
mod waiting;

use std::net::{IpAddr, SocketAddr};

use srd::Instant;

use super::batch::{Impossible, Packet, Via};
use super::socket::Train;
use super::tap::Tap;
use super::udp::UdpWire;
use super::{Batch, Run, Sent, Sleep, Wire};
use crate::counters::Links;
use crate::seal::SealKey;
use crate::uncancelled::Uncancelled;

use inbox::{Inbox, Taken};
use out::Nudge;
use outbox::Outbox;
use proof::RingKey;
use ring_listener::RingListener;
use waiting::Waiting;

pub(crate) use ring_listener::RING_LISTENERS;
pub use ring_listener::ring_socket_name;
pub use segment::check;

/// The time for which the socket may stay unread while rings are read. Datagrams there are rare and
/// not urgent.
const SOCKET_NS: u64 = 20_000;
/// The most runs that are read from rings before the socket has its turn; a full ring has no more.
const RUNS_MAX: u32 = 256;
/// The most trains that are read from the socket before the rings have their turn.
const TRAINS_MAX: u32 = 64;
/// The most empty datagrams that are skipped at once.
const NUDGES_MAX: usize = 16;

/// The time after which a sleeper is called again if the kernel refused a call.
const CALL_AGAIN_NS: u64 = 1_000_000;
/// The time after which opening the listener is tried again after a failure.
const REFUSED_NS: u64 = 1_000_000_000;

/// The state in which peers can or cannot hand over rings.
#[derive(Debug)]
enum Acceptance {
    /// No peer of this machine has sent anything yet.
    Closed,
    Open(RingListener),
    /// The operating system refused the listener; it is opened again at that time.
    Refused(Instant),
    /// Rings are not used any more.
    Stopped,
}

/// A wire of UDP sockets and rings.
#[derive(Debug)]
pub(super) struct MemoryWire {
    udp: UdpWire,
    tap: Tap,
    local: SocketAddr,
    /// The device seals datagrams that leave through the kernel.
    has_key: bool,
    acceptance: Acceptance,
    outbox: Outbox,
    inbox: Inbox,
    /// The datagrams that were read from a ring.
    buffer: Vec<u8>,
    /// Datagrams of a batch that go through the kernel.
    left: Vec<Packet>,
    impossible: Vec<Impossible>,
    /// Datagrams that wait for room in a ring.
    waiting: Waiting,
    socket_seen_at: Instant,
    /// The number of runs until the socket has its turn; 0 during its turn.
    runs_left: u32,
    /// The number of trains that may still be read in the socket's turn.
    trains_left: u32,
    /// The socket must be read soon.
    is_hurried: bool,
    /// The program polls again, but what arrived while it slept is still in the socket.
    is_waking: bool,
    /// The datagrams that called the sleeper were read from the socket.
    was_called: bool,
    /// The time to call a sleeper again that could not be called, or may have missed the call.
    next_call: Option<Instant>,
}

/// A received run of datagrams.
enum Arrival {
    /// The run lies in the buffer of [`UdpWire`].
    Train(Train),
    /// The run lies in the buffer of the rings.
    Taken(Taken),
}

impl MemoryWire {
    /// Wraps the sockets of the queue pair `local`, whose device may have a `key`. `own_addrs` are
    /// the addresses of this machine; `links` shows which peers are reached.
    pub(super) fn new(
        udp: UdpWire,
        local: SocketAddr,
        key: Option<&SealKey>,
        own_addrs: &[IpAddr],
        links: Links,
    ) -> Self {
        let key = key.map(|key| RingKey { key: key.clone(), local });
        Self {
            tap: udp.tap(),
            udp,
            local,
            has_key: key.is_some(),
            acceptance: Acceptance::Closed,
            outbox: Outbox::new(local, key.clone(), own_addrs.into(), links),
            inbox: Inbox::new(key),
            buffer: Vec::new(),
            left: Vec::new(),
            impossible: Vec::new(),
            waiting: Waiting::default(),
            socket_seen_at: Instant::ZERO,
            runs_left: RUNS_MAX,
            trains_left: TRAINS_MAX,
            is_hurried: false,
            is_waking: false,
            was_called: false,
            next_call: None,
        }
    }

    /// Sends the datagrams that do not have to wait.
    fn pass(&mut self, now: Instant, batch: &Batch) -> Sent {
        let mut sent = Sent::default();
        self.put(now, batch, &mut sent);
        self.udp.send_packets(now, batch, &self.left, &mut sent);
        self.call(now);
        sent
    }

    /// Sends a datagram to each reader that may not have seen what was published.
    #[inline]
    fn call(&mut self, now: Instant) {
        for (nudge, out) in self.outbox.unannounced() {
            let again_at = match nudge {
                Nudge::Call(to) if self.udp.call(to) => out.was_called(now),
                Nudge::Call(_) => {
                    out.was_not_called();
                    now.plus_ns(CALL_AGAIN_NS)
                }
                Nudge::HandedIn(to) => {
                    self.udp.nudge(to);
                    out.was_called(now)
                }
            };
            self.next_call = Some(self.next_call.map_or(again_at, |next| next.min(again_at)));
        }
    }

    /// Calls again the readers that could not be called, and those that have slept on for so long
    /// that the call may be lost: a kernel without room drops datagrams that it has accepted.
    #[cold]
    fn call_again(&mut self, now: Instant) {
        self.next_call = None;
        self.call(now);
        for (to, out) in self.outbox.deaf(now) {
            self.udp.call(to);
            out.was_called_again(now);
        }
        self.next_call = self.next_call.into_iter().chain(self.outbox.next_call()).min();
    }

    /// Tries again to send the datagrams that wait. A ring that is not read is given up (SRD-12.6),
    /// and the datagrams that waited for it go through the kernel.
    #[cold]
    fn retry(&mut self, now: Instant) -> Sent {
        let waiting = std::mem::take(&mut self.waiting);
        let queues = waiting.queues();
        for queue in &queues {
            self.outbox.doubt_room(now, queue.to, queue.since);
        }
        let sent = waiting.take(|batch| self.pass(now, batch));
        self.waiting.keep_times(&queues);
        // No caller waits for the outcome of these, and the next batch has other packets there.
        self.impossible.clear();
        self.udp.forget_impossible();
        sent
    }

    /// Takes arrivals in the order in which they were sent, as far as it can be known (SRD-12.7):
    /// the rings until they are empty, then the socket until it is empty, then the rings again.
    #[inline]
    fn next(&mut self, now: Instant) -> Option<Arrival> {
        if self.runs_left > 0 {
            if let Some(taken) = self.take(now) {
                self.runs_left -= 1;
                return Some(Arrival::Taken(taken));
            }
        }
        if !self.is_socket_due(now) {
            return None;
        }
        if self.trains_left > 0 {
            if let Some(train) = self.fetch(now) {
                (self.runs_left, self.trains_left) = (0, self.trains_left - 1);
                return Some(Arrival::Train(train));
            }
        }
        self.end_turn_of_socket();
        self.take(now).map(Arrival::Taken)
    }

    fn is_socket_due(&self, now: Instant) -> bool {
        self.is_hurried
            || self.runs_left == 0
            || self.inbox.is_empty()
            || self.inbox.is_asleep()
            || now.ns_since(self.socket_seen_at) >= SOCKET_NS
    }

    fn end_turn_of_socket(&mut self) {
        (self.runs_left, self.trains_left) = (RUNS_MAX, TRAINS_MAX);
        if self.is_waking {
            self.is_waking = false;
            self.inbox.wake();
        }
    }

    #[inline]
    fn take(&mut self, now: Instant) -> Option<Taken> {
        // A capture records datagrams whole.
        let is_captured = self.tap.is_on();
        self.inbox.set_captured(is_captured);
        let headers = (!is_captured).then(|| self.udp.layout());
        self.inbox.take(now, headers, &mut self.buffer)
    }

    /// Reads the socket into its buffer, and accepts the rings that wait at the listener.
    fn fetch(&mut self, now: Instant) -> Option<Train> {
        self.socket_seen_at = now;
        self.is_hurried = false;
        self.outbox.tidy(now);
        self.inbox.tidy(now);
        let mut nudges = 0;
        loop {
            let train = self.udp.fetch()?;
            self.greet(now, train.from, train.len);
            self.was_called |= train.len == 0;
            // An empty datagram is returned, too, if there may be more behind it: the socket is not
            // empty.
            if train.len > 0 || nudges == NUDGES_MAX {
                return Some(train);
            }
            nudges += 1;
        }
    }

    /// Handles the arrival of a datagram of `len` bytes from `from`, whose sender may want to hand
    /// in a ring.
    #[inline]
    fn greet(&mut self, now: Instant, from: SocketAddr, len: usize) {
        match &self.acceptance {
            Acceptance::Open(_) if len == 0 && !self.inbox.is_written_by(from) => {
                self.accept_rings(now);
            }
            Acceptance::Closed if self.outbox.is_here(from.ip()) => self.start_accepting(now),
            Acceptance::Refused(until) if *until <= now => self.start_accepting(now),
            _ => {}
        }
    }

    #[cold]
    fn accept_rings(&mut self, now: Instant) {
        // Closing a descriptor is a cancellation point.
        let _uncancelled = Uncancelled::begin();
        let Acceptance::Open(ring_listener) = &self.acceptance else { return };
        ring_listener.accept_rings().for_each(|offered| self.inbox.admit(now, offered));
    }

    #[cold]
    fn start_accepting(&mut self, now: Instant) {
        let _uncancelled = Uncancelled::begin();
        self.acceptance = match RingListener::open(self.local) {
            Ok(ring_listener) => Acceptance::Open(ring_listener),
            // Descriptors may be short for a while, or another process may have the name.
            Err(_) => Acceptance::Refused(now.plus_ns(REFUSED_NS)),
        };
    }
}

impl Wire for MemoryWire {
    fn send(&mut self, now: Instant, batch: &mut Batch) -> Sent {
        let sent = self.pass(now, batch);
        batch.clear();
        batch.report(&mut self.impossible);
        self.udp.report(batch);
        sent
    }

    fn receive(&mut self, now: Instant) -> Option<Run<'_>> {
        let Taken { from, segment, rest, is_proven } = match self.next(now)? {
            Arrival::Train(train) => return Some(self.udp.run(train)),
            Arrival::Taken(taken) => taken,
        };
        let bytes = &mut self.buffer;
        let run = Run { from, bytes, segment, rest, is_memory: true, is_proven };
        if self.tap.is_on() {
            self.tap.received(&run);
        }
        Some(run)
    }

    fn release(&mut self, now: Instant) -> Sent {
        let mut sent = self.udp.release(now);
        if !self.waiting.is_empty() && !self.udp.is_blocked() {
            sent.add(&self.retry(now));
        }
        if self.next_call.is_some_and(|at| at <= now) {
            self.call_again(now);
        }
        sent
    }

    fn next_release(&self) -> Option<Instant> {
        let all = [self.udp.next_release(), self.waiting.next_try(), self.next_call];
        all.into_iter().flatten().min()
    }

    fn is_blocked(&self) -> bool {
        self.udp.is_blocked() || !self.waiting.is_empty()
    }

    fn sleep(&mut self, sleep: Sleep) -> bool {
        (self.is_waking, self.was_called) = (false, false);
        self.inbox.sleep(sleep)
    }

    fn was_called(&self) -> bool {
        self.was_called
    }

    fn wake(&mut self) {
        self.is_waking = true;
    }

    fn has_rings(&self) -> bool {
        !self.inbox.is_empty()
    }

    fn has_trains_to(&self, now: Instant, to: SocketAddr) -> bool {
        self.udp.has_trains_to(now, to)
    }

    fn has_ring_to(&self, to: SocketAddr) -> bool {
        self.outbox.has_ring_to(to)
    }

    fn ring_room_bytes(&mut self, to: SocketAddr, via: Via) -> usize {
        // A capture shows packets as they would be on a network.
        if self.tap.is_on() { 0 } else { self.outbox.room_to(to, via) }
    }

    fn poll_everything(&mut self) {
        self.is_hurried = true;
    }

    fn forget_unsent(&mut self) {
        self.waiting = Waiting::default();
        self.udp.forget_unsent();
    }

    fn leave_rings(&mut self) {
        self.inbox = Inbox::default();
        self.outbox.retire();
        self.acceptance = Acceptance::Stopped;
    }
}

#[cfg(test)]
mod keyed_tests;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
