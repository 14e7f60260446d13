//! The rings that a queue pair reads.

use std::net::SocketAddr;

use srd::Instant;

use super::proof::RingKey;
use super::ring::{Found, Reader, ReaderState};
use super::ring_listener::OfferedRing;
use super::segment::Segment;
use crate::framing::{Layout, RDMA_BLOCK_BYTES};
use crate::memory::Piece;
use crate::wire::Sleep;

/// The most rings that are read. Others are not accepted.
const RINGS_MAX: usize = 64;
/// The most bytes of equal datagrams that are read together.
const RUN_BYTES_MAX: usize = 16 << 10;
const RUN_DATAGRAMS_MAX: usize = 32;
/// The most runs of a ring until the other rings have their turn.
const TURN_RUNS_MAX: u32 = 64;
/// The length from which on a datagram is lent in place, except for its headers.
pub(super) const LENT_BYTES_MIN: usize = 2048;
/// The length that most headers do not exceed.
const HEADERS_BYTES: usize = 128;
/// The most header bytes of a lent datagram. A frame consists of headers only, and is never lent.
const HEADERS_BYTES_MAX: usize = srd::HEADER_MAX + RDMA_BLOCK_BYTES;
const _: () = assert!(srd::HEADER_MAX + srd::wire::frame::FRAME_BYTES_MAX < LENT_BYTES_MIN);
/// The time without a datagram after which a ring is given up. Its writer gives it up before.
const IDLE_NS: u64 = 30_000_000_000;

/// A ring that is read.
#[derive(Debug)]
struct In {
    from: SocketAddr,
    segment: Segment,
    /// The writer of the ring has the key of this device.
    is_proven: bool,
    reader: Reader,
    /// The record that was found last, from which a caller may still copy.
    lent: Option<Found>,
    used_at: Instant,
    is_over: bool,
}

/// The rings that a queue pair reads; see the module.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    rings: Vec<In>,
    /// The key of the device, if it has one.
    key: Option<RingKey>,
    /// The ring whose turn it is.
    next: usize,
    /// The number of runs that it has given in this turn.
    turn_runs: u32,
    /// The state that this side publishes to writers.
    state: ReaderState,
    /// A capture reads what arrives, and all writers know.
    is_captured: bool,
    next_look: Instant,
}

/// Equal datagrams of one writer (the last may be shorter), copied out, or the headers of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Taken {
    pub(super) from: SocketAddr,
    /// The bytes of each datagram.
    pub(super) segment: usize,
    /// The bytes behind the headers of the datagram, lent until the next call.
    pub(super) rest: Option<Piece>,
    /// The writer has the key of this device.
    pub(super) is_proven: bool,
}

impl Inbox {
    /// Makes the inbox of a queue pair whose device may have a key.
    pub(super) fn new(key: Option<RingKey>) -> Self {
        let (rings, next_look) = (Vec::new(), Instant::ZERO);
        let (state, is_captured) = (ReaderState::Awake, false);
        Self { rings, key, next: 0, turn_runs: 0, state, is_captured, next_look }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rings.is_empty()
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.state != ReaderState::Awake
    }

    /// Accepts a ring, in addition to older ones of the same writer, which may still hold
    /// datagrams.
    pub(super) fn admit(&mut self, now: Instant, offered: OfferedRing) {
        let OfferedRing { from, file } = offered;
        if self.rings.len() >= RINGS_MAX {
            return;
        }
        let Ok(segment) = Segment::open(file) else { return };
        let is_proven = self.key.as_ref().is_some_and(|key| key.accept(&segment, from));
        Reader::store_captured(segment.words(), self.is_captured);
        Reader::store_accepts_trains(segment.words());
        Reader::store_state(segment.words(), self.state);
        let (reader, lent, used_at, is_over) = (Reader::default(), None, now, false);
        self.rings.push(In { from, segment, is_proven, reader, lent, used_at, is_over });
    }

    /// Publishes to all writers whether a capture reads what arrives.
    #[inline]
    pub(super) fn set_captured(&mut self, is_captured: bool) {
        if self.is_captured != is_captured {
            self.is_captured = is_captured;
            for ring in &self.rings {
                Reader::store_captured(ring.segment.words(), is_captured);
            }
        }
    }

    /// Returns true if `from` writes a ring that is read, and has not closed it.
    pub(super) fn is_written_by(&self, from: SocketAddr) -> bool {
        let is_open = |ring: &In| !ring.is_over && !Reader::is_writer_gone(ring.segment.words());
        self.rings.iter().any(|ring| ring.from == from && is_open(ring))
    }

    /// Reads one of the rings; the bytes replace those of `out`. Of long datagrams with `headers`
    /// only the headers are copied.
    #[inline]
    pub(super) fn take(
        &mut self,
        now: Instant,
        headers: Option<Layout>,
        out: &mut Vec<u8>,
    ) -> Option<Taken> {
        let count = self.rings.len();
        for step in 0..count {
            let index =
                if self.next + step < count { self.next + step } else { self.next + step - count };
            let ring = &mut self.rings[index];
            if let Some(taken) = ring.take(now, headers, out) {
                self.count_run(index);
                return Some(taken);
            }
        }
        self.end_turn(self.next);
        None
    }

