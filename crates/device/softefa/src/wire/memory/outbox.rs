//! The rings that a queue pair writes, one for each peer of this machine to which it sends enough.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use srd::Instant;

use super::out::{ACCEPT_NS, End, Nudge, Out, Record, UNREAD_NS};
use super::proof::{ReaderProof, RingKey};
use super::ring::{Published, ReaderState, Writer};
use super::ring_listener::RingConnection;
use super::segment::Segment;
use crate::counters::{self, Links};
use crate::memory::Piece;
use crate::uncancelled::Uncancelled;
use crate::wire::batch::Via;

/// The most peers that may have a ring; others are reached over UDP.
const LINKS_MAX: usize = 64;
/// The number of datagrams to a peer from which on a ring is worth making.
const WORTH_DATAGRAMS: u32 = 4;
/// The time for which a peer without a ring listener is not tried again, at first.
const RETRY_MIN_NS: u64 = 1_000_000;
/// The most of that time, which is multiplied by four with each try.
const RETRY_MAX_NS: u64 = 4_000_000_000;
/// A ring that is not written for this long is given up.
const IDLE_NS: u64 = 10_000_000_000;
/// The time after an unread ring until another one is tried, because its reader may only have been
/// stopped or not scheduled. The time is multiplied by four after each further one, up to
/// [`RETRY_MAX_NS`].
const UNREAD_RETRY_NS: u64 = 100_000_000;

/// The outcome of writing a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Put {
    Done,
    /// The ring is full, or is not accepted yet.
    Full,
    /// There is no ring, or it is not read.
    NotHere,
    /// The memory of the datagram is gone.
    Gone,
}

/// The ring to one peer, if there is one.
#[derive(Debug)]
struct Link {
    to: SocketAddr,
    made_at: Instant,
    used_at: Instant,
    state: State,
    /// The time to wait after the next ring that is not read.
    unread_retry_ns: u64,
}

#[derive(Debug)]
enum State {
    /// There is no ring. It is tried at `retry_at` and, if that fails, again after `backoff_ns`.
    None {
        datagrams: u32,
        retry_at: Instant,
        backoff_ns: u64,
    },
    Open(Box<Out>),
}

/// The rings that a queue pair writes; see the module.
#[derive(Debug)]
pub(super) struct Outbox {
    local: SocketAddr,
    /// The key of the device, if it has one.
    key: Option<RingKey>,
    own_addrs: Box<[IpAddr]>,
    seen_from_outside: Links,
    links: Vec<Link>,
    /// The link that was found last.
    last: usize,
    next_look: Instant,
    is_retired: bool,
}

impl Outbox {
    pub(super) fn new(
        local: SocketAddr,
        key: Option<RingKey>,
        own_addrs: Box<[IpAddr]>,
        seen_from_outside: Links,
    ) -> Self {
        Self {
            local,
            key,
            own_addrs,
            seen_from_outside,
            links: Vec::new(),
            last: 0,
            next_look: Instant::ZERO,
            is_retired: false,
        }
    }

    /// Gives up all rings and opens no more.
    pub(super) fn retire(&mut self) {
        self.links.iter().for_each(Link::close);
        self.links.clear();
        self.is_retired = true;
    }

    /// Returns true if the address belongs to this machine, as far as can be known: another network
    /// namespace may have the same address, but there is no ring listener there.
    pub(super) fn is_here(&self, addr: IpAddr) -> bool {
        addr.is_loopback() || addr == self.local.ip() || self.own_addrs.contains(&addr)
    }

    /// Writes `pieces` as a record into the ring of `to`, and opens a ring if it is worthwhile. A
    /// patient record and one of a stream go into the ring of a sleeper as well, so that they
    /// overtake nothing there.
    #[inline]
    pub(super) fn put(
        &mut self,
        now: Instant,
        to: &SocketAddr,
        record: Record,
        pieces: &[Piece],
    ) -> Put {
        let Some(index) = self.find_or_make(now, to) else { return Put::NotHere };
        let link = &mut self.links[index];
        let State::Open(out) = &mut link.state else {
            link.try_to_open(now, self.local, self.key.as_ref());
            let waits = matches!(record.via, Via::Patient(_)) && link.is_young(now);
            return if waits { Put::Full } else { Put::NotHere };
        };
        link.used_at = now;
        match out.put(now, record, pieces) {
            Ok(Put::Done) => {
                if out.shown.is_none() {
                    let link = counters::Link { qpn: self.local.port(), to: *to };
                    out.shown = self.seen_from_outside.show(link);
                }
                Put::Done
            }
            Ok(put) => put,
            Err(End) => {
                link.forget(now);
                Put::NotHere
            }
        }
    }

