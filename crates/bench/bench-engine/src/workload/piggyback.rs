//! Records that travel together: they come one by one, by a schedule or as fast as they are taken,
//! and several of them leave in one message, when it is full or its first record has waited long
//! enough.
//!
//! The clocks of two hosts differ, and half of a round trip is no measurement of one way. So each
//! message is answered at once, and two times are kept, both by the sender's clock: from the moment
//! for which a record was intended to the answer, and the part of it until the record's message was
//! posted, which is the delay of travelling together.

use std::ops::Range;
use std::time::{Duration, Instant};

use super::caller::wrong;
use super::message::{Code, HEADER_BYTES, Header};
use super::outstanding::Outstanding;
use super::pace::{Activity, Names, Pace};
use super::server::{self, Answer, Service};
use crate::measure::Random;
use crate::pattern;
use crate::workload::prelude::*;

/// The name of the operation of each record.
const KINDS: [&str; 1] = ["record"];
const PARTS: [&str; 1] = ["wait"];
const RECORD: usize = 0;
const WAIT: usize = 0;

/// A lane of the workload.
pub(super) enum Piggyback {
    /// The client, which sends records.
    Client { random: Random, flush_after: Duration },
    /// The server, which takes records.
    Server,
}

impl Workload for Piggyback {
    fn message_bytes(_job: &JobSpec, size_bytes: usize, records: usize) -> usize {
        size_bytes.saturating_mul(records).saturating_add(HEADER_BYTES)
    }

    fn new(task: &Task) -> Result<Self, Failure> {
        let flush_after = Duration::from_micros(task.job.work.flush_us);
        Ok(match task.side {
            Side::Client => Self::Client { random: task.random(), flush_after },
            Side::Server => Self::Server,
        })
    }

    fn run<B: Backend>(&mut self, part: Part<'_, B>) -> Outcome {
        let PointSpec { size_bytes, validate, .. } = part.point;
        match self {
            Self::Client { random, flush_after } => {
                let Part { links, port, point } = part;
                let names = Names { kinds: &KINDS, parts: &PARTS, are_parts_due: true };
                let pace = Pace::new(point, port, random.next(), names)?;
                let mut gatherer = Gatherer::new(links.len(), point, *flush_after);
                pace.run(links, port, &mut gatherer)
            }
            Self::Server => {
                let mut records = Records { size_bytes: size_bytes.max(1), validate };
                server::answer(part, &mut records)
            }
        }
    }
}

/// A message that is being filled, in a separate slot.
#[derive(Debug, Clone, Copy)]
struct Open {
    number: u32,
    slot: usize,
    records: usize,
}

/// The messages of one endpoint.
struct EndpointMessages {
    /// The number of records of each message that waits for its answer; 0: it is still being
    /// filled.
    messages: Outstanding<usize>,
    /// The time at which each record was due: `per_message` places for each message.
    due: Vec<Instant>,
    open: Option<Open>,
}

/// The state of one thread of the client within a point.
struct Gatherer {
    per_message: usize,
    flush_after: Duration,
    endpoints: Vec<EndpointMessages>,
    /// The bytes that records are copied from; checked records have different contents.
    record: Vec<u8>,
    sequence: u64,
}