    /// Gives the ring at `index` another turn after it had something, because bursts are read in
    /// bursts; a ring that is never empty does not delay the others.
    #[inline]
    fn count_run(&mut self, index: usize) {
        if index != self.next {
            (self.next, self.turn_runs) = (index, 0);
        }
        self.turn_runs += 1;
        if self.turn_runs >= TURN_RUNS_MAX {
            self.end_turn(index);
        }
    }

    #[inline]
    fn end_turn(&mut self, index: usize) {
        self.turn_runs = 0;
        self.next = if index + 1 < self.rings.len() { index + 1 } else { 0 };
    }

    /// Makes writers wake this side with datagrams. Returns true if something came in between, so
    /// that it must not sleep yet.
    pub(super) fn sleep(&mut self, sleep: Sleep) -> bool {
        self.state = match sleep {
            Sleep::Sound => ReaderState::Asleep,
            Sleep::Light => ReaderState::LightlyAsleep,
        };
        let state = self.state;
        self.rings.iter_mut().fold(false, |has_some, ring| {
            if !ring.is_over && Reader::has_other_state(ring.segment.words(), state) {
                Reader::store_state(ring.segment.words(), state);
            }
            has_some | ring.has_some()
        })
    }

    /// Tells writers that the rings are polled from now on.
    pub(super) fn wake(&mut self) {
        self.state = ReaderState::Awake;
        for ring in self.rings.iter().filter(|ring| !ring.is_over) {
            Reader::store_state(ring.segment.words(), ReaderState::Awake);
        }
    }

    /// Gives up rings that are not written any more. It is cheap, and once in a second is enough.
    pub(super) fn tidy(&mut self, now: Instant) {
        if now < self.next_look {
            return;
        }
        self.next_look = now.plus_ns(IDLE_NS / 32);
        let state = self.state;
        self.rings.retain_mut(|ring| {
            let is_closed = Reader::is_writer_gone(ring.segment.words()) && !ring.has_some();
            let is_idle = now.ns_since(ring.used_at) >= IDLE_NS;
            if !ring.is_over && !is_closed && !is_idle {
                return true;
            }
            ring.close();
            // The writer may have published something before it could see the change.
            let stays = !ring.is_over && ring.has_some();
            if stays {
                Reader::store_state(ring.segment.words(), state);
                ring.used_at = now;
            }
            stays
        });
        // There may be fewer rings than the turn counts to.
        (self.next, self.turn_runs) = (0, 0);
    }

    /// Makes all rings look idle for so long that they are given up.
    #[cfg(test)]
    pub(super) fn age(&mut self) {
        for ring in &mut self.rings {
            ring.used_at = Instant::ZERO;
        }
        self.next_look = Instant::ZERO;
    }

    /// Publishes that a line more is free, without reading.
    #[cfg(test)]
    pub(super) fn pretend_to_read(&self) {
        for ring in &self.rings {
            let order = std::sync::atomic::Ordering::Release;
            ring.segment.words()[super::ring::FREED_AT].fetch_add(1, order);
        }
    }

    /// Makes the next check happen at once.
    #[cfg(any(test, fuzzing))]
    pub(super) fn hurry(&mut self) {
        self.next_look = Instant::ZERO;
    }

    /// Returns the line of the next record in the ring of `port`, while it is read.
    #[cfg(any(test, fuzzing))]
    pub(super) fn next_line(&self, port: u16) -> Option<u64> {
        let ring = self.rings.iter().find(|ring| ring.from.port() == port)?;
        Some(ring.reader.at + ring.lent.map_or(0, |lent| lent.lines()))
    }

    /// Makes this side a reader that does not accept trains.
    #[cfg(test)]
    pub(super) fn forget_trains(&self) {
        self.rings.iter().for_each(|ring| Reader::forget_trains(ring.segment.words()));
    }

    /// Returns the writers of rings.
    #[cfg(test)]
    pub(super) fn written_by(&self) -> impl Iterator<Item = SocketAddr> {
        self.rings.iter().map(|ring| ring.from)
    }
}

impl Drop for Inbox {
    fn drop(&mut self) {
        self.rings.iter().for_each(In::close);
    }
}

impl In {
    #[inline]
    fn take(&mut self, now: Instant, headers: Option<Layout>, out: &mut Vec<u8>) -> Option<Taken> {
        let first = self.find()?;
        out.clear();
        self.used_at = now;
        if first.len >= LENT_BYTES_MIN && first.segment == first.len {
            if let Some(taken) = headers.and_then(|layout| self.lend(first, layout, out)) {
                return Some(taken);
            }
        }
        self.copy(first, out);
        let Self { from, is_proven, .. } = *self;
        let taken = Taken { from, segment: first.segment.max(1), rest: None, is_proven };
        if first.segment < first.len {
            return Some(taken);
        }
        let mut count = 1;
        while count < RUN_DATAGRAMS_MAX && out.len() + first.len <= RUN_BYTES_MAX {
            let Some(found) = self.find() else { break };
            if found.len > first.len || found.len == 0 || found.segment < found.len {
                break;
            }
            self.copy(found, out);
            count += 1;
            if found.len < first.len {
                break;
            }
        }
        Some(taken)
    }