    /// Opens a ring to `to` if it is worthwhile, for later datagrams.
    pub(super) fn prepare(&mut self, now: Instant, to: SocketAddr) {
        if let Some(index) = self.find_or_make(now, &to) {
            self.links[index].try_to_open(now, self.local, self.key.as_ref());
        }
    }

    /// Returns true if a ring to `to` is open, as far as this side knows.
    pub(super) fn has_ring_to(&self, to: SocketAddr) -> bool {
        let mut links = self.links.iter();
        links.any(|link| link.to == to && matches!(link.state, State::Open(_)))
    }

    /// Returns true if a ring to `to` is open, and its reader accepts trains.
    #[inline]
    pub(super) fn takes_trains(&self, to: &SocketAddr) -> bool {
        let link = self.find(to).map(|index| &self.links[index].state);
        matches!(link, Some(State::Open(out)) if Writer::takes_trains(out.segment.words()))
    }

    /// Returns the number of bytes of records for which the ring of `to` has room now, see
    /// [`Out::room_bytes`]; 0 without a ring.
    pub(super) fn room_to(&mut self, to: SocketAddr, via: Via) -> usize {
        let Some(index) = self.find(&to) else { return 0 };
        let State::Open(out) = &mut self.links[index].state else { return 0 };
        out.room_bytes(via)
    }

    /// Gives up the ring to `to` if it is not read, because a datagram must be repeated or probed.
    #[cold]
    pub(super) fn doubt(&mut self, now: Instant, to: SocketAddr) {
        let Some(link) = self.links.iter_mut().find(|link| link.to == to) else { return };
        let State::Open(out) = &mut link.state else { return };
        if out.is_unread(now) {
            link.give_up_unread(now);
        }
    }

    /// Gives up the ring to `to` if a datagram has waited for room since `since` for too long,
    /// however little of the ring is read meanwhile, or if it is not read.
    #[cold]
    pub(super) fn doubt_room(&mut self, now: Instant, to: SocketAddr, since: Instant) {
        if now.ns_since(since) < UNREAD_NS {
            self.doubt(now, to);
        } else if let Some(link) = self.links.iter_mut().find(|link| link.to == to) {
            link.give_up_unread(now);
        }
    }

    /// Returns the peers that may have fallen asleep before they could see the records in their
    /// rings, and those that should accept a ring: each needs an empty datagram.
    pub(super) fn unannounced(&mut self) -> impl Iterator<Item = (Nudge, &mut Out)> {
        self.links.iter_mut().filter_map(|link| match &mut link.state {
            State::Open(out) => out.take_announcement(link.to).map(|nudge| (nudge, &mut **out)),
            State::None { .. } => None,
        })
    }

    /// Returns the peers that were called long ago and still sleep.
    pub(super) fn deaf(&mut self, now: Instant) -> impl Iterator<Item = (SocketAddr, &mut Out)> {
        self.links.iter_mut().filter_map(move |link| match &mut link.state {
            State::Open(out) => out.needs_another_call(now).then_some((link.to, &mut **out)),
            State::None { .. } => None,
        })
    }

    /// Returns the time at which the next peer must be called again.
    pub(super) fn next_call(&self) -> Option<Instant> {
        let call = |link: &Link| match &link.state {
            State::Open(out) => Some(out.call?.again_at),
            State::None { .. } => None,
        };
        self.links.iter().filter_map(call).min()
    }

    /// Finds a link. The address is passed by reference, because copying an address that was just
    /// written stalls the processor.
    #[inline]
    fn find(&self, to: &SocketAddr) -> Option<usize> {
        if self.links.get(self.last).is_some_and(|link| link.to == *to) {
            return Some(self.last);
        }
        self.links.iter().position(|link| link.to == *to)
    }

    #[inline]
    fn find_or_make(&mut self, now: Instant, to: &SocketAddr) -> Option<usize> {
        let index = match self.find(to) {
            Some(index) => index,
            None if self.may_link(to.ip()) => {
                let (datagrams, retry_at, backoff_ns) = (0, now, RETRY_MIN_NS);
                let state = State::None { datagrams, retry_at, backoff_ns };
                let unread_retry_ns = UNREAD_RETRY_NS;
                self.links.push(Link {
                    to: *to,
                    made_at: now,
                    used_at: now,
                    state,
                    unread_retry_ns,
                });
                self.links.len() - 1
            }
            None => return None,
        };
        self.last = index;
        Some(index)
    }