impl<B: Backend> Activity<B> for Gatherer {
    #[inline]
    fn collect(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<usize, Failure> {
        let (endpoint, per_message) = (&mut self.endpoints[number], self.per_message);
        pace.collect(link, |pace, answer| endpoint.take(pace, answer, per_message))
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
        let endpoint = &mut self.endpoints[number];
        if let Some(open) = endpoint.open.take() {
            let first = open.number as usize * per_message;
            for due in &endpoint.due[first..first + open.records] {
                pace.give_up(RECORD, WAIT, *due);
            }
            endpoint.messages.end(open.number);
            link.put_back(open.slot);
        }
    }

    fn is_idle(&self, number: usize) -> bool {
        self.endpoints[number].messages.is_empty()
    }
}

impl EndpointMessages {
    /// Handles an answer: the records of a message have arrived.
    #[inline]
    fn take(&mut self, pace: &mut Pace, answer: &[u8], per_message: usize) -> Result<(), Failure> {
        let (header, _) = Header::of_reply(answer)?;
        let records = self.messages.end(header.call).filter(|records| *records > 0);
        let records = records.ok_or_else(|| wrong("is for a message that is not outstanding"))?;
        let first = header.call as usize * per_message;
        for due in &self.due[first..first + records] {
            pace.end(RECORD, *due, 1);
        }
        Ok(())
    }
}

impl Gatherer {
    fn new(links: usize, point: PointSpec, flush_after: Duration) -> Self {
        let (depth, per_message) = (point.depth, point.parameter.max(1));
        let endpoint = || EndpointMessages {
            messages: Outstanding::new(depth),
            due: vec![Instant::now(); depth * per_message],
            open: None,
        };
        Self {
            per_message,
            flush_after,
            endpoints: (0..links).map(|_| endpoint()).collect(),
            record: vec![0x5a; point.size_bytes],
            sequence: 0,
        }
    }

    /// Puts the records that are due into the open message. Returns true if the message is to
    /// leave.
    #[inline]
    fn fill<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<bool, Failure> {
        let endpoint = &mut self.endpoints[number];
        let mut open = match endpoint.open {
            Some(open) => open,
            None => {
                let (Some(_), Some(number)) = (pace.due(), endpoint.messages.next()) else {
                    return Ok(false);
                };
                let Some(slot) = link.take_tx() else { return Ok(false) };
                endpoint.messages.begin(0);
                Open { number, slot, records: 0 }
            }
        };
        let size_bytes = self.record.len();
        let first = open.number as usize * self.per_message;
        let message = link.payload_mut(open.slot)?;
        while open.records < self.per_message {
            let Some(due) = pace.due() else { break };
            if pace.point.validate {
                pattern::fill(&mut self.record, self.sequence);
                self.sequence += 1;
            }
            let start = HEADER_BYTES + open.records * size_bytes;
            message[start..start + size_bytes].copy_from_slice(&self.record);
            endpoint.due[first + open.records] = due;
            open.records += 1;
            pace.start();
        }
        endpoint.open = Some(open);
        let waited = pace.now.saturating_duration_since(endpoint.due[first]);
        let is_full = open.records == self.per_message;
        Ok(is_full || pace.rest() == 0 || waited >= self.flush_after)
    }

    /// Posts the open message. Returns false if the fabric is full.
    #[inline]
    fn flush<B: Backend>(
        &mut self,
        pace: &mut Pace,
        link: &mut Link<B>,
        number: usize,
    ) -> Result<bool, Failure> {
        let endpoint = &mut self.endpoints[number];
        let Some(Open { number, slot, records }) = endpoint.open else { return Ok(false) };
        let len_bytes = HEADER_BYTES + records * self.record.len();
        let header = Header { len_bytes, call: number, code: Code::Records };
        header.write(link.payload_mut(slot)?);
        if !link.try_taken(slot, len_bytes, false)? {
            return Ok(false);
        }
        // The clock is read again, because filling a message takes time, too.
        let posted = Instant::now();
        let first = number as usize * self.per_message;
        for due in &endpoint.due[first..first + records] {
            pace.part(WAIT, posted.saturating_duration_since(*due));
        }
        if let Some(posted) = endpoint.messages.get(number) {
            *posted = records;
        }
        endpoint.open = None;
        pace.ask(records as u64);
        pace.message(len_bytes);
        Ok(true)
    }
}

/// The server's side, which counts records, and checks them.
struct Records {
    size_bytes: usize,
    validate: bool,
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
        let is_whole = operations > 0 && body.len() % self.size_bytes == 0;
        if !is_whole || (self.validate && records.any(|record| pattern::check(record).is_err())) {
            return Answer::damaged(call);
        }
        Answer { call: number, code: Code::Done, body: 0..0, operations }
    }

    fn body(&self, _place: Range<usize>) -> &[u8] {
        &[]
    }
}
