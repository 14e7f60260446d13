//! Admission of new connections, and rate-limited answers to senders that are not admitted. The
//! answers need no state and are shorter than what they answer (SRD-3.11).

use super::Endpoint;
use super::guesses::Bucket;
use crate::secret::Opening;
use crate::wire::control::{CHALLENGE_LEN, Challenge, REFUSED_LEN, RESET_LEN, Refused, emit_reset};
use crate::wire::{DataRepr, DropRange, Flags, Header, Kind};
use crate::{Address, DropReason, HEADER_MAX, Instant, PSN_WINDOW, PathId, Psn, Status, Transmit};
use std::collections::VecDeque;

/// A token bucket for answers of one kind.
#[derive(Clone, Copy, Debug)]
struct Allowance {
    /// Answers that may be sent at once after a quiet time.
    burst: u64,
    /// The time after which one more answer is allowed. An answer costs a system call: a flood of
    /// requests must not take time from live traffic.
    interval_ns: u64,
}

/// Answers of one kind that wait to be sent.
const WAITING_MAX: usize = 256;

/// A RESET ends everything that is in flight.
const RESETS: Allowance = Allowance { burst: 16, interval_ns: 1_000_000 };
const REFUSALS: Allowance = Allowance { burst: 256, interval_ns: 1_000_000 };
/// When a job of thousands starts, each process needs a challenge, even while others guess keys.
const CHALLENGES: Allowance = Allowance { burst: 16_384, interval_ns: 250_000 };

#[derive(Clone, Copy, Debug)]
enum Answer {
    /// There is no such connection (SRD-3.5).
    Reset,
    /// These messages open none (SRD-3.9).
    Refused(DropRange),
    /// Prove your address with this cookie (SRD-3.10).
    Challenge(u64),
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    to: Address,
    conn: u64,
    path: PathId,
    answer: Answer,
}

/// Answers of one kind.
#[derive(Debug, Default)]
struct Queue {
    entries: VecDeque<Entry>,
    /// The time at which the whole burst will be available again.
    full_at: Instant,
}

impl Queue {
    /// Takes one answer from the allowance; false when none is left.
    fn try_take(&mut self, now: Instant, allowance: Allowance) -> bool {
        let Allowance { burst, interval_ns } = allowance;
        let start = self.full_at.max(now);
        let may =
            self.entries.len() < WAITING_MAX && start.ns_since(now) <= (burst - 1) * interval_ns;
        if may {
            self.full_at = start.plus_ns(interval_ns);
        }
        may
    }
}

/// Answers to strangers, limited in rate so that they cannot be used to flood a third party.
#[derive(Debug, Default)]
pub(super) struct Answers {
    resets: Queue,
    refused: Queue,
    challenges: Queue,
    waiting: usize,
}

impl Answers {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0
    }

    /// Queues an answer; false when too many are queued or were sent lately.
    fn enqueue(&mut self, now: Instant, entry: Entry) -> bool {
        let (queue, allowance) = match entry.answer {
            Answer::Reset => (&mut self.resets, RESETS),
            Answer::Refused(_) => (&mut self.refused, REFUSALS),
            Answer::Challenge(_) => (&mut self.challenges, CHALLENGES),
        };
        if queue.entries.iter_mut().any(|waiting| waiting.merge(&entry)) {
            return true;
        }
        if !queue.try_take(now, allowance) {
            return false;
        }
        queue.entries.push_back(entry);
        self.waiting += 1;
        true
    }

    fn pop(&mut self) -> Option<Entry> {
        let queues = [&mut self.resets, &mut self.challenges, &mut self.refused];
        let entry = queues.into_iter().find_map(|queue| queue.entries.pop_front())?;
        self.waiting -= 1;
        Some(entry)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let queues = [&self.resets, &self.challenges, &self.refused];
        queues.map(|queue| queue.entries.capacity()).iter().sum::<usize>() * size_of::<Entry>()
    }
}

impl Entry {
    /// Merges `other` into this answer, which may get longer, if they can be sent as one.
    fn merge(&mut self, other: &Self) -> bool {
        if self.conn != other.conn || self.to != other.to {
            return false;
        }
        let (Answer::Refused(range), Answer::Refused(more)) = (&mut self.answer, &other.answer)
        else {
            return true;
        };
        let ahead = more.psn.ahead_of(range.psn);
        if ahead == i32::from(range.count) && u32::from(range.count) < PSN_WINDOW {
            range.count += 1;
            return true;
        }
        (0..i32::from(range.count)).contains(&ahead)
    }

    /// Writes the datagram and returns its length.
    fn emit(&self, src_qpn: u16, header: &mut [u8; HEADER_MAX]) -> Option<usize> {
        let Self { to, conn, path, answer } = *self;
        let kind = match answer {
            Answer::Reset => Kind::Reset,
            Answer::Refused(_) => Kind::Refused,
            Answer::Challenge(_) => Kind::Challenge,
        };
        let common = Header { kind, flags: Flags::default(), path, src_qpn, dst_qpn: to.qpn };
        Some(match answer {
            Answer::Reset => emit_reset(&common, conn, header.first_chunk_mut::<RESET_LEN>()?),
            Answer::Refused(range) => {
                Refused { conn, range }.emit(&common, header.first_chunk_mut::<REFUSED_LEN>()?)
            }
            Answer::Challenge(cookie) => {
                let out = header.first_chunk_mut::<CHALLENGE_LEN>()?;
                Challenge { conn, cookie }.emit(&common, out)
            }
        })
    }
}

