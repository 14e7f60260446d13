//! One ring that a queue pair writes.

use std::net::SocketAddr;

use srd::Instant;

use super::outbox::Put;
use super::proof::ReaderProof;
use super::ring::{Published, ReaderState, Writer};
use super::segment::Segment;
use crate::counters::Shown;
use crate::memory::{Gone, Piece};
use crate::wire::batch::Via;

/// So long a ring is as good as open after the first datagram to its peer, and after it was handed
/// in: who looks at its socket at all lets it in meanwhile.
pub(super) const LET_IN_NS: u64 = 20_000_000;
/// A ring that nobody lets in for so long is given up.
const UNANSWERED_NS: u64 = 1_000_000_000;
/// So is one that nobody reads for so long while datagrams have to be repeated. Its reader may have
/// died, and somebody else may have its address.
pub(super) const UNREAD_NS: u64 = 100_000_000;

/// How long after a call its sleeper is called again, if it sleeps on: at first, and at most.
const DEAF_MIN_NS: u64 = 10_000_000;
const DEAF_MAX_NS: u64 = 1_000_000_000;

/// A call that its sleeper has not answered yet, as far as is known.
#[derive(Debug, Clone, Copy)]
pub(super) struct Call {
    /// When it is called again.
    pub(super) again_at: Instant,
    after_ns: u64,
}

/// A ring that is written.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) segment: Segment,
    pub(super) writer: Writer,
    pub(super) opened_at: Instant,
    /// Once something was put into it.
    pub(super) shown: Option<Shown>,
    /// What was published since it was last looked at whether the reader sees it.
    pub(super) unheard: Option<Published>,
    /// The call of the sleeper that is not known to be heard.
    pub(super) call: Option<Call>,
    /// Whether the reader has the key, too.
    pub(super) proof: ReaderProof,
    /// Since when nothing is read, and how much was then.
    pub(super) unread: Option<(Instant, u64)>,
}

/// What an empty datagram says, and to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nudge {
    /// There is something to read.
    Call(SocketAddr),
    /// A ring waits at the door.
    HandedIn(SocketAddr),
}

/// What is to be written.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) len: usize,
    /// Bytes of each of its datagrams, of which the last may be shorter; `len` of a single one.
    pub(super) segment: usize,
    pub(super) via: Via,
}

/// The ring is of no use any more.
pub(super) struct End;

impl Out {
    /// Writes the datagram that `pieces` are, or a train of them of `segment` bytes each.
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
            ReaderState::Asleep | ReaderState::Called | ReaderState::Dozing
                if !matches!(via, Via::Path(_)) => {}
            // The kernel wakes it.
            ReaderState::Asleep | ReaderState::Called | ReaderState::Dozing => {
                return Ok(Put::NotHere);
            }
            ReaderState::Absent if now.ns_since(self.opened_at) < LET_IN_NS => {
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
        self.unheard = self.unheard.max(Some(published));
        Ok(Put::Done)
    }

    /// Bytes of records that it takes now of what would leave by `via` and must not leave by
    /// another way; 0 when nobody reads it, or it is not known that the reader has the key.
    #[inline]
    pub(super) fn room_bytes(&mut self, via: Via) -> usize {
        let words = self.segment.words();
        let is_read = match Writer::reader(words) {
            ReaderState::Absent | ReaderState::Gone => false,
            ReaderState::Awake => true,
            // The kernel wakes it.
            ReaderState::Asleep | ReaderState::Called | ReaderState::Dozing => {
                !matches!(via, Via::Path(_))
            }
        };
        let is_trusted =
            self.proof == ReaderProof::NotAsked || (is_read && self.proof.is_given(&self.segment));
        let is_possible = is_read && is_trusted && !Writer::is_captured(words);
        if is_possible { self.writer.room_bytes(words) } else { 0 }
    }

    /// How its reader, `to`, must be told of what was published, if it must be.
    #[inline]
    pub(super) fn take_untold(&mut self, to: SocketAddr) -> Option<Nudge> {
        let (published, words) = (self.unheard.take()?, self.segment.words());
        let has_mapped = Writer::reader(words) != ReaderState::Absent;
        let nudge = if has_mapped { Nudge::Call(to) } else { Nudge::HandedIn(to) };
        Writer::must_call(words, published).then_some(nudge)
    }

    /// What [`Out::take_untold`] asked for could not be done: it is still to be done.
    #[cold]
    pub(super) fn was_not_called(&mut self) {
        self.unheard = Some(Published::Anything);
        Writer::take_back_call(self.segment.words());
    }

    /// The sleeper was called; when that is to be done again.
    pub(super) fn was_called(&mut self, now: Instant) -> Instant {
        let again_at = now.plus_ns(DEAF_MIN_NS);
        self.call = Some(Call { again_at, after_ns: DEAF_MIN_NS });
        again_at
    }

    /// The same once more for one call.
    pub(super) fn was_called_again(&mut self, now: Instant) {
        if let Some(call) = &mut self.call {
            call.after_ns = (call.after_ns * 2).min(DEAF_MAX_NS);
            call.again_at = now.plus_ns(call.after_ns);
        }
    }

    /// The sleeper was called long ago and sleeps on, with something to read.
    pub(super) fn is_deaf(&mut self, now: Instant) -> bool {
        if self.call.is_none_or(|call| now < call.again_at) {
            return false;
        }
        let words = self.segment.words();
        let is_deaf =
            Writer::reader(words) == ReaderState::Called && self.writer.is_drained(words).is_err();
        if !is_deaf {
            self.call = None;
        }
        is_deaf
    }

    /// Nobody has read for too long what is there.
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
