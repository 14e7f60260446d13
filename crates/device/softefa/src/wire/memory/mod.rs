//! Datagrams through shared memory, between programs of one user on one machine.
//!
//! ```text
//! send --> outbox: a ring to that peer that is read? --yes--> copied into it
//!                    no, full, asleep, or for the kernel ----> UdpWire
//! receive <-- inbox: rings of peers <- - - - door: where rings are handed in
//!         <-- UdpWire, each time, or every 20 us beside rings
//! ```
//! A ring is opened by who writes it, after some datagrams to a peer of this machine: it hands the
//! memory in at the peer's [`door`], and sends an empty datagram to make it look there. What opens
//! connections, repeats or probes goes through the kernel always, because the kernel knows who is
//! dead. So does what a sleeper must be woken by.

mod door;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzzing;
mod inbox;
mod out;
mod outbox;
mod proof;
mod put;
mod ring;
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

use door::Door;
use inbox::{Inbox, Taken};
use out::Nudge;
use outbox::Outbox;
use proof::RingKey;
use waiting::Waiting;

pub(crate) use door::RING_LISTENERS;
pub use door::door_name;
pub use segment::check;

/// How long the socket is left alone beside rings. What comes there is rare and patient.
const SOCKET_NS: u64 = 20_000;
/// The socket waits for so many runs, which a full ring has at most.
const RUNS_MAX: u32 = 256;
/// The rings wait for so many trains of the socket.
const TRAINS_MAX: u32 = 64;
/// Empty datagrams passed over at once.
const NUDGES_MAX: usize = 16;

/// How long after a call that the kernel refused the sleeper is called again.
const CALL_AGAIN_NS: u64 = 1_000_000;
/// How long after the door could not be opened that is tried again.
const REFUSED_NS: u64 = 1_000_000_000;

/// Whether others can hand in rings.
#[derive(Debug)]
enum Entrance {
    /// Nobody of this machine has come yet.
    Closed,
    Open(Door),
    /// The operating system refused it; it is asked again at that time.
    Refused(Instant),
    /// The rings are left for good.
    Shut,
}

/// UDP, and rings beside it.
#[derive(Debug)]
pub(super) struct MemoryWire {
    udp: UdpWire,
    tap: Tap,
    local: SocketAddr,
    /// The device seals what leaves through the kernel.
    has_key: bool,
    entrance: Entrance,
    outbox: Outbox,
    inbox: Inbox,
    /// What came through a ring.
    buffer: Vec<u8>,
    /// Datagrams of a batch that the kernel gets.
    left: Vec<Packet>,
    impossible: Vec<Impossible>,
    /// What waits for room in a ring.
    waiting: Waiting,
    socket_seen_at: Instant,
    /// What may still be taken before it is the socket's turn; 0 while it is.
    runs_left: u32,
    /// What may still be taken from the socket while it is its turn.
    trains_left: u32,
    /// The socket is not to be left alone.
    is_hurried: bool,
    /// The program polls again, but what came while it slept is still in the socket.
    is_waking: bool,
    /// What called the sleeper was taken out of the socket.
    was_called: bool,
    /// A sleeper could not be called, or may not have heard the call: it is called again then.
    next_call: Option<Instant>,
}

/// What came.
enum Arrival {
    /// Bytes of the buffer of [`UdpWire`].
    Train(Train),
    /// In the buffer of the rings.
    Taken(Taken),
}

impl MemoryWire {
    /// Around the sockets of the queue pair `local`, whose device may have a `key`. `own_addrs` are
    /// addresses of this machine; `links` show who is reached.
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
            entrance: Entrance::Closed,
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

    /// Sends what does not wait.
    fn pass(&mut self, now: Instant, batch: &Batch) -> Sent {
        let mut sent = Sent::default();
        self.put(now, batch, &mut sent);
        self.udp.send_packets(now, batch, &self.left, &mut sent);
        self.call(now);
        sent
    }

    /// Sends a datagram to those who do not see what they have got.
    #[inline]
    fn call(&mut self, now: Instant) {
        for (nudge, out) in self.outbox.unheard() {
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

    /// Calls those again who could not be called, and those who have slept on for so long that the
    /// call may be lost: a kernel without room drops datagrams that it has taken.
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

    /// Tries again what waits. A ring that nobody reads is given up (SRD-12.6), and what waited for
    /// it goes through the kernel.
    #[cold]
    fn retry(&mut self, now: Instant) -> Sent {
        let waiting = std::mem::take(&mut self.waiting);
        let queues = waiting.queues();
        for queue in &queues {
            self.outbox.doubt_room(now, queue.to, queue.since);
        }
        let sent = waiting.take(|batch| self.pass(now, batch));
        self.waiting.keep_times(&queues);
        // Nobody waits for what became of these, and the next batch has other packets there.
        self.impossible.clear();
        self.udp.forget_impossible();
        sent
    }

    /// Takes what came in the order in which it was sent, as far as can be told (SRD-12.7): the
    /// rings until they are empty, then the socket until it is, then the rings again.
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
        // A capture records them whole.
        let is_captured = self.tap.is_on();
        self.inbox.set_captured(is_captured);
        let headers = (!is_captured).then(|| self.udp.layout());
        self.inbox.take(now, headers, &mut self.buffer)
    }

    /// What the socket has; the bytes are in its buffer. Lets those in who wait at the door.
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
            // An empty one, too, when there may be more behind it: the socket is not empty.
            if train.len > 0 || nudges == NUDGES_MAX {
                return Some(train);
            }
            nudges += 1;
        }
    }

    /// A datagram of `len` bytes came from `from`: its sender may want to hand in a ring.
    #[inline]
    fn greet(&mut self, now: Instant, from: SocketAddr, len: usize) {
        match &self.entrance {
            Entrance::Open(_) if len == 0 && !self.inbox.is_written_by(from) => self.let_in(now),
            Entrance::Closed if self.outbox.is_here(from.ip()) => self.open_the_door(now),
            Entrance::Refused(until) if *until <= now => self.open_the_door(now),
            _ => {}
        }
    }

    #[cold]
    fn let_in(&mut self, now: Instant) {
        // Closing a descriptor is a cancellation point.
        let _uncancelled = Uncancelled::begin();
        let Entrance::Open(door) = &self.entrance else { return };
        door.visitors().for_each(|visitor| self.inbox.admit(now, visitor));
    }

    #[cold]
    fn open_the_door(&mut self, now: Instant) {
        let _uncancelled = Uncancelled::begin();
        self.entrance = match Door::open(self.local) {
            Ok(door) => Entrance::Open(door),
            // Descriptors may be short for a while, or the name another's.
            Err(_) => Entrance::Refused(now.plus_ns(REFUSED_NS)),
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

    fn look_everywhere(&mut self) {
        self.is_hurried = true;
    }

    fn forget_unsent(&mut self) {
        self.waiting = Waiting::default();
        self.udp.forget_unsent();
    }

    fn leave_rings(&mut self) {
        self.inbox = Inbox::default();
        self.outbox.retire();
        self.entrance = Entrance::Shut;
    }
}

#[cfg(test)]
mod keyed_tests;
#[cfg(test)]
#[allow(unsafe_code)]
mod tests;