    /// Copies the headers of a datagram only; `None` if that is not enough.
    #[inline]
    fn lend(&mut self, found: Found, layout: Layout, out: &mut Vec<u8>) -> Option<Taken> {
        let segment = [HEADERS_BYTES, HEADERS_BYTES_MAX].into_iter().find_map(|len| {
            out.clear();
            self.segment.read(found.word, len, out);
            layout.lent_from(out, self.is_proven)
        });
        out.truncate(segment.unwrap_or(0));
        let segment = segment?;
        self.lent = Some(found);
        let rest = self.segment.piece(found.word, segment, found.len - segment);
        let Self { from, is_proven, .. } = *self;
        Some(Taken { from, segment, rest: Some(rest), is_proven })
    }

    fn copy(&mut self, found: Found, out: &mut Vec<u8>) {
        self.segment.read(found.word, found.len, out);
        self.reader.pass(self.segment.words(), found);
    }

    fn find(&mut self) -> Option<Found> {
        if let Some(lent) = self.lent.take() {
            self.reader.pass(self.segment.words(), lent);
        }
        if self.is_over {
            return None;
        }
        self.reader.find(self.segment.words()).unwrap_or_else(|_| {
            // Nothing can be found behind a corrupt record, and its writer must learn that.
            self.is_over = true;
            self.close();
            None
        })
    }

    fn has_some(&mut self) -> bool {
        self.find().is_some()
    }

    fn close(&self) {
        Reader::store_state(self.segment.words(), ReaderState::Gone);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::memory::Piece;
    use crate::wire::memory::ring::{self, Writer};

    /// Makes a writer and its ring, which `inbox` reads.
    fn admit(inbox: &mut Inbox, port: u16) -> (Writer, Segment) {
        let (segment, file) = Segment::create().unwrap();
        let from = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        inbox.admit(Instant::ZERO, OfferedRing { from, file });
        (Writer::default(), segment)
    }

    fn put((writer, segment): &mut (Writer, Segment), bytes: &[u8]) {
        let word = writer.claim(segment.words(), bytes.len()).unwrap().unwrap();
        let piece = Piece { addr: bytes.as_ptr() as usize as u64, len: bytes.len() };
        segment.write(word, &[piece]).unwrap();
        writer.publish(segment.words(), bytes.len(), bytes.len());
    }

    /// The turn of the eighth of eight rings comes when only two are left.
    #[test]
    fn turns_go_on_when_most_writers_leave_at_once() {
        let mut inbox = Inbox::default();
        let mut writers: Vec<_> = (0..8).map(|port| admit(&mut inbox, port)).collect();
        let mut out = Vec::new();
        put(&mut writers[7], b"first");
        assert_eq!(inbox.take(Instant::ZERO, None, &mut out).unwrap().from.port(), 7);
        for (_, segment) in &writers[..6] {
            Writer::close(segment.words());
        }
        inbox.hurry();
        inbox.tidy(Instant::ZERO);
        assert_eq!(inbox.written_by().count(), 2);
        put(&mut writers[7], b"second");
        assert_eq!(inbox.take(Instant::ZERO, None, &mut out).unwrap().from.port(), 7);
        assert_eq!(out, b"second");
    }

    /// A ring that was given up is not read again.
    #[test]
    fn a_ring_that_is_given_up_stays_so() {
        let mut inbox = Inbox::default();
        let (_, segment) = admit(&mut inbox, 0);
        let first = ring::words_for(0);
        segment.words()[first].store(1, std::sync::atomic::Ordering::Relaxed);
        assert!(inbox.take(Instant::ZERO, None, &mut Vec::new()).is_none());
        inbox.sleep(Sleep::Sound);
        inbox.wake();
        assert_eq!(Writer::reader(segment.words()), ReaderState::Gone);
    }

    /// Every ring has its turn, also while another one is never empty.
    #[test]
    fn a_ring_that_is_never_empty_keeps_nobody_waiting() {
        let mut inbox = Inbox::default();
        let (mut busy, mut quiet) = (admit(&mut inbox, 0), admit(&mut inbox, 1));
        put(&mut busy, b"always");
        let mut out = Vec::new();
        inbox.take(Instant::ZERO, None, &mut out).unwrap();
        put(&mut quiet, b"once");
        let mut ports = std::iter::from_fn(|| {
            put(&mut busy, b"always");
            inbox.take(Instant::ZERO, None, &mut out).map(|taken| taken.from.port())
        });
        assert!(ports.by_ref().take(1000).any(|port| port == 1), "only from the busy one");
        assert!(ports.take(3).all(|port| port == 0), "turns come in bursts");
    }
}