impl Endpoint {
    /// Admits a data block that belongs to no connection, if it may open one, and returns its
    /// peer's index. Nothing is allocated or remembered before that is decided (SRD-3.9, SRD-3.10).
    #[cold]
    pub(super) fn admit(
        &mut self,
        now: Instant,
        from: Address,
        path: PathId,
        data: &DataRepr,
    ) -> Result<u32, DropReason> {
        let conn = data.conn;
        if conn == 0 {
            return Err(DropReason::Malformed);
        }
        let Some(cookie) = data.cookie else {
            self.answer_stranger(now, Entry { to: from, conn, path, answer: Answer::Reset });
            return Err(DropReason::UnknownConn);
        };
        let known = self.peers.find(from);
        let current =
            known.and_then(|index| self.peers.by_index_mut(index)).map_or(0, |p| p.recv.conn());
        let what = Opening { from, conn, current };
        if let Err((why, answer)) = self.check_opening(now, &what, known, data, cookie) {
            match answer {
                Some(answer) => self.answer_stranger(now, Entry { to: from, conn, path, answer }),
                None => self.shared.stats.strangers.unanswered += 1,
            }
            return Err(why);
        }
        if known.is_none() && self.peers.len() >= self.shared.config.peers_max {
            self.shared.stats.strangers.turned_away += 1;
            return Err(DropReason::Crowded);
        }
        let index = self.find_or_make(now, from);
        if let Some(peer) = self.peers.by_index_mut(index) {
            peer.recv.open(data);
        }
        Ok(index)
    }

    /// Checks the queue key of an opening and the proof of its address. The error has the answer
    /// for the sender, if there is one.
    fn check_opening(
        &mut self,
        now: Instant,
        what: &Opening,
        known: Option<u32>,
        data: &DataRepr,
        cookie: u64,
    ) -> Result<(), (DropReason, Option<Answer>)> {
        let refused = Err((DropReason::Refused, Some(Answer::Refused(refusal(data.psn)))));
        if self.closing || self.is_known_wrong(data.qkey) {
            return refused;
        }
        let is_wrong = self.qkey.is_some_and(|key| key != data.qkey);
        let is_guarded = self.qkey.is_some() && !self.guesses.has_free_checks(now);
        if is_wrong && !is_guarded {
            self.guesses.note_wrong(now, data.qkey, None);
            return refused;
        }
        // From here on a wrong key must look like the right one until it has been counted.
        let is_challenged = is_guarded || self.needs_proof(known, what.current);
        if is_challenged && !self.is_proof(now, what, cookie) {
            let cookie = self.shared.secret.cookie(now, what);
            return Err((DropReason::Unproven, Some(Answer::Challenge(cookie))));
        }
        if is_guarded {
            let bucket = self.bucket_of(now, what.from, known.is_some());
            if !self.guesses.has_room(now, bucket) {
                return Err((DropReason::Unjudged, None));
            }
            if is_wrong {
                self.guesses.note_wrong(now, data.qkey, Some(bucket));
                return refused;
            }
        }
        Ok(())
    }

    /// Returns whether the key was found to be wrong before: to refuse it again reveals nothing.
    fn is_known_wrong(&self, qkey: u32) -> bool {
        self.qkey.is_some_and(|key| key != qkey) && self.guesses.is_known(qkey)
    }

    /// Returns the bucket that counts the wrong keys of `from` (SRD-3.12).
    fn bucket_of(&self, now: Instant, from: Address, is_known: bool) -> Bucket {
        let secret = &self.shared.secret;
        if is_known {
            return Bucket::of_peer(secret.hash_address(now, from.host, from.qpn));
        }
        let own = &self.shared.config.own_hosts;
        let machine = if own.contains(&from.host) { own.start } else { from.host };
        Bucket::of_stranger(
            secret.hash_machine(machine),
            secret.hash_address(now, from.host, from.qpn),
        )
    }

    /// Returns whether the opener must prove its address: it replaces another connection, or uses
    /// up room that other openers may need.
    fn needs_proof(&self, known: Option<u32>, current: u64) -> bool {
        let config = &self.shared.config;
        let is_crowded = known.is_none() && self.peers.len() > config.peers_max / 2;
        current != 0 || is_crowded || config.always_challenge
    }

    /// Returns whether `cookie` proves the address: it is the token of the current connection,
    /// which only its opener knows, or a cookie that we sent to this address.
    fn is_proof(&self, now: Instant, what: &Opening, cookie: u64) -> bool {
        let knows_current = what.current != 0 && cookie == what.current;
        knows_current || self.shared.secret.is_cookie(now, what, cookie)
    }

    fn answer_stranger(&mut self, now: Instant, entry: Entry) {
        let given = self.answers.enqueue(now, entry);
        self.shared.stats.strangers.unanswered += u64::from(!given);
    }

    #[cold]
    pub(super) fn next_answer(&mut self, header: &mut [u8; HEADER_MAX]) -> Option<Transmit> {
        let mut entry = self.answers.pop()?;
        entry.path = PathId(entry.path.0 % self.shared.config.paths.max(1));
        let header_len = entry.emit(self.qpn, header)?;
        self.shared.stats.tx_datagrams += 1;
        let counts = &mut self.shared.stats.strangers;
        match entry.answer {
            Answer::Reset => counts.resets += 1,
            Answer::Refused(_) => counts.refused += 1,
            Answer::Challenge(_) => counts.challenges += 1,
        }
        Some(Transmit {
            peer: None,
            addr: entry.to,
            path: entry.path,
            header_len,
            msg: None,
            payload_len: 0,
            framed: 0,
            retransmission: false,
        })
    }
}

fn refusal(psn: Psn) -> DropRange {
    DropRange { psn, count: 1, status: Status::BadDestQpn, retry: false }
}
