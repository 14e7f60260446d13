//! A ring that a queue pair writes.

use std::net::SocketAddr;

use srd::Instant;

use super::outbox::Put;
use super::proof::ReaderProof;
use super::ring::{Published, ReaderState, Writer};
use super::segment::Segment;
use crate::counters::Shown;
use crate::memory::{Gone, Piece};
use crate::wire::batch::Via;

/// The time for which a ring counts as open after the first datagram to its peer, and after it was
/// handed over: a reader that polls its socket accepts it within that time.
pub(super) const ACCEPT_NS: u64 = 20_000_000;
/// A ring that is not accepted within this time is given up.
const UNANSWERED_NS: u64 = 1_000_000_000;
/// A ring that is not read for this long while datagrams have to be repeated is given up. Its
/// reader may have died, and another process may have its address.
pub(super) const UNREAD_NS: u64 = 100_000_000;

/// The time after a call until a sleeper is called again if it still sleeps, at first.
const CALL_AGAIN_MIN_NS: u64 = 10_000_000;
/// The most of that time, which doubles with each call.
const CALL_AGAIN_MAX_NS: u64 = 1_000_000_000;

/// A call that may not have reached its sleeper.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// The time of the next call.
    pub(super) again_at: Instant,
    after_ns: u64,
}

/// A ring that a queue pair writes.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) segment: Segment,
    pub(super) writer: Writer,
    pub(super) opened_at: Instant,
    /// The entry for other processes, which is made when the first datagram is written.
    pub(super) shown: Option<Shown>,
    /// The kind of records published since the reader was last checked.
    pub(super) unannounced: Option<Published>,
    /// The call that may not have reached the sleeper.
    pub(super) call: Option<Call>,
    /// The state of the reader's proof that it has the key.
    pub(super) proof: ReaderProof,
    /// The time since which nothing has been read, and the position at that time.
    pub(super) unread: Option<(Instant, u64)>,
}

/// The meaning of an empty datagram, and its receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nudge {
    /// There is something to read.
    Call(SocketAddr),
    /// A ring waits to be accepted.
    HandedIn(SocketAddr),
}

/// The description of a record that is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) len: usize,
    /// The length of each datagram, of which the last may be shorter; `len` for a single datagram.
    pub(super) segment: usize,
    pub(super) via: Via,
}

/// The error of a ring that cannot be used any more.
pub(super) struct End;

impl Out {
    /// Writes `pieces` as one datagram, or as a train of datagrams of `segment` bytes each.
    #[inline]
    pub(super) fn put(
        &mut self,
        now: Instant,
        Record { len, segment, via }: Record,
        pieces: &[Piece],
    ) -> Result<Put, End> {
        let words = self.segment.words();
        match Writer::reader(words) {
            ReaderState::Awake => {}
            // A nudge will wake it.
            ReaderState::Asleep | ReaderState::Called | ReaderState::LightlyAsleep
                if !matches!(via, Via::Path(_)) => {}
            // The kernel wakes it.
            ReaderState::Asleep | ReaderState::Called | ReaderState::LightlyAsleep => {
                return Ok(Put::NotHere);
            }
            ReaderState::Absent if now.ns_since(self.opened_at) < ACCEPT_NS => {
                return Ok(Put::Full);
            }
            ReaderState::Absent if now.ns_since(self.opened_at) < UNANSWERED_NS => {
                return Ok(Put::NotHere);
            }
            ReaderState::Absent | ReaderState::Gone => return Err(End),
        }
        let Some(word) = self.writer.claim(words, len).map_err(|_| End)? else {
            return Ok(Put::Full);
        };
        if let Err(Gone) = self.segment.write(word, pieces) {
            return Ok(Put::Gone);
        }
        self.writer.publish(self.segment.words(), len, segment);
        let is_ack = matches!(via, Via::Acknowledgement(_));
        let published = if is_ack { Published::Acknowledgements } else { Published::Anything };
        self.unannounced = self.unannounced.max(Some(published));
        Ok(Put::Done)
    }

    /// Returns the number of bytes of records for which the ring has room now, of datagrams that
    /// would leave by `via` and must not leave another way; 0 if the ring is not read, or the
    /// reader is not known to have the key.
    #[inline]
    pub(super) fn room_bytes(&mut self, via: Via) -> usize {
        let words = self.segment.words();
        let is_read = match Writer::reader(words) {
            ReaderState::Absent | ReaderState::Gone => false,
            ReaderState::Awake => true,
            // The kernel wakes it.
            ReaderState::Asleep | ReaderState::Called | ReaderState::LightlyAsleep => {
                !matches!(via, Via::Path(_))
            }
        };
        let is_trusted =
            self.proof == ReaderProof::NotAsked || (is_read && self.proof.is_given(&self.segment));
        let is_possible = is_read && is_trusted && !Writer::is_captured(words);
        if is_possible { self.writer.room_bytes(words) } else { 0 }
    }

    /// Returns the empty datagram that tells the reader, `to`, of the published records, if it
    /// needs one.
    #[inline]
    pub(super) fn take_announcement(&mut self, to: SocketAddr) -> Option<Nudge> {
        let (published, words) = (self.unannounced.take()?, self.segment.words());
        let has_mapped = Writer::reader(words) != ReaderState::Absent;
        let nudge = if has_mapped { Nudge::Call(to) } else { Nudge::HandedIn(to) };
        Writer::must_call(words, published).then_some(nudge)
    }

    /// Notes that the datagram of [`Out::take_announcement`] could not be sent and is still needed.
    #[cold]
    pub(super) fn was_not_called(&mut self) {
        self.unannounced = Some(Published::Anything);
        Writer::take_back_call(self.segment.words());
    }

    /// Notes a call, and returns the time of the next one.
    pub(super) fn was_called(&mut self, now: Instant) -> Instant {
        let again_at = now.plus_ns(CALL_AGAIN_MIN_NS);
        self.call = Some(Call { again_at, after_ns: CALL_AGAIN_MIN_NS });
        again_at
    }

    /// Notes a repeated call.
    pub(super) fn was_called_again(&mut self, now: Instant) {
        if let Some(call) = &mut self.call {
            call.after_ns = (call.after_ns * 2).min(CALL_AGAIN_MAX_NS);
            call.again_at = now.plus_ns(call.after_ns);
        }
    }

    /// Returns true if the sleeper was called long ago and has not read yet.
    pub(super) fn needs_another_call(&mut self, now: Instant) -> bool {
        if self.call.is_none_or(|call| now < call.again_at) {
            return false;
        }
        let words = self.segment.words();
        let needs_another_call =
            Writer::reader(words) == ReaderState::Called && self.writer.is_drained(words).is_err();
        if !needs_another_call {
            self.call = None;
        }
        needs_another_call
    }

    /// Returns true if there are records that the reader has not read for too long.
    pub(super) fn is_unread(&mut self, now: Instant) -> bool {
        let Err(freed) = self.writer.is_drained(self.segment.words()) else {
            self.unread = None;
            return false;
        };
        match self.unread {
            Some((since, before)) if before == freed => now.ns_since(since) >= UNREAD_NS,
            _ => {
                self.unread = Some((now, freed));
                false
            }
        }
    }
}
