//! Records that travel together: they come one by one, as a schedule says or as fast as they are
//! taken, and leave several to a message, when it is full or its first record has waited long enough.
//!
//! The clocks of two hosts differ, and half of a round trip is no measurement of one way. So each
//! message is answered at once, and two times are kept, both of the sender's clock: from the moment
//! for which a record was intended to the answer, and the part of it until its message was posted,
//! which is what travelling together adds.

use std::ops::Range;
use std::time::{Duration, Instant};

use bench_record::failure::Failure;
use bench_record::spec::PointSpec;

use super::Place;
use super::caller::wrong;
use super::message::{Code, HEADER_BYTES, Header};
use super::pace::{Activity, Pace};
use super::server::{Answer, Service};
use crate::backend::Backend;
use crate::bench::Measured;
use crate::lane::Port;
use crate::link::Link;
use crate::pattern;

/// What each record does, and the part of it before its message leaves.
const KINDS: [&str; 1] = ["record"];
const PARTS: [&str; 1] = ["wait"];
const RECORD: usize = 0;
const WAIT: usize = 0;

/// A message that is being filled, in a slot of its own.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u32,
    slot: usize,
    records: usize,
}

/// The messages of one endpoint; a message's number is its place.
struct Session {
    free: Vec<u32>,
    /// Records of each message that waits for its answer.
    records: Vec<usize>,
    /// When each of them was due: `per_message` places for each message.
    due: Vec<Instant>,
    open: Option<Open>,
}

/// One thread's side of a point.
struct Gatherer {
    per_message: usize,
    flush_after: Duration,
    sessions: Vec<Session>,
    /// What records are copied from; with a content of its own each where it is checked.
    record: Vec<u8>,
    sequence: u64,
}

/// The client's side of a point.
pub(super) fn send<B: Backend>(
    links: &mut [Link<B>],
    port: &Port,
    point: PointSpec,
    place: &mut Place,
) -> Result<Measured, Failure> {
    let (depth, per_message) = (point.depth, point.parameter.max(1));
    let session = || Session {
        free: (0..u32::try_from(depth).unwrap_or(u32::MAX)).rev().collect(),
        records: vec![0; depth],
        due: vec![Instant::now(); depth * per_message],
        open: None,
    };
    let pace = Pace::new(point, port, place.random.next(), (&KINDS, &PARTS))?;
    let mut gatherer = Gatherer {
        per_message,
        flush_after: Duration::from_micros(place.work.flush_us),
        sessions: links.iter().map(|_| session()).collect(),
        record: vec![0x5a; point.size_bytes],
        sequence: 0,
    };
    pace.run(links, port, &mut gatherer)
}

impl<B: Backend> Activity<B> for Gatherer {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let (session, per_message) = (&mut self.sessions[number], self.per_message);
        pace.collect(link, |pace, answer| session.take(pace, answer, per_message))
    }

    #[inline]
    fn issue(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let mut posted = 0;
        while self.fill(pace, link, number)? && self.flush(pace, link, number)? {
            posted += 1;
        }
        Ok(posted)
    }

    fn abandon(&mut self, pace: &mut Pace, link: &mut Link<B>, number: usize) {
        let per_message = self.per_message;
        let session = &mut self.sessions[number];
        if let Some(open) = session.open.take() {
            let first = open.number as usize * per_message;
            for due in &session.due[first..first + open.records] {
                pace.give_up(RECORD, WAIT, *due);
            }
            session.free.push(open.number);
            link.put_back(open.slot);
        }
    }

    fn is_idle(&self, number: usize) -> bool {
        let session = &self.sessions[number];
        session.free.len() == session.records.len()
    }
}

impl Session {
    /// Takes an answer: the records of a message have arrived.
    #[inline]
    fn take(&mut self, pace: &mut Pace, answer: &[u8], per_message: usize) -> Result<(), Failure> {
        let (header, _) = Header::of_reply(answer)?;
        let message = header.call as usize;
        let records = self.records.get(message).copied().unwrap_or(0);
        if records == 0 {
            return Err(wrong("is for a message that is not outstanding"));
        }
        let first = message * per_message;
        for due in &self.due[first..first + records] {
            pace.end(RECORD, *due, 1);
        }
        self.records[message] = 0;
        self.free.push(header.call);
        Ok(())
    }
}

impl Gatherer {
    /// Puts what is due into the open message; answers whether it is to leave.
    #[inline]
    fn fill<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<bool, Failure> {
        let session = &mut self.sessions[number];
        let mut open = match session.open {
            Some(open) => open,
            None if pace.due().is_none() || session.free.is_empty() => return Ok(false),
            None => {
                let Some(slot) = link.take_tx() else { return Ok(false) };
                Open { number: session.free.pop().unwrap_or_default(), slot, records: 0 }
            }
        };
        let size_bytes = self.record.len();
        let first = open.number as usize * self.per_message;
        let message = link.payload_mut(open.slot)?;
        while open.records < self.per_message
            && let Some(due) = pace.due()
        {
            if pace.point.validate {
                pattern::fill(&mut self.record, self.sequence);
                self.sequence += 1;
            }
            let start = HEADER_BYTES + open.records * size_bytes;
            message[start..start + size_bytes].copy_from_slice(&self.record);
            session.due[first + open.records] = due;
            open.records += 1;
            pace.start();
        }
        session.open = Some(open);
        let waited = pace.now.saturating_duration_since(session.due[first]);
        let is_full = open.records == self.per_message;
        Ok(is_full || pace.rest() == 0 || waited >= self.flush_after)
    }

    /// Posts the open message; false when the fabric is full.
    #[inline]
    fn flush<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<bool, Failure> {
        let session = &mut self.sessions[number];
        let Some(Open { number, slot, records }) = session.open else { return Ok(false) };
        let len_bytes = HEADER_BYTES + records * self.record.len();
        let header = Header { len_bytes, call: number, code: Code::Records };
        header.write(link.payload_mut(slot)?);
        if !link.try_taken(slot, len_bytes, false)? {
            return Ok(false);
        }
        // A moment of its own: filling a message takes time, too.
        let posted = Instant::now();
        let first = number as usize * self.per_message;
        for due in &session.due[first..first + records] {
            pace.part(WAIT, posted.saturating_duration_since(*due));
        }
        session.records[number as usize] = records;
        session.open = None;
        pace.ask(records as u64);
        pace.message(len_bytes);
        Ok(true)
    }
}

/// The server's side: counts records, and checks them.
pub(super) struct Records {
    pub(super) size_bytes: usize,
    pub(super) validate: bool,
}

impl Service for Records {
    #[inline]
    fn handle(&mut self, call: &[u8]) -> Answer {
        let Some(Header { call: number, code: Code::Records, .. }) = Header::read(call) else {
            return Answer::damaged(call);
        };
        let body = &call[HEADER_BYTES..];
        let mut records = body.chunks_exact(self.size_bytes);
        let operations = records.len() as u64;
        let is_whole = operations > 0 && body.len().is_multiple_of(self.size_bytes);
        if !is_whole || (self.validate && records.any(|record| pattern::check(record).is_err())) {
            return Answer::damaged(call);
        }
        Answer { call: number, code: Code::Done, body: 0..0, operations }
    }

    fn body(&self, _place: Range<usize>) -> &[u8] {
        &[]
    }
}