    fn may_link(&self, to: IpAddr) -> bool {
        self.links.len() < LINKS_MAX && !self.is_retired && self.is_here(to)
    }

    /// Gives up the rings that are not used any more. It is cheap, and needed only once in a
    /// second.
    pub(super) fn tidy(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus_ns(IDLE_NS / 8);
        self.links.retain(|link| {
            let is_idle = now.ns_since(link.used_at) >= IDLE_NS;
            if is_idle {
                link.close();
            }
            !is_idle
        });
    }

    /// Makes the next attempt happen at once.
    #[cfg(test)]
    pub(super) fn hurry(&mut self) {
        for link in &mut self.links {
            if let State::None { retry_at, .. } = &mut link.state {
                *retry_at = Instant::ZERO;
            }
        }
    }

    /// Returns the peers with a ring that is read.
    #[cfg(test)]
    pub(super) fn read_by(&self) -> impl Iterator<Item = SocketAddr> {
        self.links.iter().filter(|link| link.is_read()).map(|link| link.to)
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.links.iter().for_each(Link::close);
    }
}

impl Link {
    /// Opens a ring if this peer is sent enough and was not tried recently.
    #[cold]
    fn try_to_open(&mut self, now: Instant, local: SocketAddr, key: Option<&RingKey>) {
        let State::None { datagrams, retry_at, backoff_ns } = &mut self.state else { return };
        *datagrams += 1;
        self.used_at = now;
        if *datagrams < WORTH_DATAGRAMS || now < *retry_at {
            return;
        }
        match open(local, self.to, key) {
            Ok((segment, proof)) => {
                // The ring counts as not read yet, so that a datagram is sent to announce it.
                self.state = State::Open(Box::new(Out {
                    segment,
                    writer: Writer::default(),
                    opened_at: now,
                    shown: None,
                    unannounced: Some(Published::Anything),
                    call: None,
                    proof,
                    unread: None,
                }));
            }
            Err(_) => {
                *retry_at = now.plus_ns(*backoff_ns);
                *backoff_ns = (*backoff_ns * 4).min(RETRY_MAX_NS);
            }
        }
    }

    /// Returns true if the peer is worth a ring, and may soon have one.
    fn is_young(&self, now: Instant) -> bool {
        let is_worth = match self.state {
            State::None { datagrams, .. } => datagrams >= WORTH_DATAGRAMS,
            State::Open(_) => true,
        };
        is_worth && now.ns_since(self.made_at) < ACCEPT_NS
    }

    /// Closes a ring that the peer has given up or corrupted.
    #[cold]
    fn forget(&mut self, now: Instant) {
        self.close();
        self.pause(now, RETRY_MAX_NS);
    }

    /// Closes a ring that the peer does not read.
    fn give_up_unread(&mut self, now: Instant) {
        if let State::Open(out) = &self.state {
            if now.ns_since(out.opened_at) >= RETRY_MAX_NS {
                // The peer had read the ring for long.
                self.unread_retry_ns = UNREAD_RETRY_NS;
            }
        }
        self.close();
        self.pause(now, self.unread_retry_ns);
        self.unread_retry_ns = (self.unread_retry_ns * 4).min(RETRY_MAX_NS);
    }

    fn pause(&mut self, now: Instant, pause_ns: u64) {
        let retry_at = now.plus_ns(pause_ns);
        self.state = State::None { datagrams: 0, retry_at, backoff_ns: RETRY_MAX_NS };
    }

    fn close(&self) {
        if let State::Open(out) = &self.state {
            let words = out.segment.words();
            // The file of the ring may wait for long at a listener that does not accept.
            if Writer::reader(words) == ReaderState::Absent {
                out.segment.discard();
            }
            Writer::close(words);
        }
    }

    #[cfg(test)]
    fn is_read(&self) -> bool {
        let State::Open(out) = &self.state else { return false };
        !matches!(Writer::reader(out.segment.words()), ReaderState::Absent | ReaderState::Gone)
    }
}

fn open(
    local: SocketAddr,
    to: SocketAddr,
    key: Option<&RingKey>,
) -> io::Result<(Segment, ReaderProof)> {
    // Closing a descriptor is a cancellation point.
    let _uncancelled = Uncancelled::begin();
    // A ring is made only if the peer has a listener. A connection without a ring is closed, so
    // nothing slow may come between the connection and the ring.
    drop(RingConnection::of(to)?);
    let (segment, file) = Segment::create()?;
    let proof = key.map_or(Ok(ReaderProof::NotAsked), |key| key.offer(&segment, to))?;
    RingConnection::of(to)?.hand_in(local, file.as_fd())?;
    Ok((segment, proof))
}
